//! The part of a container's `job.json` that a monitor reads.

use std::path::{Component, Path, PathBuf};

use serde::Deserialize;

use crate::{Error, Result};

/// The name of the file in a container's directory.
pub const JOB: &str = "job.json";
/// A job with the largest system call profile is a tenth of this.
const LARGEST: u64 = 4 * 1024 * 1024;

/// What a monitor needs to know of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobPart {
    /// The container's directory for state that does not survive a reboot.
    pub run_dir: PathBuf,
    /// Its cgroup, from the root of each hierarchy, without a leading slash.
    pub cgroup: PathBuf,
    /// The maps of its user namespace, if it has one.
    pub ids: Option<Maps>,
    /// The user ID that it runs as, where that is given by number, else 0.
    pub uid: u32,
    /// The same for the group ID.
    pub gid: u32,
}

/// The maps of a user namespace.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Maps {
    uids: Vec<Line>,
    gids: Vec<Line>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    host_id: u32,
    container_id: u32,
    length: u32,
}

impl Maps {
    /// A user and group of the container as host IDs; `None` if they are not mapped.
    #[must_use]
    pub fn on_host(&self, uid: u32, gid: u32) -> Option<(u32, u32)> {
        Some((translate(&self.uids, uid)?, translate(&self.gids, gid)?))
    }
}

fn translate(lines: &[Line], id: u32) -> Option<u32> {
    lines.iter().find_map(|line| {
        let offset = id.checked_sub(line.container_id)?;
        if offset < line.length { line.host_id.checked_add(offset) } else { None }
    })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Written {
    version: u32,
    run_dir: PathBuf,
    start: WrittenStart,
}

#[derive(Deserialize)]
struct WrittenStart {
    cgroup: WrittenCgroup,
    #[serde(default)]
    ids: Option<Maps>,
    #[serde(default)]
    process: Option<WrittenProcess>,
}

#[derive(Deserialize)]
struct WrittenProcess {
    #[serde(default)]
    user: Option<WrittenUser>,
}

#[derive(Deserialize)]
struct WrittenUser {
    #[serde(default)]
    uid: Option<u32>,
    #[serde(default)]
    gid: Option<u32>,
}

#[derive(Deserialize)]
struct WrittenCgroup {
    path: String,
}

impl JobPart {
    /// Of the container whose directory this is.
    pub fn read(dir: &Path) -> Result<Self> {
        let path = dir.join(JOB);
        let wrong = |why: String| Error::Record { path: path.clone(), why };
        let text = durable::read(&path, LARGEST)?.ok_or_else(|| wrong("there is none".to_owned()))?;
        Self::parse(&text).map_err(wrong)
    }

    /// From the text of a job. Fields that are not needed here are ignored.
    pub fn parse(text: &[u8]) -> Result<Self, String> {
        let written: Written = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        if written.version != 1 {
            return Err(format!("version {} is not known", written.version));
        }
        if !written.run_dir.is_absolute() {
            return Err(format!("runDir {:?} is not absolute", written.run_dir));
        }
        let cgroup = below_root(&written.start.cgroup.path)
            .ok_or_else(|| format!("start.cgroup.path {:?} is no path", written.start.cgroup.path))?;
        let user = written.start.process.and_then(|process| process.user);
        let (uid, gid) = user.map_or((0, 0), |user| (user.uid.unwrap_or(0), user.gid.unwrap_or(0)));
        Ok(Self { run_dir: written.run_dir, cgroup, ids: written.start.ids, uid, gid })
    }
}

/// A path that cannot lead elsewhere when it is joined to another.
fn below_root(path: &str) -> Option<PathBuf> {
    let mut found = PathBuf::new();
    for part in Path::new(path).components() {
        match part {
            Component::RootDir | Component::CurDir => {}
            Component::Normal(name) => found.push(name),
            Component::ParentDir | Component::Prefix(_) => return None,
        }
    }
    (!path.contains('\0')).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(cgroup: &str) -> String {
        format!(
            r#"{{"version":1,"engine":"libcontainer","runDir":"/run/c/1","start":{{"id":"1","mounts":[{{}}],"cgroup":{{"path":{cgroup},"resources":{{}}}}}}}}"#
        )
    }

    #[test]
    fn only_the_needed_fields_are_looked_at() {
        let part = JobPart::parse(job(r#""/kubepods/pod1/c1""#).as_bytes()).unwrap();
        assert_eq!(
            part,
            JobPart {
                run_dir: "/run/c/1".into(),
                cgroup: PathBuf::from("kubepods/pod1/c1"),
                ids: None,
                uid: 0,
                gid: 0,
            }
        );
    }

    #[test]
    fn a_control_group_never_leads_out_of_its_hierarchy() {
        for path in [r#""../etc""#, r#""/a/../../b""#, r#""a\u0000b""#, "3", "null"] {
            assert!(JobPart::parse(job(path).as_bytes()).is_err(), "{path}");
        }
        assert_eq!(JobPart::parse(job(r#""//a/./b""#).as_bytes()).unwrap().cgroup, Path::new("a/b"));
    }

    #[test]
    fn users_are_translated_by_the_maps() {
        let line =
            |host, container| format!(r#"[{{"hostId":{host},"containerId":{container},"length":10}}]"#);
        let text = format!(
            r#"{{"version":1,"runDir":"/r","start":{{"cgroup":{{"path":"/c"}},
                "ids":{{"uids":{},"gids":{}}},"process":{{"user":{{"uid":7,"gid":null}}}}}}}}"#,
            line(65_536, 0),
            line(u32::MAX - 1, 0)
        );
        let part = JobPart::parse(text.as_bytes()).unwrap();
        assert_eq!((part.uid, part.gid), (7, 0));
        let ids = part.ids.unwrap();
        assert_eq!(ids.on_host(7, 1), Some((65_543, u32::MAX)));
        assert_eq!(ids.on_host(10, 0), None, "beyond the line");
        assert_eq!(ids.on_host(0, 2), None, "beyond all numbers");
    }

    /// Every cut and every changed byte of a job is read or refused, and no path leads out.
    #[test]
    fn a_damaged_job_is_refused_or_harmless() {
        let whole = job(r#""/kubepods/pod1/c1""#).into_bytes();
        for cut in 0..whole.len() {
            assert!(JobPart::parse(&whole[..cut]).is_err());
        }
        for (place, byte) in (0..whole.len()).flat_map(|place| (0..=255).map(move |byte| (place, byte))) {
            let mut changed = whole.clone();
            changed[place] = byte;
            if let Ok(part) = JobPart::parse(&changed) {
                assert!(part.run_dir.is_absolute());
                assert!(part.cgroup.components().all(|part| matches!(part, Component::Normal(_))));
            }
        }
        assert!(JobPart::parse("[".repeat(100_000).as_bytes()).is_err());
    }
}

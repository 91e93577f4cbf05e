use std::fs::{self, File, Metadata};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::Context;
use ids::{ContainerId, HostId};

use crate::script::{Inside, OnDisk, WATCHED, Watched};
use crate::stage::Stage;

/// The user and the group of a file or a process, as somebody sees them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Owner {
    uid: u32,
    gid: u32,
}

impl Owner {
    pub(crate) fn inside(uid: ContainerId, gid: ContainerId) -> Self {
        Self { uid: uid.get(), gid: gid.get() }
    }

    pub(crate) fn outside((uid, gid): (HostId, HostId)) -> Self {
        Self { uid: uid.get(), gid: gid.get() }
    }

    fn of(meta: &Metadata) -> Self {
        Self { uid: meta.uid(), gid: meta.gid() }
    }
}

impl std::fmt::Display for Owner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(&format!("{}:{}", self.uid, self.gid))
    }
}

impl FromStr for Owner {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let parsed = text.split_once(':').and_then(|(uid, gid)| Some((uid.parse().ok()?, gid.parse().ok()?)));
        parsed.map(|(uid, gid)| Self { uid, gid }).with_context(|| format!("{text:?} is no owner"))
    }
}

/// A file as it was before the container. The change time moves with every chown and write.
pub(crate) struct Before {
    path: PathBuf,
    changed: (i64, i64),
}

/// The files that the container must leave as they are.
pub(crate) fn before(stage: &Stage) -> anyhow::Result<Vec<Before>> {
    let kept = WATCHED.iter().filter(|file| matches!(file.on_disk, OnDisk::Volume | OnDisk::Layer));
    let mut paths: Vec<PathBuf> = kept.map(|file| on_disk(stage, file)).collect();
    paths.push(stage.layer.join("etc/motd"));
    paths.into_iter().map(|path| Ok(Before { changed: changed(&path)?, path })).collect()
}

/// One file from all sides.
pub(crate) struct Seen {
    pub(crate) file: &'static Watched,
    pub(crate) on_disk: Owner,
    pub(crate) inside: Owner,
    /// As the host sees it through the container's own mounts.
    pub(crate) through_root: Owner,
}

/// All that was seen while the container lived.
pub(crate) struct Evidence {
    pub(crate) pid: u32,
    pub(crate) inside: Inside,
    pub(crate) uid_map: String,
    pub(crate) gid_map: String,
    /// Real, effective, saved and filesystem IDs of the container's first process.
    pub(crate) process: [Owner; 4],
    pub(crate) files: Vec<Seen>,
    /// Files that must have been left alone and were not.
    pub(crate) touched: Vec<PathBuf>,
    /// Lines of the host's mount table that speak of this run.
    pub(crate) host_mounts: Vec<String>,
}

impl Evidence {
    pub(crate) fn gather(pid: u32, inside: Inside, stage: &Stage) -> anyhow::Result<Self> {
        let proc = PathBuf::from(format!("/proc/{pid}"));
        let files = WATCHED.iter().map(|file| Seen::look(file, &inside, stage, &proc));
        Ok(Self {
            pid,
            uid_map: map_text(&read(&proc.join("uid_map"))?),
            gid_map: map_text(&read(&proc.join("gid_map"))?),
            process: credentials(&read(&proc.join("status"))?)?,
            files: files.collect::<anyhow::Result<_>>()?,
            inside,
            touched: vec![],
            host_mounts: vec![],
        })
    }

    pub(crate) fn compare(&mut self, before: Vec<Before>) -> anyhow::Result<()> {
        for file in before {
            if changed(&file.path)? != file.changed {
                self.touched.push(file.path);
            }
        }
        Ok(())
    }

    /// `table` was opened before the private mount namespace was made, so it is still the host's.
    pub(crate) fn search(&mut self, mut table: &File, scratch: &Path) -> anyhow::Result<()> {
        let mut text = String::new();
        table.read_to_string(&mut text).context("cannot read the host's mount table")?;
        let ours = scratch.display().to_string();
        self.host_mounts = text.lines().filter(|line| line.contains(&ours)).map(str::to_owned).collect();
        Ok(())
    }
}

impl Seen {
    fn look(file: &'static Watched, inside: &Inside, stage: &Stage, proc: &Path) -> anyhow::Result<Self> {
        Ok(Self {
            file,
            on_disk: owner(&on_disk(stage, file))?,
            inside: inside.owner(file.path)?,
            through_root: owner(&proc.join("root").join(relative(file.path)))?,
        })
    }
}

/// A map as text, its columns parted by single blanks.
pub(crate) fn map_text(raw: &str) -> String {
    let lines = raw.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    lines.collect::<Vec<_>>().join(", ")
}

fn on_disk(stage: &Stage, file: &Watched) -> PathBuf {
    match file.on_disk {
        OnDisk::Volume | OnDisk::NewInVolume => stage.volume.join(relative(relative_to_data(file.path))),
        OnDisk::Layer => stage.layer.join(relative(file.path)),
        OnDisk::Upper => stage.upper.join(relative(file.path)),
    }
}

fn relative_to_data(path: &str) -> &str {
    path.strip_prefix("/data").unwrap_or(path)
}

fn relative(path: &str) -> &str {
    path.trim_start_matches('/')
}

fn owner(path: &Path) -> anyhow::Result<Owner> {
    let meta = fs::symlink_metadata(path).with_context(|| format!("cannot look at {}", path.display()))?;
    Ok(Owner::of(&meta))
}

fn changed(path: &Path) -> anyhow::Result<(i64, i64)> {
    let meta = fs::symlink_metadata(path).with_context(|| format!("cannot look at {}", path.display()))?;
    Ok((meta.ctime(), meta.ctime_nsec()))
}

fn read(path: &Path) -> anyhow::Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

/// The Uid and Gid lines of /proc/PID/status, four IDs each.
fn credentials(status: &str) -> anyhow::Result<[Owner; 4]> {
    let (uids, gids) = (four(status, "Uid:")?, four(status, "Gid:")?);
    let owners: Vec<Owner> = uids.into_iter().zip(gids).map(|(uid, gid)| Owner { uid, gid }).collect();
    owners.try_into().ok().context("/proc/PID/status has no four IDs")
}

fn four(status: &str, field: &str) -> anyhow::Result<Vec<u32>> {
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let ids = line.with_context(|| format!("/proc/PID/status has no {field} line"))?.split_whitespace();
    ids.map(|id| id.parse().with_context(|| format!("/proc/PID/status: {id:?} is no ID"))).collect()
}

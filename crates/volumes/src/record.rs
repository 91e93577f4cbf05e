//! What was created for a pod, recorded before it is created.
//!
//! An object that exists in a pod's directory and not in its record is foreign. An object in the record may exist or
//! not: the reader of the record checks.

use std::fmt;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use durable::AtomicFile;
use ids::{IdKind, IdMapping, UserNamespace};
use kernel::{Dir, IdMaps, MountEntry, MountTable};
use rustix::fs::{AtFlags, StatxFlags, statx};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::layout::{MadeKind, NEW_RECORD, RECORD, sub_path};
use types::{ContainerName, PodUid, VolumeName};

/// The version that is written. docs/design/volumes.md says what each had.
const VERSION: u32 = 2;

/// Filesystems that tell files of one mount by several numbers, none of which need be mountinfo's.
const MANY_DEVICES: [&str; 3] = ["btrfs", "bcachefs", "overlay"];

/// What was made for a pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Record {
    version: u32,
    pub(crate) pod: PodUid,
    /// The users that the volumes were made for; `None` in a record of version 1, which does not have it.
    #[serde(default)]
    pub(crate) users: Option<Users>,
    pub(crate) volumes: Vec<MadeVolume>,
    /// Parts of volumes that are mounted for a runtime that takes paths.
    pub(crate) sub_paths: Vec<MadeSubPath>,
    /// Directories that are being made for volumes, and may not have their owner and mode yet.
    pub(crate) half_made: Vec<HalfMade>,
}

/// The maps of a user namespace. Both are empty for the host's users.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Users {
    uids: Vec<IdMapping>,
    gids: Vec<IdMapping>,
}

impl Users {
    pub(crate) fn of(namespace: &UserNamespace) -> Self {
        let lines = |kind| namespace.lines(kind).unwrap_or_default();
        Self { uids: lines(IdKind::Uid), gids: lines(IdKind::Gid) }
    }

    /// `None` where there is no user namespace.
    pub(crate) fn maps(&self) -> Option<IdMaps> {
        (!self.uids.is_empty()).then(|| IdMaps::new(&self.uids, &self.gids))
    }
}

impl fmt::Display for Users {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.maps() {
            Some(maps) => maps.fmt(f),
            None => f.write_str("the host's users"),
        }
    }
}

/// A volume in a pod's directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct MadeVolume {
    pub(crate) name: VolumeName,
    pub(crate) kind: MadeKind,
    pub(crate) state: MadeState,
    pub(crate) numbers: Numbers,
    /// The mount at the volume's directory, if it is one, known before it is attached.
    pub(crate) mount: Option<MountMark>,
    /// The host's tree that it is, if its files are given to the pod's block.
    pub(crate) given: Option<Given>,
}

/// A tree of the host's whose files are given to a block.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Given {
    pub(crate) path: PathBuf,
    pub(crate) uids: Vec<IdMapping>,
    pub(crate) gids: Vec<IdMapping>,
}

/// How far a volume is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum MadeState {
    /// Its directory, mount and content may be there or not.
    Making,
    /// It is there, and what is in it may be the pod's: never made anew while it is there.
    Ready,
    /// What is in it may be gone in part: never used again.
    Leaving,
}

/// In whose numbers the owners of a volume's files are written on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Numbers {
    /// The container's; the mount is idmapped, or the pod has the host's users.
    Containers,
    /// The host's: those that the pod's block maps the container's to.
    Hosts,
}

/// A part of a volume, mounted at a path of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct MadeSubPath {
    pub(crate) volume: VolumeName,
    pub(crate) container: ContainerName,
    pub(crate) index: usize,
    pub(crate) mount: MountMark,
}

/// Directories that are being made for a volume: in it, or on the host for a hostPath.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct HalfMade {
    pub(crate) volume: VolumeName,
    /// The host's directory that `below` starts at; the volume's own if `None`. Without links on the way.
    pub(crate) host: Option<PathBuf>,
    /// The last directory that was there. Without links on the way.
    pub(crate) below: PathBuf,
    /// Those that were not.
    pub(crate) path: PathBuf,
    /// The permissions that each is given.
    pub(crate) mode: u32,
    /// The user and the group that each is given.
    pub(crate) owner: (u32, u32),
}

/// Identifies a mount of ours against one that replaced it: its mount ID and the device of its filesystem, both known
/// while it is still detached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct MountMark {
    id: u64,
    device: (u32, u32),
}

impl MountMark {
    pub(crate) fn of(mount: impl AsFd, what: &Path) -> Result<Self> {
        let flags = AtFlags::EMPTY_PATH | AtFlags::NO_AUTOMOUNT;
        let found = statx(mount, c"", flags, StatxFlags::MNT_ID | StatxFlags::INO)
            .map_err(|errno| Error::io("look at", what, errno))?;
        Ok(Self { id: found.stx_mnt_id, device: (found.stx_dev_major, found.stx_dev_minor) })
    }

    pub(crate) fn is(self, entry: &MountEntry) -> bool {
        let same_device = entry.device == self.device || MANY_DEVICES.contains(&&*entry.filesystem);
        entry.id == self.id && same_device
    }

    /// Whether it is what one sees at `point`.
    pub(crate) fn is_at(self, table: &MountTable, point: &Path) -> bool {
        table.at(point).is_some_and(|entry| self.is(entry))
    }
}

impl MadeSubPath {
    pub(crate) fn point(&self) -> PathBuf {
        sub_path(&self.volume, &self.container, self.index)
    }
}

impl Record {
    pub(crate) fn new(pod: PodUid) -> Self {
        Self { version: VERSION, pod, users: None, volumes: vec![], sub_paths: vec![], half_made: vec![] }
    }

    /// The record in a pod's directory; `None` where there is none.
    pub(crate) fn read(dir: &Dir) -> Result<Option<Self>> {
        let text = file(dir).read(durable::record::LARGEST)?;
        text.map(|text| Self::parse(&text, &dir.path().join(RECORD))).transpose()
    }

    fn parse(text: &[u8], path: &Path) -> Result<Self> {
        let read: Self = durable::parse_record(text, path)?;
        // As which it will be written.
        Ok(Self { version: VERSION, ..read })
    }

    /// Has it on disk when it returns: the old record or this one, never a mixture.
    pub(crate) fn write(&self, dir: &Dir) -> Result<()> {
        let mut text = serde_json::to_vec_pretty(self)
            .map_err(|e| Error::DamagedRecord { path: dir.path().join(RECORD), cause: e.to_string() })?;
        text.push(b'\n');
        Ok(file(dir).replace(&text)?)
    }

    /// Takes the record away; nothing that was made may be left by then.
    pub(crate) fn remove(dir: &Dir) -> Result<()> {
        file(dir).remove()?;
        Ok(dir.sync()?)
    }

    pub(crate) fn volume(&self, name: &VolumeName) -> Option<&MadeVolume> {
        self.volumes.iter().find(|v| v.name == *name)
    }

    /// Fails if what is in the volume is other users': by its owners on disk, or by layers that were
    /// idmapped when they were put together.
    pub(crate) fn refuse_others(&self, made: &MadeVolume, users: &Users) -> Result<()> {
        let is_bound = made.numbers == Numbers::Hosts || made.kind == MadeKind::Image;
        match &self.users {
            Some(others) if others != users && is_bound && made.given.is_none() => Err(Error::OtherUsers {
                pod: self.pod.clone(),
                volume: made.name.clone(),
                made_for: others.to_string(),
                wanted: users.to_string(),
            }),
            _ => Ok(()),
        }
    }

    pub(crate) fn volume_mut(&mut self, name: &VolumeName) -> Option<&mut MadeVolume> {
        self.volumes.iter_mut().find(|v| v.name == *name)
    }
}

impl durable::Record for Record {
    const VERSION: u32 = VERSION;
    const OLDEST: u32 = 1;
}

fn file(dir: &Dir) -> AtomicFile<'_> {
    AtomicFile::within(dir.as_fd(), dir.path(), RECORD).temporary(NEW_RECORD)
}

pub(crate) fn errno_of(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file of the first version, as it must be readable for ever.
    const FIRST: &str = include_str!("../tests/fixtures/volumes-v1.json");

    /// The same of the second, which has the pod's users.
    const SECOND: &str = include_str!("../tests/fixtures/volumes-v2.json");

    fn parse(text: &str) -> Result<Record> {
        Record::parse(text.as_bytes(), Path::new("volumes.json"))
    }

    #[test]
    fn a_record_of_the_first_version_is_read() {
        let record = parse(FIRST).unwrap();
        assert_eq!(record.pod.as_str(), "0d3a5c1e");
        assert_eq!(record.volumes.len(), 4);
        assert_eq!(record.volumes[3].given.as_ref().unwrap().path, Path::new("/srv/nfs"));
        assert_eq!(record.volumes[1].mount, Some(MountMark { id: 412, device: (0, 57) }));
        assert_eq!(record.sub_paths[0].point(), Path::new("volume-subpaths/cache/main/2"));
        assert_eq!(parse(&serde_json::to_string(&record).unwrap()).unwrap(), record);
    }

    #[test]
    fn a_record_of_the_second_version_is_read_and_says_whose_it_is() {
        let (first, second) = (parse(FIRST).unwrap(), parse(SECOND).unwrap());
        assert_eq!(second.users.as_ref().unwrap().to_string(), "0:65536:65536");
        assert_eq!(Record { users: None, ..second.clone() }, first, "all else is as it was");
        assert_eq!(parse(&serde_json::to_string(&second).unwrap()).unwrap(), second);
    }

    #[test]
    fn a_record_is_written_as_one_of_the_newest_version() {
        let text = serde_json::to_value(parse(FIRST).unwrap()).unwrap();
        assert_eq!(text["version"], VERSION);
    }

    #[test]
    fn a_record_of_a_newer_version_is_named_as_such() {
        let error = parse(&SECOND.replace("\"version\": 2", "\"version\": 3")).unwrap_err();
        assert!(matches!(error, Error::NewerRecord { found: 3, .. }), "{error}");
    }

    #[test]
    fn a_record_with_a_name_that_leads_elsewhere_is_damaged() {
        for bad in ["../../etc", "a/b", ".."] {
            let text = FIRST.replace("\"name\": \"cache\"", &format!("\"name\": \"{bad}\""));
            assert!(matches!(parse(&text), Err(Error::DamagedRecord { .. })), "{bad}");
        }
        assert!(matches!(parse("{"), Err(Error::DamagedRecord { .. })));
    }
}

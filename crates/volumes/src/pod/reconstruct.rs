//! Volumes that a kubelet has made for a pod in the same directory: entered into the pod's record, so that containers go on
//! with them, updates reach them, and they are removed with the pod.
//!
//! ```text
//! volumes/kubernetes.io~configmap/<name>                       a directory
//! volumes/kubernetes.io~{secret,projected,downward-api}/<name> a tmpfs
//! volumes/kubernetes.io~empty-dir/<name>                       a directory, a tmpfs or a hugetlbfs
//! volume-subpaths/<volume>/<container>/<index>                 a mounted part of a volume
//! plugins/kubernetes.io~empty-dir/{<name>,wrapped_<name>}/ready
//! ```
//!
//! Nothing else is entered: what is at another path, is a link, or has another filesystem on it is another driver's, and is
//! reported and left. The record that there is may be of a time before the kubelet: mounts that it has made anew since, for
//! instance after a reboot, take the place of those in the record.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use kernel::{Dir, Entry, Kind, LastLink, MountEntry, MountTable, Within};

use super::dir::PodDir;
use crate::error::Result;
use crate::layout::{MadeKind, SUB_PATHS, VOLUMES};
use crate::record::{MadeState, MadeSubPath, MadeVolume, MountMark, Numbers, Record};
use types::{ContainerName, VolumeName};

/// The kinds of volumes that a kubelet makes itself.
const KINDS: [MadeKind; 5] =
    [MadeKind::EmptyDir, MadeKind::ConfigMap, MadeKind::Secret, MadeKind::DownwardApi, MadeKind::Projected];
const TMPFS: &str = "tmpfs";
const HUGE_PAGES: &str = "hugetlbfs";

/// What was found in a pod's directory.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    /// Whether the record was changed.
    pub(crate) is_changed: bool,
    /// What neither this agent nor a kubelet by itself makes, below the pod's directory.
    pub(crate) unknown: Vec<PathBuf>,
}

/// Brings a record in line with what a kubelet has made.
pub(crate) fn reconstruct(pod: &PodDir, record: &mut Record) -> Result<Found> {
    let mut scan = Scan { pod, table: MountTable::read()?, found: Found::default() };
    scan.volumes(record)?;
    scan.sub_paths(record)?;
    Ok(scan.found)
}

struct Scan<'a> {
    pod: &'a PodDir,
    table: MountTable,
    found: Found,
}

impl Scan<'_> {
    fn volumes(&mut self, record: &mut Record) -> Result<()> {
        for (of_kind, entry) in self.entries(Path::new(VOLUMES))? {
            let Some(kinds) = self.dir(&of_kind, &entry)? else { continue };
            let kind = KINDS.into_iter().find(|kind| entry.name == kind.dir());
            for volume in kinds.entries()? {
                let path = of_kind.join(&volume.name);
                let name = text(&volume.name).and_then(|text| VolumeName::new(text).ok());
                let is_own = |made: &&MadeVolume| made.kind.volume(&made.name) == path;
                match (kind, name) {
                    (Some(kind), Some(name)) if volume.kind == Kind::Directory => {
                        self.volume(record, kind, &name)?;
                    }
                    // A kind that only this agent makes.
                    _ if record.volumes.iter().any(|made| is_own(&made)) => {}
                    _ => self.found.unknown.push(path),
                }
            }
        }
        Ok(())
    }

    /// Enters a volume, if it is as a kubelet makes one.
    fn volume(&mut self, record: &mut Record, kind: MadeKind, name: &VolumeName) -> Result<()> {
        let path = kind.volume(name);
        let Some(dir) = self.pod.find(&path)? else { return Ok(()) };
        let mark = match self.table.at(&self.pod.path(&path)) {
            None => None,
            Some(entry) => match MountMark::of(&dir, dir.path())? {
                mark if mark.is(entry) && is_kubelets(kind, entry) => Some(mark),
                _ => {
                    self.found.unknown.push(path);
                    return Ok(());
                }
            },
        };
        let state = self.state(kind, name)?;
        match record.volume_mut(name) {
            Some(made) if made.kind != kind => self.found.unknown.push(path),
            // What is recorded and not mounted any more is mounted anew.
            Some(made) if mark.is_none() || made.mount == mark => {}
            Some(made) => {
                made.mount = mark;
                self.found.is_changed = true;
            }
            None => {
                let (name, given) = (name.clone(), None);
                let numbers = Numbers::Containers;
                record.volumes.push(MadeVolume { name, kind, state, numbers, mount: mark, given });
                self.found.is_changed = true;
            }
        }
        Ok(())
    }

    /// Scratch space without the mark of a kubelet has not got its owner and its mode yet. Files are written anew where
    /// they are not as they should be.
    fn state(&self, kind: MadeKind, name: &VolumeName) -> Result<MadeState> {
        let is_marked = || -> Result<bool> {
            let Some(dir) = self.pod.find(&kind.kubelets_mark(name))? else { return Ok(false) };
            Ok(dir.entries()?.iter().any(|entry| entry.name == READY))
        };
        Ok(if kind != MadeKind::EmptyDir || is_marked()? { MadeState::Ready } else { MadeState::Making })
    }

    fn sub_paths(&mut self, record: &mut Record) -> Result<()> {
        for (of_volume, volume) in self.entries(Path::new(SUB_PATHS))? {
            let Some(containers) = self.dir(&of_volume, &volume)? else { continue };
            for container in containers.entries()? {
                let of_container = of_volume.join(&container.name);
                let Some(points) = self.dir(&of_container, &container)? else { continue };
                for point in points.entries()? {
                    let path = of_container.join(&point.name);
                    match named(&volume, &container, &point) {
                        Some(named) => self.sub_path(record, named)?,
                        None => self.found.unknown.push(path),
                    }
                }
            }
        }
        Ok(())
    }

    /// Enters a part of a volume; a mount point that nothing is mounted at is removed as one.
    fn sub_path(&mut self, record: &mut Record, named: Named) -> Result<()> {
        let Named { volume, container, index } = named;
        let path = crate::layout::sub_path(&volume, &container, index);
        let node = self.pod.dir().node(&path, Within::NoLinks, LastLink::Keep)?;
        let mark = MountMark::of(&node, node.path())?;
        let entry = self.table.at(&self.pod.path(&path));
        if entry.is_some_and(|entry| !mark.is(entry)) {
            // Mounted while the table was read.
            self.found.unknown.push(path);
            return Ok(());
        }
        let is_it = |made: &&mut MadeSubPath| {
            (&made.volume, &made.container, made.index) == (&volume, &container, index)
        };
        match record.sub_paths.iter_mut().find(is_it) {
            Some(made) if entry.is_none() || made.mount == mark => {}
            Some(made) => {
                made.mount = mark;
                self.found.is_changed = true;
            }
            None => {
                record.sub_paths.push(MadeSubPath { volume, container, index, mount: mark });
                self.found.is_changed = true;
            }
        }
        Ok(())
    }

    /// What is in a directory of the pod's, each with its path below the pod's; nothing if there is no such directory.
    fn entries(&self, below: &Path) -> Result<Vec<(PathBuf, Entry)>> {
        let Some(dir) = self.pod.find(below)? else { return Ok(Vec::new()) };
        Ok(dir.entries()?.into_iter().map(|entry| (below.join(&entry.name), entry)).collect())
    }

    /// The directory at this path. Anything else there is not known.
    fn dir(&mut self, path: &Path, entry: &Entry) -> Result<Option<Dir>> {
        if entry.kind == Kind::Directory {
            return self.pod.find(path);
        }
        self.found.unknown.push(path.to_owned());
        Ok(None)
    }
}

/// Whether a kubelet mounts this for a volume of this kind: a filesystem in memory as a whole.
fn is_kubelets(kind: MadeKind, entry: &MountEntry) -> bool {
    let filesystem = entry.filesystem.as_str();
    let fits = match kind {
        MadeKind::EmptyDir => [TMPFS, HUGE_PAGES].contains(&filesystem),
        MadeKind::Secret | MadeKind::DownwardApi | MadeKind::Projected => filesystem == TMPFS,
        MadeKind::ConfigMap | MadeKind::Image | MadeKind::HostPath => false,
    };
    fits && entry.root == Path::new("/")
}

/// A part of a volume by its path.
struct Named {
    volume: VolumeName,
    container: ContainerName,
    index: usize,
}

fn named(volume: &Entry, container: &Entry, point: &Entry) -> Option<Named> {
    if ![Kind::Directory, Kind::File].contains(&point.kind) {
        return None;
    }
    let number = text(&point.name)?;
    let index: usize = number.parse().ok()?;
    Some(Named {
        volume: VolumeName::new(text(&volume.name)?).ok()?,
        container: ContainerName::new(text(&container.name)?).ok()?,
        // As it is written back into a path.
        index: Some(index).filter(|index| index.to_string() == number)?,
    })
}

fn text(name: &OsStr) -> Option<&str> {
    name.to_str()
}

/// The file by which a kubelet knows that a volume is complete.
const READY: &str = "ready";

#[cfg(test)]
mod tests {
    use super::*;

    fn mounted(line: &str) -> MountEntry {
        MountTable::parse(line).unwrap().iter().next().unwrap().clone()
    }

    #[test]
    fn only_filesystems_that_a_kubelet_mounts_for_a_kind_are_its_own() {
        let tmpfs = mounted("36 35 0:40 / /p rw - tmpfs tmpfs rw\n");
        let huge = mounted("36 35 0:40 / /p rw - hugetlbfs nodev rw\n");
        let bound = mounted("36 35 0:40 /part /p rw - tmpfs tmpfs rw\n");
        let disk = mounted("36 35 8:1 / /p rw - ext4 /dev/sda1 rw\n");
        let fits = |entry: &MountEntry| KINDS.map(|kind| is_kubelets(kind, entry));
        assert_eq!(fits(&tmpfs), [true, false, true, true, true]);
        assert_eq!(fits(&huge), [true, false, false, false, false]);
        assert_eq!([fits(&bound), fits(&disk)], [[false; 5]; 2]);
        assert!(!is_kubelets(MadeKind::Image, &tmpfs) && !is_kubelets(MadeKind::HostPath, &tmpfs));
    }

    #[test]
    fn a_part_of_a_volume_is_known_by_the_path_that_leads_to_it_again() {
        let entry = |name: &str, kind| Entry { name: name.into(), kind };
        let of = |volume: &str, container: &str, index: &str, kind| {
            named(&entry(volume, Kind::Directory), &entry(container, Kind::Directory), &entry(index, kind))
                .map(|named| crate::layout::sub_path(&named.volume, &named.container, named.index))
        };
        let path = Path::new("volume-subpaths/data/main/2").to_owned();
        assert_eq!(of("data", "main", "2", Kind::File), Some(path));
        for (volume, container, index, kind) in [
            ("data", "main", "02", Kind::File),
            ("data", "main", "+2", Kind::File),
            ("data", "main", "x", Kind::Directory),
            ("data", "main", "2", Kind::Symlink),
            ("..", "main", "2", Kind::File),
            ("data", ".main", "2", Kind::File),
        ] {
            assert_eq!(of(volume, container, index, kind), None, "{volume}/{container}/{index}");
        }
    }
}

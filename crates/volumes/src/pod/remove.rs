//! Taking away what the record says was made, and nothing else.

use std::ffi::OsStr;
use std::path::Path;

use kernel::{Dir, Kernel, MountTable, Unmount};
use rustix::fs::{AtFlags, unlinkat};
use rustix::io::Errno;

use super::dir::PodDir;
use super::given::Trees;
use super::homes::Homes;
use crate::error::{Error, Result};
use crate::layout::MadeKind;
use crate::probe::Notice;
use crate::record::{MadeState, MadeSubPath, MadeVolume, MountMark, Record};
use types::VolumeName;

/// What it takes to remove volumes of a pod.
pub(crate) struct Removal<'a> {
    pub(crate) kernel: &'a dyn Kernel,
    pub(crate) homes: &'a Homes,
    pub(crate) pod: &'a PodDir,
}

impl Removal<'_> {
    /// Removes these volumes with all that hangs on them, and strikes from the record what is gone.
    /// One that cannot be removed keeps none of the others.
    pub(crate) fn volumes(
        &self,
        record: &mut Record,
        gone: &dyn Fn(&MadeVolume) -> bool,
    ) -> Result<Vec<Notice>> {
        let names: Vec<VolumeName> =
            record.volumes.iter().filter(|v| gone(v)).map(|v| v.name.clone()).collect();
        if names.is_empty() {
            return Ok(vec![]);
        }
        let fresh = |v: &&mut MadeVolume| names.contains(&v.name) && v.state != MadeState::Leaving;
        let mut changed = false;
        for volume in record.volumes.iter_mut().filter(fresh) {
            volume.state = MadeState::Leaving;
            changed = true;
        }
        if changed {
            record.write(self.pod.dir())?;
        }
        let (mut notices, mut errors) = (vec![], vec![]);
        for name in &names {
            match self.one(record, name) {
                Ok(notice) => notices.extend(notice),
                Err(error) => errors.push(error),
            }
        }
        record.write(self.pod.dir())?;
        Error::all(errors).map(|()| notices)
    }

    fn one(&self, record: &mut Record, name: &VolumeName) -> Result<Option<Notice>> {
        self.sub_paths(record, &|s| s.volume == *name)?;
        let Some(volume) = record.volume(name).cloned() else { return Ok(None) };
        let notice = match &volume.given {
            Some(given) => Trees { homes: self.homes }.take_back(self.pod.uid(), name, given)?,
            None => self.made(&volume).map(|()| None)?,
        };
        record.volumes.retain(|v| v.name != *name);
        record.half_made.retain(|h| h.volume != *name);
        Ok(notice)
    }

    fn made(&self, volume: &MadeVolume) -> Result<()> {
        let path = volume.kind.volume(&volume.name);
        if let Some(mark) = volume.mount {
            self.unmount(&path, mark, Unmount::Now)?;
        }
        self.tree(&path)?;
        let mark = volume.kind.kubelets_mark(&volume.name);
        if self.pod.find(&mark)?.is_some() {
            self.tree(&mark)?;
        }
        match volume.kind {
            MadeKind::Image => self.tree(&volume.kind.beside(&volume.name)),
            _ => Ok(()),
        }
    }

    /// Removes mounted parts of volumes. What they show is the volumes', and stays.
    pub(crate) fn sub_paths(&self, record: &mut Record, gone: &dyn Fn(&MadeSubPath) -> bool) -> Result<()> {
        let mut errors = vec![];
        let mut left = vec![];
        for part in std::mem::take(&mut record.sub_paths) {
            let removed = if gone(&part) { self.sub_path(&part).map(|()| true) } else { Ok(false) };
            match removed {
                Ok(true) => {}
                Ok(false) => left.push(part),
                Err(error) => {
                    errors.push(error);
                    left.push(part);
                }
            }
        }
        record.sub_paths = left;
        Error::all(errors)
    }

    fn sub_path(&self, part: &MadeSubPath) -> Result<()> {
        let point = part.point();
        self.unmount(&point, part.mount, Unmount::Lazy)?;
        let (Some(above), Some(name)) = (point.parent(), point.file_name()) else { return Ok(()) };
        if let Some(dir) = self.pod.find(above)? {
            remove_point(&dir, name)?;
        }
        self.pod.prune(above)
    }

    /// Unmounts what the record and the kernel agree is ours. Any other mount on top of it, or in its place, is
    /// foreign.
    fn unmount(&self, below: &Path, mark: MountMark, how: Unmount) -> Result<()> {
        let point = self.pod.path(below);
        match MountTable::read()?.at(&point) {
            None => Ok(()),
            Some(found) if mark.is(found) => match self.kernel.unmount(&point, how) {
                // Or gone by itself in between. What lies there now is seen when the directory is removed.
                Ok(()) | Err(kernel::Error::NotMounted { .. }) => Ok(()),
                Err(kernel::Error::Unmount { errno: Errno::BUSY, .. }) => Err(Error::InUse { point }),
                Err(error) => Err(error.into()),
            },
            Some(found) => Err(foreign(found)),
        }
    }

    fn tree(&self, below: &Path) -> Result<()> {
        let (Some(above), Some(name)) = (below.parent(), below.file_name()) else { return Ok(()) };
        // A killed process may have left a part of the path to it.
        let Some(dir) = self.pod.find(above)? else { return self.pod.prune(above) };
        match dir.remove_tree(name) {
            Ok(_) => self.pod.prune(above),
            Err(kernel::Error::MountInTheWay { path }) => Err(match MountTable::read()?.at(&path) {
                Some(found) => foreign(found),
                None => kernel::Error::MountInTheWay { path }.into(),
            }),
            Err(error) => Err(error.into()),
        }
    }
}

/// A mount point is an empty file or an empty directory. Anything else is not ours, and stays.
fn remove_point(dir: &Dir, name: &OsStr) -> Result<()> {
    let failed = |errno| Error::io("remove", &dir.path().join(name), errno);
    match unlinkat(dir, name, AtFlags::REMOVEDIR) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(Errno::NOTDIR) => match unlinkat(dir, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(failed(errno)),
        },
        Err(errno) => Err(failed(errno)),
    }
}

pub(crate) fn foreign(found: &kernel::MountEntry) -> Error {
    Error::ForeignMount {
        point: found.point.clone(),
        filesystem: found.filesystem.clone(),
        from: found.source.clone(),
    }
}

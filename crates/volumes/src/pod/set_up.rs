//! From what is wanted and what is there to what is wanted.

use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use kernel::{Dir, DirMode, Kernel, MountTable, Target};
use plan::Owners;
use rustix::fs::{Gid, Mode, Uid, fchmod, fchown};

use super::dir::PodDir;
use super::homes::Homes;
use super::namespaces::Namespaces;
use super::remove::{Removal, foreign};
use super::users::Users;
use super::{given, half_made, layers, path_of};
use crate::error::{Error, Result};
use crate::filesystems::Base;
use crate::kinds::{Creating, DIRECTORY_MODE, HostPath};
use crate::layout::MadeKind;
use crate::probe::{Notice, Trial};
use crate::record::{self, Given, HalfMade, MadeState, MadeVolume, MountMark, Numbers, Record};
use crate::wanted::{Source, Wanted, WantedVolume};

/// What it takes to set up a pod's volumes.
pub(crate) struct SetUp<'a> {
    pub(crate) kernel: &'a dyn Kernel,
    pub(crate) homes: &'a Homes,
    pub(crate) pod: &'a PodDir,
    pub(crate) wanted: &'a Wanted,
    pub(crate) users: &'a Users<'a>,
    /// What was found out about each volume, in their order.
    pub(crate) trials: &'a [Trial],
    /// Whether the pod has a record on disk.
    pub(crate) recorded: Recorded,
}

/// Whether a pod has a record on disk. One without a volume of the node's making gets one, too: it says
/// that the pod is set up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Recorded {
    Yes,
    NotYet,
}

impl SetUp<'_> {
    /// Each step finds out what remains to be done; none is taken before it is recorded.
    pub(crate) fn run(&self, record: &mut Record) -> Result<Vec<Notice>> {
        let users = record::Users::of(&self.wanted.users);
        for made in record.volumes.iter().filter(|made| self.is_wanted(made)) {
            record.refuse_others(made, &users)?;
        }
        let removal = Removal { kernel: self.kernel, homes: self.homes, pod: self.pod };
        let mut notices =
            removal.volumes(record, &|made| made.state == MadeState::Leaving || !self.is_wanted(made))?;
        self.note_down(record, users)?;
        half_made::repair(self.pod, record)?;
        self.make_dirs(record)?;
        self.mount(record)?;
        for volume in &self.wanted.volumes {
            notices.extend(self.fill(record, volume)?);
        }
        self.ready(record).map(|()| notices)
    }

    /// A tree that is given to other IDs, or another tree, is taken back before this one is given.
    fn is_wanted(&self, made: &MadeVolume) -> bool {
        let wanted = self.wanted.volume(&made.name);
        wanted.is_some_and(|v| made_kind(v) == Some(made.kind) && self.given(v) == made.given)
    }

    /// What is wanted and not in the record yet.
    fn note_down(&self, record: &mut Record, users: record::Users) -> Result<()> {
        let pairs = self.wanted.volumes.iter().zip(self.trials);
        let unknown = pairs.filter(|(volume, _)| record.volume(&volume.name).is_none());
        let fresh: Vec<_> = unknown.filter_map(|(volume, trial)| self.intent(volume, trial)).collect();
        let same_users = record.users.as_ref() == Some(&users);
        if fresh.is_empty() && self.recorded == Recorded::Yes && same_users {
            return Ok(());
        }
        if let Some(others) = record.users.take_if(|_| !same_users) {
            Namespaces { kernel: self.kernel, homes: self.homes }.forget(&others, Some(self.pod.uid()))?;
        }
        let _claimed = given::Trees { homes: self.homes }.claim(self.pod.uid(), &fresh)?;
        record.volumes.extend(fresh);
        record.users = Some(users);
        record.write(self.pod.dir())
    }

    fn intent(&self, volume: &WantedVolume, trial: &Trial) -> Option<MadeVolume> {
        Some(MadeVolume {
            name: volume.name.clone(),
            kind: made_kind(volume)?,
            state: MadeState::Making,
            numbers: trial.numbers,
            mount: None,
            given: self.given(volume),
        })
    }

    fn given(&self, volume: &WantedVolume) -> Option<Given> {
        match &volume.source {
            Source::HostPath(path) => Some(given::intent(self.wanted, path)),
            _ => None,
        }
    }

    fn make_dirs(&self, record: &Record) -> Result<()> {
        for made in record.volumes.iter().filter(|made| made.given.is_none()) {
            let path = made.kind.volume(&made.name);
            if self.pod.find(&path)?.is_none() {
                self.pod.make(&path)?;
            }
        }
        Ok(())
    }

    /// Mounts what is to be mounted and is not. All mounts are created first, then recorded, then attached: one that
    /// was never attached ends with the process that created it.
    fn mount(&self, record: &mut Record) -> Result<()> {
        let table = MountTable::read()?;
        let mut fresh = vec![];
        for volume in &self.wanted.volumes {
            let made = record.volume_mut(&volume.name).filter(|made| made.given.is_none());
            let Some(made) = made else { continue };
            let (below, numbers) = (made.kind.volume(&made.name), made.numbers);
            let point = self.pod.path(&below);
            match (table.at(&point), made.mount) {
                (Some(found), Some(mark)) if mark.is(found) => continue,
                (Some(found), _) => return Err(foreign(found)),
                (None, _) => {}
            }
            if let Some(mount) = self.filesystem(volume, numbers)? {
                made.mount = Some(MountMark::of(&mount, &point)?);
                // Whatever was in it is gone with the mount.
                made.state = MadeState::Making;
                fresh.push((below, mount));
            }
        }
        if fresh.is_empty() {
            return Ok(());
        }
        record.write(self.pod.dir())?;
        for (below, mount) in fresh {
            let target = self.pod.open(&below)?;
            self.kernel.attach(mount, Target::Node(target.as_fd()))?;
        }
        Ok(())
    }

    fn filesystem(&self, volume: &WantedVolume, numbers: Numbers) -> Result<Option<kernel::DetachedMount>> {
        match (&volume.source, Base::of(&volume.source)) {
            (_, Some(base)) => base.make(self.kernel, self.users.root(numbers)?),
            (Source::Image(image), None) => {
                let layers = layers::Layers { kernel: self.kernel, pod: self.pod, users: self.users };
                layers.stack(&volume.name, image, numbers)
            }
            _ => Ok(None),
        }
    }

    /// Gives a volume its owner, its mode and its files.
    fn fill(&self, record: &mut Record, volume: &WantedVolume) -> Result<Option<Notice>> {
        if let Source::HostPath(path) = &volume.source {
            self.create(record, volume, path)?;
        }
        let Some(made) = record.volume(&volume.name) else { return Ok(None) };
        if let Some(given) = &made.given {
            return given::Trees { homes: self.homes }.give(&volume.name, given).map(Some);
        }
        let Some(base) = Base::of(&volume.source) else { return Ok(None) };
        let dir = self.pod.open(&made.kind.volume(&made.name))?;
        if made.state == MadeState::Making {
            let owner = Some(self.users.root(made.numbers)?);
            give(&dir, DirMode { mode: base.mode(), owner })?;
        }
        super::content::write(&dir, volume, made, self.wanted, self.users).map(|()| None)
    }

    /// A hostPath that is missing, if it is to be made. It is the host's from then on.
    fn create(&self, record: &mut Record, volume: &WantedVolume, path: &HostPath) -> Result<()> {
        let owner = self.users.root(match volume.owners {
            Owners::SharedBlocks | Owners::Translated => Numbers::Hosts,
            // A tree that is given away later is made as all that is in it.
            Owners::Idmapped | Owners::AsOnDisk | Owners::ChownedOnce => Numbers::Containers,
        })?;
        let mut announce = |there: &Dir, rest: &Path| {
            record.half_made.push(HalfMade {
                volume: volume.name.clone(),
                host: Some(path_of(there.as_fd())),
                below: PathBuf::new(),
                path: rest.to_owned(),
                mode: DIRECTORY_MODE,
                owner: (owner.uid, owner.gid),
            });
            record.write(self.pod.dir())
        };
        path.find_or_create(&volume.name, &mut Creating { owner, announce: &mut announce }).map(drop)
    }

    fn ready(&self, record: &mut Record) -> Result<()> {
        let unfinished = record.volumes.iter().any(|v| v.state == MadeState::Making);
        if !unfinished && record.half_made.is_empty() {
            return Ok(());
        }
        for volume in &mut record.volumes {
            volume.state = MadeState::Ready;
        }
        record.half_made.clear();
        record.write(self.pod.dir())
    }
}

/// What a volume is in the record; `None` for one that the node makes nothing for.
pub(crate) fn made_kind(volume: &WantedVolume) -> Option<MadeKind> {
    match &volume.source {
        Source::EmptyDir(_) => Some(MadeKind::EmptyDir),
        Source::Written(written) => Some(written.kind.made()),
        Source::Image(image) if image.layers.len() > 1 => Some(MadeKind::Image),
        Source::HostPath(_) if volume.owners == Owners::ChownedOnce => Some(MadeKind::HostPath),
        Source::Image(_) | Source::HostPath(_) => None,
    }
}

/// In whose numbers a volume's files are that the node does not make.
pub(crate) fn numbers_of(volume: &WantedVolume) -> Numbers {
    match volume.owners {
        Owners::Idmapped | Owners::AsOnDisk => Numbers::Containers,
        Owners::SharedBlocks | Owners::ChownedOnce | Owners::Translated => Numbers::Hosts,
    }
}

pub(crate) fn give(dir: &Dir, like: DirMode) -> Result<()> {
    let owner = like.owner.map(|owner| (Uid::from_raw(owner.uid), Gid::from_raw(owner.gid)));
    owner
        .map_or(Ok(()), |(user, group)| fchown(dir, Some(user), Some(group)))
        .and_then(|()| fchmod(dir, Mode::from_raw_mode(like.mode)))
        .map_err(|errno| Error::io("give owner and mode to", dir.path(), errno))
}

//! The volumes of pods as a reconciled state: what is wanted against what exists.
//!
//! Everything is recorded before it is created ([`crate::record`]), every step is idempotent, and the next run
//! completes or removes what a killed process has left.

mod content;
mod dir;
mod file;
mod given;
mod half_made;
mod homes;
mod layers;
mod namespaces;
pub(crate) mod place;
mod reconstruct;
mod remove;
mod set_up;
mod sub_mount;
pub(crate) mod users;

use std::collections::BTreeSet;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ids::UserNamespace;
use kernel::{Dir, Kernel};

use crate::error::{Error, Result};
use crate::present::{HostMount, Presented};
use crate::probe::{Notice, Probe, Trial};
use crate::record::{self, MadeState, Record};
use crate::wanted::{Source, Wanted, WantedMount};
use crate::writer::Written;
use dir::{IfMissing, PodDir};
use homes::Homes;
use namespaces::Namespaces;
use place::Finder;
use remove::Removal;
use set_up::{Recorded, SetUp};
use sub_mount::SubMount;
use types::{PodUid, VolumeName};
use users::Users;

/// The volumes of all pods under one directory.
#[derive(Debug, Clone)]
pub struct PodVolumes {
    homes: Homes,
    kernel: Arc<dyn Kernel>,
    makers: Makers,
}

/// The programs that make volumes under a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Makers {
    /// This program only: volumes without a record are not touched.
    Own,
    /// A kubelet does, too, while this program does not run.
    Kubelet,
}

impl PodVolumes {
    /// Opens the volumes under this directory, which exists.
    pub fn open(state: &Path, kernel: Arc<dyn Kernel>) -> Result<Self> {
        Ok(Self { homes: Homes::single(state)?, kernel, makers: Makers::Own })
    }

    /// Opens the volumes under `home` of an agent that has volumes under other directories as well. Journals are in
    /// `state`. All directories exist.
    pub fn open_beside(home: &Path, state: &Path, others: &[&Path], kernel: Arc<dyn Kernel>) -> Result<Self> {
        Ok(Self { homes: Homes::several(home, state, others)?, kernel, makers: Makers::Own })
    }

    /// The same of a kubelet's root directory: volumes that a kubelet has made there are taken over.
    #[must_use]
    pub fn beside_kubelet(self) -> Self {
        Self { makers: Makers::Kubelet, ..self }
    }

    /// Enters the volumes that a kubelet has made for the pod into its record: they are kept as they are, and removed with
    /// the others. Returns what is in the pod's directory that neither a kubelet by itself nor this program makes.
    pub fn take_over(&self, pod: &PodUid) -> Result<Vec<PathBuf>> {
        match PodDir::lock(&self.homes.own, pod, IfMissing::Leave)? {
            Some(pod) => Ok(self.record(&pod)?.1),
            None => Ok(Vec::new()),
        }
    }

    /// The record of a pod's volumes, with those of a kubelet entered, and what is not known. `None` if there is none.
    fn record(&self, pod: &PodDir) -> Result<(Option<Record>, Vec<PathBuf>)> {
        let known = Record::read(pod.dir())?;
        if self.makers == Makers::Own {
            return Ok((known, Vec::new()));
        }
        let is_new = known.is_none();
        if is_new && !pod.has_volumes()? {
            return Ok((None, Vec::new()));
        }
        let mut record = known.unwrap_or_else(|| Record::new(pod.uid().clone()));
        let found = reconstruct::reconstruct(pod, &mut record)?;
        if is_new || found.is_changed {
            record.write(pod.dir())?;
        }
        Ok((Some(record), found.unknown))
    }

    /// Tries every volume's filesystem and creates nothing.
    pub fn probe(&self, wanted: &Wanted) -> Result<Vec<Notice>> {
        let tried = Users::of(wanted, &*self.kernel).and_then(|users| self.try_all(wanted, &users));
        self.forget_unless_recorded(wanted, tried).map(notices)
    }

    /// Sets up the pod's volumes, whatever exists already. Nothing is created if one of them cannot be set up. What a
    /// container has written to an emptyDir stays.
    pub fn set_up(&self, wanted: &Wanted) -> Result<Vec<Notice>> {
        unique(wanted)?;
        let done = self.execute(wanted);
        if done.is_ok() { done } else { self.forget_unless_recorded(wanted, done) }
    }

    fn execute(&self, wanted: &Wanted) -> Result<Vec<Notice>> {
        let users = Users::of(wanted, &*self.kernel)?;
        let trials = self.try_all(wanted, &users)?;
        let Some(pod) = PodDir::lock(&self.homes.own, &wanted.pod, IfMissing::Make)? else {
            return Ok(vec![]);
        };
        let (mut record, recorded) = match self.record(&pod)?.0 {
            Some(record) => (record, Recorded::Yes),
            None if pod.has_volumes()? => return Err(Error::NoRecord { dir: pod.dir().path().to_owned() }),
            None => (Record::new(wanted.pod.clone()), Recorded::NotYet),
        };
        let (kernel, homes) = (&*self.kernel, &self.homes);
        let set_up = SetUp { kernel, homes, pod: &pod, wanted, users: &users, trials: &trials, recorded };
        let done = set_up.run(&mut record)?;
        Ok(notices(trials).into_iter().chain(done).collect())
    }

    /// Updates the files that the node writes. A container sees all of a volume's old files or all of its new ones. A
    /// volume that cannot be written does not stop the others.
    pub fn update(&self, wanted: &Wanted) -> Result<Vec<(VolumeName, Written)>> {
        let users = Users::of(wanted, &*self.kernel)?;
        let finder = self.finder(wanted, &users)?;
        let (mut done, mut errors) = (vec![], vec![]);
        for volume in &wanted.volumes {
            let Source::Written(written) = &volume.source else { continue };
            let outcome = finder
                .made(&volume.name)
                .and_then(|(dir, made)| content::payload(&dir, made, &written.payload, wanted, &users));
            match outcome {
                Ok(outcome) => done.push((volume.name.clone(), outcome)),
                Err(error) => errors.push(error),
            }
        }
        Error::all(errors).map(|()| done)
    }

    /// A volume for a container, as a detached mount.
    pub fn present(&self, wanted: &Wanted, mount: &WantedMount) -> Result<Presented> {
        let users = Users::of(wanted, &*self.kernel)?;
        let mut finder = self.finder(wanted, &users)?;
        let place = finder.place(mount)?;
        Presented::of(&place, mount, &*self.kernel, &users)
    }

    /// The same for a runtime that takes paths of the host. A subPath is mounted at a path of its own for it, until
    /// the pod's volumes are torn down.
    pub fn host_mount(&self, wanted: &Wanted, mount: &WantedMount) -> Result<HostMount> {
        let users = Users::of(wanted, &*self.kernel)?;
        let mut finder = self.finder(wanted, &users)?;
        if let Some(image) = HostMount::of_image(wanted, mount) {
            return Ok(image);
        }
        let place = finder.place(mount)?;
        let path = match &mount.sub_path {
            None => place.path(),
            Some(_) => {
                let (kernel, homes) = (&*self.kernel, &self.homes);
                SubMount { kernel, homes, pod: &finder.pod }.make(&mut finder.record, mount, &place)?
            }
        };
        Ok(HostMount::at(path, place.idmapped, wanted, mount))
    }

    /// The content of a file in a volume that the node made, such as an emptyDir; `None` if there is none. The pod may have
    /// made the file: links are followed within the volume, and only a regular file is read.
    ///
    /// # Errors
    /// If the volume is not set up, or what is at the path cannot be read.
    pub fn read_file(&self, pod: &PodUid, volume: &VolumeName, path: &Path) -> Result<Option<Vec<u8>>> {
        file::read(volume, &self.dir(pod, volume)?, path)
    }

    /// The directory of a volume that the node made. The pod's volumes are not locked any more when this returns.
    fn dir(&self, pod: &PodUid, volume: &VolumeName) -> Result<Dir> {
        let missing = || Error::NotSetUp { pod: pod.clone(), volume: volume.clone() };
        let held = PodDir::lock(&self.homes.own, pod, IfMissing::Leave)?.ok_or_else(missing)?;
        let record = Record::read(held.dir())?.ok_or_else(missing)?;
        let made = record.volume(volume).ok_or_else(missing)?;
        // Reading may take long, and other processes need not wait for it.
        held.open(&made.kind.volume(volume))
    }

    /// Removes all that was created for the pod, and nothing else; idempotent.
    pub fn tear_down(&self, pod: &PodUid) -> Result<Vec<Notice>> {
        let mut notices = vec![];
        let Some(pod) = PodDir::lock(&self.homes.own, pod, IfMissing::Leave)? else { return Ok(notices) };
        let (record, unknown) = self.record(&pod)?;
        match record {
            None if pod.has_volumes()? => return Err(Error::NoRecord { dir: pod.dir().path().to_owned() }),
            None => {}
            Some(mut record) => {
                let removal = Removal { kernel: &*self.kernel, homes: &self.homes, pod: &pod };
                let volumes = removal.volumes(&mut record, &|_| true).map(|found| notices.extend(found));
                let sub_paths = removal.sub_paths(&mut record, &|_| true);
                Error::all_of([volumes, sub_paths])?;
                // While the record still tells of it.
                record.users.map_or(Ok(()), |users| self.namespaces().forget(&users, Some(pod.uid())))?;
            }
        }
        Record::remove(pod.dir())?;
        if !unknown.is_empty() {
            return Err(Error::OfOthers { dir: pod.dir().path().to_owned(), paths: unknown });
        }
        pod.remove().map(|()| notices)
    }

    /// Releases the user namespace of a pod whose volumes have no record, unless another pod has it by its record: a
    /// process that was killed while it tried the pod's volumes has pinned it. The tear-down of recorded volumes does
    /// that itself.
    pub fn forget_unrecorded_users(&self, pod: &PodUid, users: &UserNamespace) -> Result<()> {
        let namespaces = self.namespaces();
        match namespaces.users_of(pod)? {
            Some(_) => Ok(()),
            None => namespaces.forget(&record::Users::of(users), Some(pod)),
        }
    }

    /// Every pod that has a directory here.
    pub fn pods(&self) -> Result<Vec<PodUid>> {
        dir::all(&self.homes.own)
    }

    /// Tears down every pod that is not wanted; each independently.
    pub fn remove_orphans(&self, wanted: &BTreeSet<PodUid>) -> Result<Vec<(PodUid, Result<()>)>> {
        let orphans = self.pods()?.into_iter().filter(|pod| !wanted.contains(pod));
        Ok(orphans.map(|pod| (pod.clone(), self.tear_down(&pod).map(drop))).collect())
    }

    fn namespaces(&self) -> Namespaces<'_> {
        Namespaces { kernel: &*self.kernel, homes: &self.homes }
    }

    /// Releases a user namespace that was only tried: no teardown would.
    fn forget_unless_recorded<T>(&self, wanted: &Wanted, outcome: Result<T>) -> Result<T> {
        let forgotten = self.namespaces().forget(&record::Users::of(&wanted.users), None);
        match (outcome, forgotten) {
            (Ok(done), Ok(())) => Ok(done),
            (Err(error), Ok(())) | (Ok(_), Err(error)) => Err(error),
            (Err(error), Err(other)) => Err(Error::Several(vec![error, other])),
        }
    }

    fn try_all(&self, wanted: &Wanted, users: &Users<'_>) -> Result<Vec<Trial>> {
        Probe { kernel: &*self.kernel, state: &self.homes.own, users }.all(wanted)
    }

    fn finder<'a>(&self, wanted: &'a Wanted, users: &'a Users<'a>) -> Result<Finder<'a>> {
        let found = self.find(wanted, users);
        if found.is_ok() { found } else { self.forget_unless_recorded(wanted, found) }
    }

    fn find<'a>(&self, wanted: &'a Wanted, users: &'a Users<'a>) -> Result<Finder<'a>> {
        let none = || wanted.volumes.first().map(|v| v.name.clone());
        let not_set_up = |volume| Error::NotSetUp { pod: wanted.pod.clone(), volume };
        let pod = PodDir::lock(&self.homes.own, &wanted.pod, IfMissing::Leave)?;
        let record = pod.as_ref().map(|pod| Record::read(pod.dir())).transpose()?.flatten();
        match (pod, record, none()) {
            (Some(pod), Some(record), _) => Ok(Finder { pod, record, wanted, users }),
            (_, _, Some(volume)) => Err(not_set_up(volume)),
            (_, _, None) => Err(Error::NoRecord { dir: self.homes.own.path().join(wanted.pod.as_str()) }),
        }
    }
}

fn notices(trials: Vec<Trial>) -> Vec<Notice> {
    trials.into_iter().filter_map(|trial| trial.notice).collect()
}

fn unique(wanted: &Wanted) -> Result<()> {
    let mut seen = BTreeSet::new();
    match wanted.volumes.iter().find(|v| !seen.insert(&v.name)) {
        None => Ok(()),
        Some(twice) => Err(Error::TwoOfAName { pod: wanted.pod.clone(), volume: twice.name.clone() }),
    }
}

/// By what path an open file is reached now.
pub(crate) fn path_of(fd: BorrowedFd<'_>) -> PathBuf {
    let link = PathBuf::from(format!("/proc/thread-self/fd/{}", fd.as_raw_fd()));
    std::fs::read_link(&link).unwrap_or(link)
}

/// Whether a volume may be used.
fn usable(state: MadeState) -> bool {
    state == MadeState::Ready
}

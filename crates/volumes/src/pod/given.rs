//! Trees of the host's that are given to a pod's block, file by file, and taken back.

use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ids::{CallerMapping, IdKind, UserNamespace};
use kernel::Dir;

use super::dir::{self, IfMissing, OURS};
use super::homes::Homes;
use super::path_of;
use crate::chown_once::{self, ChownOnce, Shifted};
use crate::error::{Error, Result};
use crate::kinds::HostPath;
use crate::layout::CHOWN_ONCE;
use crate::lock::{self, Wait};
use crate::probe::{About, Notice};
use crate::record::{Given, MadeVolume, Record, errno_of};
use crate::wanted::Wanted;
use types::{PodUid, VolumeName};

/// The longest name that a file can have.
const LONGEST_NAME: usize = 255;

/// What the record is to say before a tree is given.
pub(crate) fn intent(wanted: &Wanted, path: &HostPath) -> Given {
    let lines = |kind| wanted.users.lines(kind).unwrap_or_default();
    Given { path: path.path.clone(), uids: lines(IdKind::Uid), gids: lines(IdKind::Gid) }
}

/// The trees that are given to pods of an agent.
pub(crate) struct Trees<'a> {
    pub(crate) homes: &'a Homes,
}

impl Trees<'_> {
    /// Gives the tree to the block that the record names. Only the tree that the path itself names: a
    /// link could have been put there to give away something else.
    pub(crate) fn give(&self, volume: &VolumeName, given: &Given) -> Result<Notice> {
        let tree = Dir::open(&given.path)?;
        if path_of(tree.as_fd()) != clean(&given.path) {
            let why = "leads elsewhere by a symbolic link: chownOnce takes the path of the tree itself";
            return Err(Error::BadHostPath { volume: volume.clone(), path: given.path.clone(), why });
        }
        let journals = self.journals()?;
        let (journal, ids) = (journal(&journals, volume, &given.path)?, ids(given, volume)?);
        let job = ChownOnce { tree: &tree, journal: &journal, ids: &ids };
        let began = Instant::now();
        let shifted = job.give(&mut |_| {}).map_err(failed(volume))?;
        Ok(cost(volume, given, shifted, "given to the pod's host IDs", began.elapsed()))
    }

    /// Makes sure that no pod of another block has any of the trees, for as long as the returned value lives: by then
    /// the record must say that this pod has them. So the last pod that has a tree in its record may take it back.
    pub(crate) fn claim(&self, pod: &PodUid, volumes: &[MadeVolume]) -> Result<Option<Dir>> {
        let claimed: Vec<_> = volumes.iter().filter_map(|v| Some((&v.name, v.given.as_ref()?))).collect();
        if claimed.is_empty() {
            return Ok(None);
        }
        let journals = self.journals()?;
        let others = self.others(pod)?;
        for (volume, given) in claimed {
            let journal = journal(&journals, volume, &given.path)?;
            if others.iter().any(|other| other.path == given.path && other != given) {
                let cause = chown_once::Error::GivenToOthers { tree: given.path.clone(), journal };
                return Err(failed(volume)(cause));
            }
        }
        Ok(Some(journals))
    }

    /// Takes the tree back, unless another pod of the same block has it too. One that is missing may only
    /// not be mounted: as long as there is a journal of it, it is not forgotten.
    pub(crate) fn take_back(
        &self,
        pod: &PodUid,
        volume: &VolumeName,
        given: &Given,
    ) -> Result<Option<Notice>> {
        let journals = self.journals()?;
        let journal = journal(&journals, volume, &given.path)?;
        let is_used = self.others(pod)?.iter().any(|other| other.path == given.path);
        if is_used || !is_there(&journal)? {
            return Ok(None);
        }
        if !is_there(&given.path)? {
            let (volume, tree) = (volume.clone(), given.path.clone());
            return Err(Error::GivenTreeMissing { volume, tree, journal });
        }
        let (tree, ids) = (Dir::open(&given.path)?, ids(given, volume)?);
        let job = ChownOnce { tree: &tree, journal: &journal, ids: &ids };
        let began = Instant::now();
        let shifted = job.take_back(&mut |_| {}).map_err(failed(volume))?;
        Ok(Some(cost(volume, given, shifted, "taken back from the pod's host IDs", began.elapsed())))
    }

    /// The directory of the journals, locked: whether another pod has a tree cannot change meanwhile.
    fn journals(&self) -> Result<Dir> {
        let journals = self.homes.journals.make_dirs(Path::new(CHOWN_ONCE), OURS)?;
        lock::hold(&journals, Wait::Forever)?;
        Ok(journals)
    }

    /// What the records of other pods say. Each is written before its tree is given.
    fn others(&self, pod: &PodUid) -> Result<Vec<Given>> {
        let mut found = vec![];
        for (home, other) in self.homes.pods()?.into_iter().filter(|(_, other)| other != pod) {
            let Some(dir) = dir::peek(home, &other, IfMissing::Leave)? else { continue };
            let record = Record::read(&dir)?;
            found.extend(record.into_iter().flat_map(|r| r.volumes).filter_map(|v| v.given));
        }
        Ok(found)
    }
}

/// What it took to change the owners of a tree.
fn cost(volume: &VolumeName, given: &Given, shifted: Shifted, what: &str, took: Duration) -> Notice {
    let Shifted { files, stripped, .. } = shifted;
    let (path, seconds) = (given.path.display(), took.as_secs_f64());
    let mut text = format!("{files} files of {path} were {what} in {seconds:.1} s (chownOnce)");
    if stripped > 0 {
        text.push_str(&format!("; {stripped} of them lost set-user-ID bits or capabilities"));
    }
    Notice { volume: volume.clone(), about: About::Cost, text }
}

fn is_there(path: &Path) -> Result<bool> {
    path.try_exists().map_err(|error| Error::io("look for", path, errno_of(&error)))
}

/// A journal's name is its tree's path.
fn journal(journals: &Dir, volume: &VolumeName, path: &Path) -> Result<PathBuf> {
    let bad = |why| Error::BadHostPath { volume: volume.clone(), path: path.to_owned(), why };
    let text = clean(path);
    let text = text.to_str().ok_or_else(|| bad("is no text"))?;
    let name = text.replace('%', "%25").replace('/', "%2F");
    if name.len() > LONGEST_NAME - ".new".len() {
        return Err(bad("is too long for the name of its journal"));
    }
    Ok(journals.path().join(name))
}

/// The path without empty parts.
fn clean(path: &Path) -> PathBuf {
    path.components().collect()
}

fn ids(given: &Given, volume: &VolumeName) -> Result<UserNamespace> {
    CallerMapping::new(given.uids.clone(), given.gids.clone())
        .map(UserNamespace::Caller)
        .map_err(|cause| Error::BadMap { volume: volume.clone(), cause })
}

fn failed(volume: &VolumeName) -> impl FnOnce(chown_once::Error) -> Error {
    let volume = volume.clone();
    move |cause| Error::ChownOnce { volume, cause: Box::new(cause) }
}

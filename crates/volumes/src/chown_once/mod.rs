//! A tree given to a pod's block by shifting every file's owner, exactly once, and back again.
//!
//! For filesystems that cannot be idmapped. The first step is an inventory of everything that is to be shifted, in a
//! journal outside the tree; a file that cannot be shifted ends it with nothing changed. Then every entry is executed,
//! the filesystem is synced, the tree is checked again, and the journal is marked as done. After a kill at any point,
//! the same call continues from the journal. The layout is drawn in docs/design/chown-once.md.
//!
//! What decides that a file is shifted once: no ID is both the container's and the block's (such a map
//! is refused), and one `chown` changes user and group together. So an owner of the block's side *was*
//! shifted, or was made by the pod; either way it stays.

mod apply;
mod capability;
mod entry;
mod error;
mod inventory;
mod journal;
mod shift;

use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};

use durable::Guard;
use ids::{IdKind, UserNamespace};
use kernel::Dir;
use rustix::fs::syncfs;
use rustix::io::Errno;

pub use error::Error;
pub use shift::Direction;

use crate::ownership::walk::Facts;
use entry::Identity;
use inventory::{Inventory, Strictness};
use journal::{Header, Journal, NewJournal};
use shift::{Fate, NoShift, Shift};

/// How often files that appeared meanwhile are shifted too.
const ROUNDS: u32 = 3;

/// A tree, the block it is given to, and the journal of it.
#[derive(Debug, Clone, Copy)]
pub struct ChownOnce<'a> {
    /// The tree. Nothing should write to it meanwhile.
    pub tree: &'a Dir,
    /// The journal's file, in a directory that only root can write to, outside the tree. It stays as
    /// long as the tree is given.
    pub journal: &'a Path,
    /// The user namespace whose IDs the tree is given to.
    pub ids: &'a UserNamespace,
}

/// What was done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Shifted {
    /// Files that were changed by this call.
    pub files: u64,
    /// Files that were gone, or exchanged for others, when their turn came.
    pub vanished: u64,
    /// Files that came back without the setuid and setgid bits or the capabilities that they had.
    pub stripped: u64,
}

/// What is going on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Nothing is changed yet.
    Looking,
    /// Owners are shifted.
    Shifting,
    /// Whether any file is left.
    Checking,
}

/// How far it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress<'a> {
    /// What is going on.
    pub phase: Phase,
    /// Files seen in all phases.
    pub seen: u64,
    /// The last of them, below the tree.
    pub path: &'a Path,
}

/// Reports progress every so many files.
pub(crate) struct Reporter<'a> {
    seen: u64,
    to: &'a mut dyn FnMut(Progress<'_>),
}

impl Reporter<'_> {
    const EVERY: u64 = 256;

    pub(crate) fn tell(&mut self, phase: Phase, path: &Path) {
        self.seen += 1;
        if self.seen.is_multiple_of(Self::EVERY) {
            (self.to)(Progress { phase, seen: self.seen, path });
        }
    }
}

impl ChownOnce<'_> {
    /// Gives the tree to the block; one that is given already stays as it is.
    pub fn give(&self, progress: &mut dyn FnMut(Progress<'_>)) -> Result<Shifted, Error> {
        let work = &mut Work::begin(self, Direction::Give, progress)?;
        if let Some(journal) = work.journal()? {
            match journal.header.shift.direction {
                Direction::Give if !journal.header.shift.same_map(&work.shift) => {
                    return Err(Error::GivenToOthers {
                        tree: self.tree.path().to_owned(),
                        journal: self.journal.to_owned(),
                    });
                }
                Direction::Give if journal.is_done => return Ok(work.done),
                Direction::Give => {
                    work.finish(journal)?.mark_done()?;
                    return Ok(work.done);
                }
                Direction::Back => work.finish(journal)?.remove()?,
            }
        }
        let shift = work.shift.clone();
        let journal = work.inventory(&shift, Strictness::NoneShifted)?;
        work.finish(journal)?.mark_done()?;
        Ok(work.done)
    }

    /// Takes the tree back from the block; one that is not given stays as it is.
    pub fn take_back(&self, progress: &mut dyn FnMut(Progress<'_>)) -> Result<Shifted, Error> {
        let work = &mut Work::begin(self, Direction::Back, progress)?;
        let Some(journal) = work.journal()? else {
            return work.refuse_lost_journal().map(|()| work.done);
        };
        let back = journal.header.shift.towards(Direction::Back);
        let journal = match (journal.header.shift.direction, journal.is_done) {
            (Direction::Back, _) => journal,
            (Direction::Give, true) => work.inventory(&back, Strictness::SomeShifted)?,
            // Only its own journal knows what half-shifted files had.
            (Direction::Give, false) => {
                work.finish(journal)?.mark_done()?;
                work.inventory(&back, Strictness::SomeShifted)?
            }
        };
        work.finish(journal)?.remove()?;
        Ok(work.done)
    }
}

struct Work<'a, 'p> {
    job: &'a ChownOnce<'a>,
    /// The tree, opened anew and locked: a lock belongs to an opening.
    tree: Dir,
    _lock: Guard,
    shift: Shift,
    root: Facts,
    report: Reporter<'p>,
    done: Shifted,
}

impl<'a, 'p> Work<'a, 'p> {
    fn begin(
        job: &'a ChownOnce<'a>,
        direction: Direction,
        progress: &'p mut dyn FnMut(Progress<'_>),
    ) -> Result<Self, Error> {
        let path = || job.tree.path().to_owned();
        let shift = Shift::new(job.ids, direction).map_err(|error| no_shift(&error, path()))?;
        let failed = |step| move |errno| Error::Step { step, path: job.tree.path().to_owned(), errno };
        refuse_journal_inside(job)?;
        let tree = Dir::at(job.tree.as_fd(), job.tree.path()).map_err(|_| failed("open")(Errno::IO))?;
        let copy = tree.as_fd().try_clone_to_owned();
        let copy = copy.map_err(|cause| failed("lock")(Errno::from_io_error(&cause).unwrap_or(Errno::IO)))?;
        let lock = Guard::try_lock(copy, tree.path()).map_err(journal::step)?;
        let lock = lock.ok_or_else(|| Error::Busy { tree: path() })?;
        let root = Facts::of(tree.as_fd()).map_err(failed("look at"))?;
        let report = Reporter { seen: 0, to: progress };
        Ok(Self { job, tree, _lock: lock, shift, root, report, done: Shifted::default() })
    }

    /// The journal of this very tree, if there is one.
    fn journal(&self) -> Result<Option<Journal>, Error> {
        let journal = Journal::open(self.job.journal)?;
        match &journal {
            Some(found) if found.header.root != Identity::of(&self.root) => Err(Error::OtherTree {
                tree: self.tree.path().to_owned(),
                journal: self.job.journal.to_owned(),
            }),
            _ => Ok(journal),
        }
    }

    fn inventory(&mut self, shift: &Shift, strictness: Strictness) -> Result<Journal, Error> {
        let header = Header { shift: shift.clone(), root: Identity::of(&self.root) };
        let mut journal = NewJournal::begin(self.job.journal, &header)?;
        Inventory { tree: &self.tree, shift, strictness }.take(&mut journal, &mut self.report)?;
        journal.keep()?;
        let missing = || self.damaged("it is gone");
        Journal::open(self.job.journal)?.ok_or_else(missing)
    }

    /// Executes every entry of the journal, and shifts whatever has appeared in the tree since; with
    /// all of it on disk when it returns.
    fn finish(&mut self, journal: Journal) -> Result<Journal, Error> {
        let mut journal = journal;
        let shift =
            journal.header.shift.clone().checked().map_err(|_| self.damaged("its map is impossible"))?;
        let mut left = None;
        for _ in 0..ROUNDS {
            for entry in journal.entries()? {
                let entry = entry?;
                self.report.tell(Phase::Shifting, &entry.path);
                apply::execute(&self.tree, &shift, &entry, &mut self.done)?;
            }
            let synced = syncfs(&self.tree);
            synced.map_err(|errno| Error::Step { step: "sync", path: self.tree.path().to_owned(), errno })?;
            let check = Inventory { tree: &self.tree, shift: &shift, strictness: Strictness::SomeShifted };
            left = check.first_unshifted(&mut self.report)?;
            if left.is_none() {
                return Ok(journal);
            }
            journal = self.inventory(&shift, Strictness::SomeShifted)?;
        }
        let path = left.unwrap_or_default();
        Err(Error::StillChanging { path, tree: self.tree.path().to_owned() })
    }

    /// A tree that belongs to the block without a journal was given, and how it was is not known.
    fn refuse_lost_journal(&self) -> Result<(), Error> {
        for (kind, id) in [(IdKind::Uid, self.root.uid), (IdKind::Gid, self.root.gid)] {
            if matches!(self.shift.fate(kind, id), Fate::Becomes(_)) {
                let (tree, journal) = (self.tree.path().to_owned(), self.job.journal.to_owned());
                return Err(Error::NoJournal { tree, journal, kind, id });
            }
        }
        Ok(())
    }

    fn damaged(&self, why: &'static str) -> Error {
        Error::Damaged { journal: self.job.journal.to_owned(), why }
    }
}

fn no_shift(error: &NoShift, tree: PathBuf) -> Error {
    match *error {
        NoShift::NoMap => Error::NoMap { tree },
        NoShift::Overlap(kind, both) => Error::Overlap { kind, both },
    }
}

/// By the paths of the moment, which is enough against a mistake; only the node chooses the journal's path.
fn refuse_journal_inside(job: &ChownOnce<'_>) -> Result<(), Error> {
    let dir = job.journal.parent().unwrap_or(Path::new("/"));
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |error: std::io::Error| {
            let errno = Errno::from_io_error(&error).unwrap_or(Errno::IO);
            Error::Step { step: "find", path, errno }
        }
    };
    let link = PathBuf::from(format!("/proc/thread-self/fd/{}", job.tree.as_fd().as_raw_fd()));
    let tree = std::fs::read_link(&link).map_err(failed(&link))?;
    let dir = std::fs::canonicalize(dir).map_err(failed(dir))?;
    if dir.starts_with(&tree) {
        let tree = job.tree.path().to_owned();
        return Err(Error::JournalInside { tree, journal: job.journal.to_owned() });
    }
    Ok(())
}

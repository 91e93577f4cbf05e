use std::collections::HashMap;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use ids::IdKind;
use kernel::{Dir, Kind};
use rustix::io::Errno;

use super::capability::FileCapability;
use super::entry::{Entry, Identity};
use super::error::Error;
use super::journal::NewJournal;
use super::shift::{Direction, Fate, Shift};
use super::{Phase, Reporter};
use crate::ownership::change::capability;
use crate::ownership::walk::{Held, Step, walk};

/// What is to be thought of files that have an owner of the other side already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Strictness {
    /// They cannot have been shifted: their owners are outside of the container's IDs.
    NoneShifted,
    /// They were shifted before, or made since by the pod or on the host.
    SomeShifted,
}

pub(crate) struct Inventory<'a> {
    pub(crate) tree: &'a Dir,
    pub(crate) shift: &'a Shift,
    pub(crate) strictness: Strictness,
}

/// A file with more than one name: how many it has, how many were met, and the first of them.
struct Names {
    links: u32,
    seen: u32,
    path: PathBuf,
}

impl Inventory<'_> {
    /// Looks at every file and enters those that are to be shifted. Fails, naming the file, if any of
    /// them cannot be.
    pub(crate) fn take(&self, into: &mut NewJournal<'_>, report: &mut Reporter<'_>) -> Result<(), Error> {
        let mut linked: HashMap<(u64, u64), Names> = HashMap::new();
        walk(self.tree.as_fd(), |step| {
            let held = self.file(step)?;
            report.tell(Phase::Looking, &held.path);
            if held.facts.kind != Kind::Directory && held.facts.links > 1 {
                let names = linked.entry((held.facts.dev, held.facts.ino)).or_insert_with(|| Names {
                    links: held.facts.links,
                    seen: 0,
                    path: held.path.clone(),
                });
                names.seen += 1;
                if names.seen > 1 {
                    return Ok(());
                }
            }
            match self.entry(held)? {
                Some(entry) => into.add(&entry),
                None => Ok(()),
            }
        })?;
        self.refuse_names_outside(linked)
    }

    /// Giving a file away gives it away under all its names.
    fn refuse_names_outside(&self, linked: HashMap<(u64, u64), Names>) -> Result<(), Error> {
        let outside = linked.into_values().find(|names| names.seen < names.links);
        match (outside, self.shift.direction) {
            (Some(Names { links, seen, path }), Direction::Give) => {
                Err(Error::LinkedOutside { path: self.tree.path().join(path), links, seen })
            }
            _ => Ok(()),
        }
    }

    /// The first file that is not shifted, of a tree that should be.
    pub(crate) fn first_unshifted(&self, report: &mut Reporter<'_>) -> Result<Option<PathBuf>, Error> {
        let mut first = None;
        walk(self.tree.as_fd(), |step| {
            let held = self.file(step)?;
            report.tell(Phase::Checking, &held.path);
            if first.is_none() && self.is_due(&held)? {
                first = Some(held.path);
            }
            Ok(())
        })?;
        Ok(first)
    }

    fn file(&self, step: Step) -> Result<Held, Error> {
        match step {
            Step::File(held) => Ok(held),
            Step::Mount(path) => Err(Error::MountBelow { path: self.tree.path().join(path) }),
            Step::Failed(path, errno) => Err(self.failed("look at", &path, errno)),
        }
    }

    fn failed(&self, step: &'static str, path: &Path, errno: Errno) -> Error {
        Error::Step { step, path: self.tree.path().join(path), errno }
    }

    fn is_due(&self, held: &Held) -> Result<bool, Error> {
        let mut due = false;
        for (kind, id) in [(IdKind::Uid, held.facts.uid), (IdKind::Gid, held.facts.gid)] {
            due |= match (self.shift.fate(kind, id), self.strictness) {
                (Fate::Becomes(_), _) => true,
                (Fate::Stays, Strictness::SomeShifted) => false,
                (Fate::Stays, Strictness::NoneShifted) | (Fate::Outside, _) => {
                    let path = self.tree.path().join(&held.path);
                    return Err(Error::Outside { path, kind, id, side: self.shift.source() });
                }
            };
        }
        Ok(due)
    }

    fn entry(&self, held: Held) -> Result<Option<Entry>, Error> {
        if !self.is_due(&held)? {
            return Ok(None);
        }
        let facts = held.facts;
        if facts.fixed {
            return Err(Error::Fixed { path: self.tree.path().join(held.path) });
        }
        // What the pod has set does not come back, so it cannot stand in the way either.
        let capability = match self.shift.direction {
            Direction::Give => capability(&held).map_err(|errno| self.failed("read", &held.path, errno))?,
            Direction::Back => None,
        };
        if let Some(raw) = &capability {
            shifted_capability(self.shift, raw)
                .map_err(|why| Error::Capability { path: self.tree.path().join(&held.path), why })?;
        }
        Ok(Some(Entry {
            identity: Identity::of(&facts),
            uid: facts.uid,
            gid: facts.gid,
            mode: facts.mode,
            capability,
            path: held.path,
        }))
    }
}

/// The same capabilities for the root of the other side.
pub(crate) fn shifted_capability(shift: &Shift, raw: &[u8]) -> Result<Vec<u8>, String> {
    let found = FileCapability::parse(raw).map_err(|_| "their layout is not known".to_owned())?;
    match shift.fate(IdKind::Uid, found.root) {
        Fate::Becomes(root) => Ok(found.of_root(root).to_raw()),
        Fate::Stays => Ok(raw.to_vec()),
        Fate::Outside => Err(format!("they are for the root with uid {}", found.root)),
    }
}

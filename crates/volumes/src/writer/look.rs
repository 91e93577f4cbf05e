use std::io::Read;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use kernel::{Dir, Kind};
use rustix::fs::{Mode as RawMode, OFlags};
use rustix::io::Errno;

use super::error::Error;
use super::set::{Entry, FileSet};
use super::stamp::Stamp;
use super::{DATA, step};
use crate::ownership::walk::{Held, Step, open_below, walk};

/// The set that readers see.
#[derive(Debug)]
pub(crate) struct Current {
    pub(crate) stamp: Stamp,
    dir: OwnedFd,
}

impl Current {
    /// The set that `..data` leads to, if it leads to one of ours. What a pod has put there instead is
    /// never followed: it is no set, and the next write puts one in its place.
    pub(crate) fn of(volume: &Dir) -> Result<Option<Self>, Error> {
        let target = match rustix::fs::readlinkat(volume, DATA, vec![]) {
            Ok(target) => target,
            Err(Errno::NOENT | Errno::INVAL) => return Ok(None),
            Err(errno) => return Err(step("read", volume, DATA)(errno)),
        };
        let Some(stamp) = target.to_str().ok().and_then(Stamp::parse) else { return Ok(None) };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match open_below(volume.as_fd(), stamp.as_str().as_ref(), flags) {
            Ok(dir) => Ok(Some(Self { stamp, dir })),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV) => Ok(None),
            Err(errno) => Err(step("open", volume, stamp.as_str())(errno)),
        }
    }

    /// Whether it is the wanted set to the last bit, with nothing besides.
    pub(crate) fn is(&self, wanted: &FileSet<'_>) -> bool {
        let mut seen = 0;
        let compared = walk(self.dir.as_fd(), |found| match found {
            Step::File(held) if wanted.get(&held.path).is_some_and(|entry| same(&held, entry)) => {
                seen += 1;
                Ok(())
            }
            _ => Err(Differs),
        });
        compared.is_ok() && seen == wanted.entries.len()
    }
}

struct Differs;

fn same(held: &Held, entry: &Entry<'_>) -> bool {
    let facts = &held.facts;
    facts.kind == entry.kind()
        && facts.mode == entry.mode
        && (facts.uid, facts.gid) == (entry.owner.uid, entry.owner.gid)
        && entry.content.is_none_or(|content| {
            facts.size == u64::try_from(content.len()).unwrap_or(u64::MAX)
                && has_content(held.fd.as_fd(), content).unwrap_or(false)
        })
}

/// The file is known to be a regular one, and opened as that very file.
fn has_content(file: BorrowedFd<'_>, content: &[u8]) -> std::io::Result<bool> {
    let own = format!("/proc/thread-self/fd/{}", file.as_raw_fd());
    let opened = rustix::fs::open(own, OFlags::RDONLY | OFlags::CLOEXEC, RawMode::empty())?;
    // One byte more: a file that has grown since is another one.
    let mut found = Vec::with_capacity(content.len() + 1);
    let limit = u64::try_from(content.len()).unwrap_or(u64::MAX).saturating_add(1);
    std::fs::File::from(opened).take(limit).read_to_end(&mut found)?;
    Ok(found == content)
}

/// What a name in the volume stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Name {
    /// The writer's link into the set.
    Ours,
    /// A directory of the writer's that holds a set.
    Set,
    /// A swap that was not finished.
    Swap,
    /// The link to the set that readers see.
    Data,
    /// Something that the writer did not make.
    Foreign(Kind),
}

/// What a name stands for, by what it is and where it leads. Nothing is followed.
pub(crate) fn name(volume: &Dir, name: &str, kind: Kind) -> Name {
    let ours = || {
        let target = rustix::fs::readlinkat(volume, name, vec![]).ok();
        target.is_some_and(|t| t.to_bytes() == format!("{DATA}/{name}").as_bytes())
    };
    match kind {
        _ if name == super::SWAP => Name::Swap,
        _ if name == DATA => Name::Data,
        Kind::Directory if Stamp::parse(name).is_some() => Name::Set,
        Kind::Symlink if ours() => Name::Ours,
        kind => Name::Foreign(kind),
    }
}

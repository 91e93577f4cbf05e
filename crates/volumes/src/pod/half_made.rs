//! Directories, in volumes or on the host, whose creating process was killed: they may lack their owner and their
//! mode.

use std::ffi::OsStr;
use std::path::{Component, Path};

use kernel::{Dir, DirMode, Owner, Stat, Within};
use rustix::io::Errno;

use super::dir::PodDir;
use super::set_up::give;
use crate::error::Result;
use crate::record::{HalfMade, Record};

/// What a directory has before it is given anything.
const AT_FIRST: u32 = 0o700;
/// Where the directory above has it, a new one has it, too.
const SET_GID: u32 = 0o2000;

/// Finishes them, and forgets them.
pub(crate) fn repair(pod: &PodDir, record: &mut Record) -> Result<()> {
    if record.half_made.is_empty() {
        return Ok(());
    }
    for half in &record.half_made {
        if let Some(dir) = start(pod, record, half)? {
            let (uid, gid) = half.owner;
            finish(dir, &half.path, DirMode { mode: half.mode, owner: Some(Owner { uid, gid }) })?;
        }
    }
    record.half_made.clear();
    record.write(pod.dir())
}

/// The directory that the first of them was being made in, if it is still there. The record has its real
/// path: a link on it was put there since, to have something else given away.
fn start(pod: &PodDir, record: &Record, half: &HalfMade) -> Result<Option<Dir>> {
    let root = match (&half.host, record.volume(&half.volume)) {
        (Some(path), _) => {
            without_links(&Dir::open(Path::new("/"))?, path.strip_prefix("/").unwrap_or(path))?
        }
        (None, Some(made)) => pod.find(&made.kind.volume(&made.name))?,
        (None, None) => None,
    };
    root.map_or(Ok(None), |root| without_links(&root, &half.below))
}

/// `None` where there is no such directory any more.
fn without_links(dir: &Dir, below: &Path) -> Result<Option<Dir>> {
    match dir.open_below(below, Within::NoLinks) {
        Ok(found) => Ok(Some(found)),
        Err(kernel::Error::Below { errno: Errno::NOENT | Errno::NOTDIR | Errno::LOOP, .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// What a directory is given that is made in a volume: the permissions of the volume's root, and its
/// group if that is inherited.
pub(crate) fn like_root(volume: &Dir, root: Owner) -> Result<DirMode> {
    let found = volume.stat()?;
    let gid = if found.mode & 0o2000 == 0 { root.gid } else { found.gid };
    Ok(DirMode { mode: found.mode, owner: Some(Owner { uid: root.uid, gid }) })
}

fn finish(mut dir: Dir, path: &Path, like: DirMode) -> Result<()> {
    let mut parts = path.components().peekable();
    while let Some(Component::Normal(name)) = parts.next() {
        dir = match without_links(&dir, Path::new(name))? {
            Some(below) => below,
            None => return Ok(()),
        };
        let next = parts.peek().map(|part| part.as_os_str());
        if is_just_made(&dir.stat()?, like) && has_nothing_but(&dir, next)? {
            give(&dir, like)?;
        }
    }
    Ok(())
}

/// Whether it is as a new directory is, or got its owner and nothing more. Any other was changed on purpose.
fn is_just_made(found: &Stat, like: DirMode) -> bool {
    let owned = found.uid == Owner::ROOT.uid || like.owner.is_some_and(|owner| owner == found.owner());
    found.mode & !SET_GID == AT_FIRST && owned && !found.is_mount_root
}

fn has_nothing_but(dir: &Dir, next: Option<&OsStr>) -> Result<bool> {
    Ok(dir.entries()?.iter().all(|entry| Some(entry.name.as_os_str()) == next))
}

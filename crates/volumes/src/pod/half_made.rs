//! Directories that were being made, in volumes or on the host, when whoever made them was killed: they
//! may be there without the owner and the mode that they were to have.

use std::path::{Component, Path};

use kernel::{Dir, DirMode, Owner, Within};
use rustix::io::Errno;

use super::dir::PodDir;
use super::set_up::give;
use crate::error::Result;
use crate::record::{HalfMade, Record};

/// What a directory has before it is given anything.
const AT_FIRST: u32 = 0o700;

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

/// The directory that the first of them was being made in, if it is still there.
fn start(pod: &PodDir, record: &Record, half: &HalfMade) -> Result<Option<Dir>> {
    let (root, within) = match (&half.host, record.volume(&half.volume)) {
        (Some(path), _) if path == Path::new("/") => (Dir::open(path).ok(), Within::AsRoot),
        (Some(path), _) => (Dir::open(path).ok(), Within::Beneath),
        (None, Some(made)) => (pod.find(&made.kind.volume(&made.name))?, Within::Beneath),
        (None, None) => (None, Within::Beneath),
    };
    Ok(root.and_then(|root| root.open_below(&half.below, within).ok()))
}

/// What a directory is given that is made in a volume: the permissions of the volume's root, and its
/// group if that is inherited.
pub(crate) fn like_root(volume: &Dir, root: Owner) -> Result<DirMode> {
    let found = volume.stat()?;
    let gid = if found.mode & 0o2000 == 0 { root.gid } else { found.gid };
    Ok(DirMode { mode: found.mode, owner: Some(Owner { uid: root.uid, gid }) })
}

fn finish(mut dir: Dir, path: &Path, like: DirMode) -> Result<()> {
    let ours = |uid: u32| uid == 0 || like.owner.is_some_and(|owner| owner.uid == uid);
    for part in path.components() {
        let Component::Normal(name) = part else { return Ok(()) };
        dir = match dir.open_below(Path::new(name), Within::NoLinks) {
            Ok(below) => below,
            Err(kernel::Error::Below { errno: Errno::NOENT | Errno::NOTDIR | Errno::LOOP, .. }) => {
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        };
        let found = dir.stat()?;
        // The one that was being made is as new ones are. Any other is as somebody wanted it.
        if found.mode & 0o777 == AT_FIRST && ours(found.uid) {
            give(&dir, like)?;
        }
    }
    Ok(())
}

use std::path::Path;

use kernel::{Dir, DirMode, LastLink, Node, Within};
use rustix::io::Errno;

use super::SubPath;
use crate::error::{Error, Result};
use types::VolumeName;

/// What becomes of a sub path that is not there.
pub enum Missing<'a> {
    /// It is an error.
    Refuse,
    /// It is made as directories.
    Make {
        /// What each is given.
        like: DirMode,
        /// Gets the last directory that exists and the path of those that are missing, before any is created.
        announce: &'a mut dyn FnMut(&Dir, &Path) -> Result<()>,
    },
}

/// The node at `path` below the volume's root, held.
///
/// Symbolic links are followed as long as they stay inside; one that is absolute or leads above the
/// root is an error, also if it was put there a moment ago.
pub fn resolve(volume: &VolumeName, root: &Dir, path: &SubPath, missing: Missing<'_>) -> Result<Node> {
    let failed = |cause| refusal(volume, path, cause);
    match find(root, path) {
        Err(kernel::Error::Below { errno: Errno::NOENT, .. }) => {
            let Missing::Make { like, announce } = missing else { return find(root, path).map_err(failed) };
            let way = Way::of(root, path.as_path()).map_err(failed)?;
            announce(&way.dir, way.rest)?;
            way.dir.make_dirs(way.rest, like).map_err(failed)?;
            // From the root again: what was just made may be somewhere else by now.
            find(root, path).map_err(failed)
        }
        found => found.map_err(failed),
    }
}

fn find(root: &Dir, path: &SubPath) -> kernel::Result<Node> {
    root.node(path.as_path(), Within::Beneath, LastLink::Follow)
}

/// How far a path leads to directories that are there.
struct Way<'a> {
    /// The last of them.
    dir: Dir,
    /// The remaining path.
    rest: &'a Path,
}

impl<'a> Way<'a> {
    fn of(root: &Dir, path: &'a Path) -> kernel::Result<Self> {
        for there in path.ancestors().skip(1) {
            match root.open_below(there, Within::Beneath) {
                Err(kernel::Error::Below { errno: Errno::NOENT, .. }) => {}
                found => {
                    return Ok(Self { dir: found?, rest: path.strip_prefix(there).unwrap_or(path) });
                }
            }
        }
        let dir = root.open_below(Path::new(""), Within::Beneath)?;
        Ok(Self { dir, rest: path })
    }
}

fn refusal(volume: &VolumeName, path: &SubPath, cause: kernel::Error) -> Error {
    let (volume, path) = (volume.clone(), path.clone());
    match cause {
        kernel::Error::Below { errno: Errno::XDEV, .. } => Error::Escapes { volume, path },
        cause => Error::SubPath { volume, path, cause: Box::new(cause) },
    }
}

use std::ffi::{OsStr, OsString};
use std::path::Path;

use kernel::{Dir, DirMode, Within};
use rustix::io::Errno;

use super::overlay::{Found, is_opaque, look, read_link};
use crate::fault::Fault;

/// The unpacked layers below the one that is being unpacked, topmost first.
#[derive(Debug, Default)]
pub(crate) struct Lowers(Vec<Dir>);

/// What the layers below show at a path.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Below {
    /// Nothing, or a file that cannot be entered.
    Nothing,
    /// A directory like this.
    Directory(DirMode),
    /// A symbolic link with this target.
    Symlink(Vec<u8>),
}

impl Lowers {
    pub(crate) fn new(topmost_first: Vec<Dir>) -> Self {
        Self(topmost_first)
    }

    /// What an overlay of these layers would show as `name` in the directory `parents`.
    pub(crate) fn find(&self, parents: &[OsString], name: &OsStr) -> Result<Below, Fault> {
        self.search(parents, name)
            .map_err(|error| Fault::Refused { what: "look into the layers below", why: error.to_string() })
    }

    fn search(&self, parents: &[OsString], name: &OsStr) -> Result<Below, Errno> {
        let mut shown = Vec::new();
        for root in &self.0 {
            shown.push(reopen(root, Path::new(""))?);
            if is_opaque(root)? {
                break;
            }
        }
        for parent in parents {
            shown = enter(&shown, parent)?;
        }
        for dir in &shown {
            match look(dir, name)? {
                Found::Nothing => {}
                Found::Directory => return Ok(Below::Directory(like(&reopen(dir, Path::new(name))?)?)),
                Found::Symlink => return Ok(Below::Symlink(read_link(dir, name)?)),
                Found::Whiteout | Found::Other(_) => return Ok(Below::Nothing),
            }
        }
        Ok(Below::Nothing)
    }
}

/// The directories that an overlay would merge as `name`.
fn enter(dirs: &[Dir], name: &OsStr) -> Result<Vec<Dir>, Errno> {
    let mut merged = Vec::new();
    for dir in dirs {
        match look(dir, name)? {
            Found::Nothing => {}
            Found::Directory => {
                let below = reopen(dir, Path::new(name))?;
                let last = is_opaque(&below)?;
                merged.push(below);
                if last {
                    break;
                }
            }
            Found::Whiteout | Found::Symlink | Found::Other(_) => break,
        }
    }
    Ok(merged)
}

fn reopen(dir: &Dir, rel: &Path) -> Result<Dir, Errno> {
    dir.open_below(rel, Within::NoLinks).map_err(|_| Errno::IO)
}

fn like(dir: &Dir) -> Result<DirMode, Errno> {
    let stat = dir.stat().map_err(|_| Errno::IO)?;
    Ok(DirMode { mode: stat.mode & 0o7777, owner: Some(stat.owner()) })
}

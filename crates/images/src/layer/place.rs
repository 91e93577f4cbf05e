//! Finds or creates the directory of an entry, without ever leaving the layer.

use std::ffi::{OsStr, OsString};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use kernel::{Dir, DirMode, Owner, Within};
use rustix::fs::{AtFlags, unlinkat};

use super::lowers::{Below, Lowers};
use super::overlay::{Found, is_opaque, look, make_opaque, read_link};
use crate::fault::Fault;

/// The kernel's limit of links in a path.
const LINKS: u32 = 40;

const NEW: DirMode = DirMode { mode: 0o755, owner: Some(Owner::ROOT) };

/// What to do where the layer has no such directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Missing {
    /// Create it as the layers below have it.
    Make,
    /// Fail.
    Fail,
}

/// Finds directories in a layer. Symbolic links are resolved here, component by component, and the result is opened by
/// the kernel with all links forbidden: a mistake here cannot lead out.
#[derive(Debug)]
pub(crate) struct Places {
    root: Dir,
    lowers: Lowers,
    /// The directory of the last entry, as a cache: the next entry is mostly in the same.
    last: Option<(Vec<OsString>, PathBuf)>,
}

/// A path resolution in progress.
struct Walk {
    /// Names still to be walked, the next one last. Only links bring in `..`.
    ahead: Vec<OsString>,
    /// The way so far, without links.
    behind: Vec<OsString>,
    links: u32,
    /// The link that was followed last, and what it says.
    link: (String, String),
    /// Whether the layers below show here at all.
    lowers_show: bool,
}

impl Places {
    pub(crate) fn new(root: Dir, lowers: Lowers) -> Self {
        Self { root, lowers, last: None }
    }

    pub(crate) fn root(&self) -> &Dir {
        &self.root
    }

    /// To be called when something was removed.
    pub(crate) fn forget(&mut self) {
        self.last = None;
    }

    /// The directory at `names`, and its path without links.
    pub(crate) fn directory(
        &mut self,
        names: &[OsString],
        missing: Missing,
    ) -> Result<(PathBuf, Dir), Fault> {
        if let Some((_, path)) = self.last.as_ref().filter(|(known, _)| known == names) {
            let path = path.clone();
            let dir = self.open(&path)?;
            return Ok((path, dir));
        }
        let plain: PathBuf = names.iter().collect();
        let path = match self.root.open_below(&plain, Within::NoLinks) {
            Ok(_) => plain,
            Err(_) => self.walk(names, missing)?,
        };
        self.last = Some((names.to_owned(), path.clone()));
        let dir = self.open(&path)?;
        Ok((path, dir))
    }

    fn open(&self, path: &Path) -> Result<Dir, Fault> {
        self.root
            .open_below(path, Within::NoLinks)
            .map_err(|error| Fault::Refused { what: "open its directory", why: error.to_string() })
    }

    fn walk(&self, names: &[OsString], missing: Missing) -> Result<PathBuf, Fault> {
        let ahead = names.iter().rev().cloned().collect();
        let link = (String::new(), String::new());
        let mut walk = Walk { ahead, behind: Vec::new(), links: 0, link, lowers_show: true };
        while let Some(name) = walk.ahead.pop() {
            if name == ".." {
                walk.step_back()?;
            } else {
                self.step(&mut walk, name, missing)?;
            }
        }
        Ok(walk.behind.iter().collect())
    }

    fn step(&self, walk: &mut Walk, name: OsString, missing: Missing) -> Result<(), Fault> {
        let here = self.open(&walk.behind.iter().collect::<PathBuf>())?;
        walk.lowers_show &= !is_opaque(&here).map_err(Fault::refused("read its attributes"))?;
        match look(&here, &name).map_err(Fault::refused("look for it"))? {
            Found::Directory => walk.behind.push(name),
            Found::Symlink => {
                let target = read_link(&here, &name).map_err(Fault::refused("read a link"))?;
                walk.follow(&name, &target)?;
            }
            Found::Other(_) => return Err(Fault::NoDirectory { parent: walk.at(&name) }),
            Found::Nothing | Found::Whiteout if missing == Missing::Fail => {
                return Err(Fault::NoDirectory { parent: walk.at(&name) });
            }
            Found::Whiteout => {
                unlinkat(here.as_fd(), &name, AtFlags::empty())
                    .map_err(Fault::refused("remove a whiteout"))?;
                make_opaque(&make(&here, &name, NEW)?).map_err(Fault::refused("make it opaque"))?;
                walk.behind.push(name);
            }
            Found::Nothing => self.take_from_below(walk, &here, name)?,
        }
        Ok(())
    }

    /// A directory that only the layers below have gets their owner and permissions: a layer that adds
    /// `tmp/x` alone must not close `/tmp` to others.
    fn take_from_below(&self, walk: &mut Walk, here: &Dir, name: OsString) -> Result<(), Fault> {
        let below = if walk.lowers_show { self.lowers.find(&walk.behind, &name)? } else { Below::Nothing };
        let like = match below {
            Below::Symlink(target) => return walk.follow(&name, &target),
            Below::Directory(like) => like,
            Below::Nothing => NEW,
        };
        make(here, &name, like)?;
        walk.behind.push(name);
        Ok(())
    }
}

impl Walk {
    fn at(&self, name: &OsStr) -> String {
        self.behind.iter().map(OsString::as_os_str).chain([name]).collect::<PathBuf>().display().to_string()
    }

    fn step_back(&mut self) -> Result<(), Fault> {
        // One level up, layers below may show again; not to look there is the safe side.
        match self.behind.pop() {
            Some(_) => Ok(()),
            None => Err(self.leaves()),
        }
    }

    fn leaves(&self) -> Fault {
        Fault::LinkLeaves { link: self.link.0.clone(), to: self.link.1.clone() }
    }

    fn follow(&mut self, name: &OsStr, target: &[u8]) -> Result<(), Fault> {
        self.links += 1;
        self.link = (self.at(name), String::from_utf8_lossy(target).into_owned());
        if self.links > LINKS {
            return Err(Fault::LinkLoop);
        }
        if target.starts_with(b"/") {
            return Err(self.leaves());
        }
        let names = target.split(|&byte| byte == b'/').filter(|name| !matches!(*name, b"" | b"."));
        let names: Vec<OsString> = names.map(|name| OsStr::from_bytes(name).to_owned()).collect();
        self.ahead.extend(names.into_iter().rev());
        Ok(())
    }
}

fn make(dir: &Dir, name: &OsStr, like: DirMode) -> Result<Dir, Fault> {
    dir.make_dir(name, like)
        .map_err(|error| Fault::Refused { what: "make its directory", why: error.to_string() })
}

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::path::Path;

use kernel::{Dir, Kind, Owner};
use rustix::fs::{AtFlags, fsync, renameat, symlinkat, unlinkat};
use rustix::io::Errno;

use super::error::Error;
use super::look::{Name, name};
use super::set::FileSet;
use super::stamp::Stamp;
use super::{DATA, SWAP, step};
use crate::ownership::change::chown_held;
use crate::ownership::walk::hold_in;

/// What is in the volume's own directory.
#[derive(Debug)]
pub(crate) struct Names(BTreeMap<String, Name>);

impl Names {
    pub(crate) fn of(volume: &Dir) -> Result<Self, Error> {
        let entries = volume.entries().map_err(Error::Dir)?;
        let names = entries.into_iter().filter_map(|entry| {
            let text = entry.name.into_string().ok()?;
            let what = name(volume, &text, entry.kind);
            Some((text, what))
        });
        Ok(Self(names.collect()))
    }

    /// Fails if a file's name is taken by something that is not ours: nothing is replaced that the
    /// writer did not make.
    pub(crate) fn refuse_foreign(&self, volume: &Dir, wanted: &FileSet<'_>) -> Result<(), Error> {
        let taken = self.0.iter().find_map(|(name, what)| match what {
            Name::Foreign(found) if wanted.visible.contains(name.as_str()) => Some((name, *found)),
            _ => None,
        });
        match taken {
            Some((name, found)) => Err(Error::InTheWay { path: volume.path().join(name), found }),
            None => Ok(()),
        }
    }

    fn has(&self, name: &str) -> bool {
        self.0.get(name) == Some(&Name::Ours)
    }

    fn all(&self, wanted: Name) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |(_, what)| **what == wanted).map(|(name, _)| name.as_str())
    }
}

/// Lets `..data` lead to the new set, at once.
pub(crate) fn swap(volume: &Dir, stamp: &Stamp, links: Owner) -> Result<(), Error> {
    match symlinkat(stamp.as_str(), volume, SWAP) {
        // A leftover of a swap that was not finished, or what a pod has put there.
        Err(Errno::EXIST) => {
            volume.remove_tree(SWAP.as_ref()).map_err(Error::Dir)?;
            symlinkat(stamp.as_str(), volume, SWAP)
        }
        other => other,
    }
    .map_err(step("make the link", volume, SWAP))?;
    own_link(volume, SWAP, links)?;
    match renameat(volume, SWAP, volume, DATA) {
        Err(Errno::ISDIR) => {
            volume.remove_tree(DATA.as_ref()).map_err(Error::Dir)?;
            renameat(volume, SWAP, volume, DATA)
        }
        other => other,
    }
    .map_err(step("swap", volume, DATA))
}

fn link(volume: &Dir, target: &str, name: &str, owner: Owner) -> Result<(), Error> {
    symlinkat(target, volume, name).map_err(step("make the link", volume, name))?;
    own_link(volume, name, owner)
}

/// Only a link is given away: whatever else has come to be there stays as it is.
fn own_link(volume: &Dir, name: &str, owner: Owner) -> Result<(), Error> {
    let (held, facts) = hold_in(volume.as_fd(), Path::new(name)).map_err(step("hold", volume, name))?;
    if facts.kind != Kind::Symlink {
        return Err(Error::Exchanged { path: volume.path().join(name) });
    }
    if (facts.uid, facts.gid) == (owner.uid, owner.gid) {
        return Ok(());
    }
    chown_held(held.as_fd(), owner).map_err(step("give away", volume, name))
}

/// Brings the names that readers use in line with the set; tells whether there was anything to do.
pub(crate) fn show(volume: &Dir, names: &Names, wanted: &FileSet<'_>) -> Result<bool, Error> {
    let mut changed = false;
    for name in &wanted.visible {
        if !names.has(name) {
            link(volume, &format!("{DATA}/{name}"), name, wanted.links)?;
            changed = true;
        } else if owner_of(volume, name)? != wanted.links {
            own_link(volume, name, wanted.links)?;
            changed = true;
        }
    }
    for name in names.all(Name::Ours).filter(|name| !wanted.visible.contains(name)) {
        remove_link(volume, name)?;
        changed = true;
    }
    Ok(changed)
}

fn owner_of(volume: &Dir, name: &str) -> Result<Owner, Error> {
    let found = rustix::fs::statat(volume, name, AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT);
    let found = found.map_err(step("look at", volume, name))?;
    Ok(Owner { uid: found.st_uid, gid: found.st_gid })
}

fn remove_link(volume: &Dir, name: &str) -> Result<(), Error> {
    match unlinkat(volume, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(step("remove", volume, name)(errno)),
    }
}

/// Removes what nothing leads to: sets of before, and the link of a swap that was not finished. Tells
/// whether there was any.
pub(crate) fn tidy(volume: &Dir, names: &Names, keep: &Stamp) -> Result<bool, Error> {
    let old = names.all(Name::Set).filter(|name| *name != keep.as_str());
    let mut any = false;
    for name in old.chain(names.all(Name::Swap)) {
        let gone = volume.remove_tree(name.as_ref()).map_err(Error::Dir)?;
        any |= gone != kernel::Removed::default();
    }
    Ok(any)
}

pub(crate) fn sync(volume: &Dir) -> Result<(), Error> {
    fsync(volume).map_err(step("sync", volume, ""))
}

use std::os::fd::AsFd;

use ids::IdKind;
use kernel::{Dir, Owner};
use rustix::io::Errno;

use super::Shifted;
use super::entry::{Entry, Identity};
use super::error::Error;
use super::inventory::shifted_capability;
use super::shift::{Direction, Fate, Shift};
use crate::ownership::change::{Change, SET_ID, capability, change, strip};
use crate::ownership::walk::{Held, hold};

/// Executes an entry, for the first time or again.
///
/// Exactly once: an owner is shifted only if it is the recorded one, which after the shift it is not, since no ID is
/// on both sides. A file that is not the recorded one, by its inode number and birth time, is left alone.
///
/// On the way back no file keeps setuid, setgid or capabilities: the pod can have set them, and they would then apply
/// to the host's users, its root included.
pub(crate) fn execute(tree: &Dir, shift: &Shift, entry: &Entry, so_far: &mut Shifted) -> Result<(), Error> {
    let failed = |errno| Error::Step { step: "shift", path: tree.path().join(&entry.path), errno };
    let mut held = match hold(tree.as_fd(), &entry.path) {
        Ok(held) if Identity::of(&held.facts) == entry.identity => held,
        Ok(_) | Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {
            so_far.vanished += 1;
            return Ok(());
        }
        Err(Errno::XDEV) => return Err(Error::MountBelow { path: tree.path().join(&entry.path) }),
        Err(errno) => return Err(failed(errno)),
    };
    let to = match shift.direction {
        Direction::Give => wanted(shift, entry, &held).map_err(failed)?,
        Direction::Back => {
            // First: there must be no moment when it is the host's and has them.
            so_far.stripped += u64::from(is_due(shift, entry, &held) && strip(&mut held).map_err(failed)?);
            Change { owner: shifted(shift, entry, &held), mode: held.facts.mode, capability: None }
        }
    };
    if change(&held, &to).map_err(failed)? {
        so_far.files += 1;
    }
    Ok(())
}

fn shifted(shift: &Shift, entry: &Entry, held: &Held) -> Owner {
    let facts = &held.facts;
    let next = |kind, entered: u32, found: u32| match shift.fate(kind, entered) {
        Fate::Becomes(id) if found == entered => id,
        _ => found,
    };
    Owner { uid: next(IdKind::Uid, entry.uid, facts.uid), gid: next(IdKind::Gid, entry.gid, facts.gid) }
}

fn is_due(shift: &Shift, entry: &Entry, held: &Held) -> bool {
    let owner = shifted(shift, entry, held);
    (owner.uid, owner.gid) != (held.facts.uid, held.facts.gid)
}

fn wanted(shift: &Shift, entry: &Entry, held: &Held) -> Result<Change, Errno> {
    let facts = &held.facts;
    let (owner, is_shifted) = (shifted(shift, entry, held), !is_due(shift, entry, held));
    // Bits that the kernel cleared with the change of owner, and that a process killed right after it could not
    // restore.
    let lost_bits = facts.mode != entry.mode && facts.mode.with(entry.mode.and(SET_ID)) == entry.mode;
    let mode = if is_shifted && lost_bits { entry.mode } else { facts.mode };
    let capability = match (is_shifted, capability(held)?) {
        (false, found) => found,
        (true, Some(_)) => None,
        (true, None) => entry.capability.clone(),
    };
    let capability = capability.map(|raw| shifted_capability(shift, &raw)).transpose();
    Ok(Change { owner, mode, capability: capability.map_err(|_| Errno::INVAL)? })
}

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use kernel::{Kind, Owner};
use rustix::fs::{
    AtFlags, CWD, Gid, Mode as RawMode, Uid, XattrFlags, chmodat, chownat, getxattr, removexattr, setxattr,
};
use rustix::io::Errno;

use super::walk::Held;
use crate::payload::Mode;

const CAPABILITY: &str = "security.capability";
/// The kernel's own layouts take 24 bytes at most.
const CAPABILITY_MAX: usize = 64;

/// The bits that the kernel takes away from whatever changes hands, directories excepted.
pub(crate) const SET_ID: Mode = Mode::cut(0o6000);
const NOT_SET_ID: Mode = Mode::cut(0o1777);

/// What a file shall have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) owner: Owner,
    /// Not for links, which have none.
    pub(crate) mode: Mode,
    /// Raw, as the kernel stores it.
    pub(crate) capability: Option<Vec<u8>>,
}

/// Makes the held file as it shall be; tells whether anything was to be done. By descriptor: whatever
/// its name leads to by now, this very file is changed.
pub(crate) fn change(held: &Held, to: &Change) -> Result<bool, Errno> {
    let facts = &held.facts;
    let user = (facts.uid != to.owner.uid).then(|| Uid::from_raw(to.owner.uid));
    let group = (facts.gid != to.owner.gid).then(|| Gid::from_raw(to.owner.gid));
    let chown = user.is_some() || group.is_some();
    if chown {
        chownat(&held.fd, c"", user, group, AtFlags::EMPTY_PATH)?;
    }
    if facts.kind == Kind::Symlink {
        return Ok(chown);
    }
    let lost = chown && facts.kind != Kind::Directory && to.mode.and(SET_ID).bits() != 0;
    let chmod = facts.mode != to.mode || lost;
    if chmod {
        chmodat(CWD, own_path(held.fd.as_fd()), RawMode::from_raw_mode(to.mode.bits()), AtFlags::empty())?;
    }
    let granted = match &to.capability {
        Some(raw) if chown || capability(held)?.as_ref() != Some(raw) => {
            setxattr(own_path(held.fd.as_fd()), CAPABILITY, raw, XattrFlags::empty())?;
            true
        }
        _ => false,
    };
    Ok(chown || chmod || granted)
}

/// Takes away what makes a program run as its owner, or with capabilities; tells whether it had any. Not
/// from directories, where setgid means something else.
pub(crate) fn strip(held: &mut Held) -> Result<bool, Errno> {
    let facts = &mut held.facts;
    if matches!(facts.kind, Kind::Directory | Kind::Symlink) {
        return Ok(false);
    }
    let has_bits = facts.mode.and(SET_ID).bits() != 0;
    if has_bits {
        facts.mode = facts.mode.and(NOT_SET_ID);
        let mode = RawMode::from_raw_mode(facts.mode.bits());
        chmodat(CWD, own_path(held.fd.as_fd()), mode, AtFlags::empty())?;
    }
    let is_capable = capability(held)?.is_some();
    if is_capable {
        removexattr(own_path(held.fd.as_fd()), CAPABILITY)?;
    }
    Ok(has_bits || is_capable)
}

pub(crate) fn chown_held(file: BorrowedFd<'_>, owner: Owner) -> Result<(), Errno> {
    let (user, group) = (Uid::from_raw(owner.uid), Gid::from_raw(owner.gid));
    chownat(file, c"", Some(user), Some(group), AtFlags::EMPTY_PATH)
}

/// The capabilities that the file has, if it can have any.
pub(crate) fn capability(held: &Held) -> Result<Option<Vec<u8>>, Errno> {
    if held.facts.kind != Kind::File {
        return Ok(None);
    }
    let mut raw = [0; CAPABILITY_MAX];
    match getxattr(own_path(held.fd.as_fd()), CAPABILITY, &mut raw) {
        Ok(length) => Ok(raw.get(..length).map(<[u8]>::to_vec)),
        Err(Errno::NODATA | Errno::NOTSUP) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// The calls that take no descriptor of a held file take this name of it.
fn own_path(file: BorrowedFd<'_>) -> String {
    format!("/proc/thread-self/fd/{}", file.as_raw_fd())
}

use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;

/// How often a walk is repeated that the kernel gave up because something was renamed or mounted meanwhile. Against a
/// process that does so on purpose the caller gets an error in the end, never another file.
const TRIES: u32 = 256;

/// How a path is resolved. Magic links of /proc are never followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Within {
    /// It must stay below the directory: one that leaves it, even to come back, is an error.
    Beneath,
    /// The directory is its root: absolute links start there, and `..` ends there.
    AsRoot,
    /// It must stay below and meet no symbolic link at all.
    NoLinks,
}

impl Within {
    fn flags(self) -> ResolveFlags {
        ResolveFlags::NO_MAGICLINKS
            | match self {
                Self::Beneath => ResolveFlags::BENEATH,
                Self::AsRoot => ResolveFlags::IN_ROOT,
                Self::NoLinks => ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS,
            }
    }
}

/// What happens to a symbolic link that is the last component of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LastLink {
    /// It is followed, as any other.
    Follow,
    /// It is what is opened.
    Keep,
}

/// Whether a walk may go on into another mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mounts {
    Cross,
    StayOnThis,
}

/// One lookup below a directory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Walk<'a> {
    pub(crate) from: BorrowedFd<'a>,
    pub(crate) within: Within,
    pub(crate) mounts: Mounts,
}

impl Walk<'_> {
    pub(crate) fn open(self, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
        let other_mounts = match self.mounts {
            Mounts::Cross => ResolveFlags::empty(),
            Mounts::StayOnThis => ResolveFlags::NO_XDEV,
        };
        open(self.from, path, flags, self.within.flags() | other_mounts)
    }
}

/// openat2, repeated as long as the kernel returns EAGAIN. An empty path is the directory itself.
pub(crate) fn open(
    from: BorrowedFd<'_>,
    path: &Path,
    flags: OFlags,
    resolve: ResolveFlags,
) -> Result<OwnedFd, Errno> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    let once = || openat2(from, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve);
    let mut answer = once();
    for _ in 1..TRIES {
        match answer {
            Err(Errno::AGAIN | Errno::INTR) => answer = once(),
            settled => return settled,
        }
    }
    answer
}

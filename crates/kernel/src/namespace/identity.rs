use std::ffi::{c_int, c_ulong};
use std::fmt;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags, fstat};
use rustix::io::Errno;
use serde::Serialize;

use crate::userns::last_errno;
use crate::{Error, Result};

/// Ioctls of a namespace's descriptor: `_IO(0xb7, n)`.
const NS_GET_USERNS: c_ulong = 0xb701;
const NS_GET_PARENT: c_ulong = 0xb702;
const NS_GET_NSTYPE: c_ulong = 0xb703;
const NS_GET_OWNER_UID: c_ulong = 0xb704;

/// The kinds of namespaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum NamespaceKind {
    /// The root of the cgroups that are seen.
    Cgroup,
    /// System V IPC and POSIX message queues.
    Ipc,
    /// Mounts.
    Mnt,
    /// Network.
    Net,
    /// Process IDs.
    Pid,
    /// Clocks.
    Time,
    /// Users and groups.
    User,
    /// Host name.
    Uts,
}

impl NamespaceKind {
    /// All of them.
    pub const ALL: [Self; 8] =
        [Self::Cgroup, Self::Ipc, Self::Mnt, Self::Net, Self::Pid, Self::Time, Self::User, Self::Uts];

    /// Its name in /proc/PID/ns.
    #[must_use]
    pub fn file(self) -> &'static str {
        match self {
            Self::Cgroup => "cgroup",
            Self::Ipc => "ipc",
            Self::Mnt => "mnt",
            Self::Net => "net",
            Self::Pid => "pid",
            Self::Time => "time",
            Self::User => "user",
            Self::Uts => "uts",
        }
    }

    pub(crate) fn flag(self) -> c_int {
        match self {
            Self::Cgroup => libc::CLONE_NEWCGROUP,
            Self::Ipc => libc::CLONE_NEWIPC,
            Self::Mnt => libc::CLONE_NEWNS,
            Self::Net => libc::CLONE_NEWNET,
            Self::Pid => libc::CLONE_NEWPID,
            // libc has it for some targets only.
            Self::Time => 0x80,
            Self::User => libc::CLONE_NEWUSER,
            Self::Uts => libc::CLONE_NEWUTS,
        }
    }
}

impl fmt::Display for NamespaceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.file())
    }
}

/// Identifies a namespace among all others that exist at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct NamespaceId {
    /// The device of nsfs.
    pub dev: u64,
    /// The inode number; after the namespace is gone it may be reused.
    pub ino: u64,
}

impl NamespaceId {
    pub(super) fn of(fd: BorrowedFd<'_>) -> std::result::Result<Self, Errno> {
        let found = fstat(fd)?;
        Ok(Self { dev: found.st_dev, ino: found.st_ino })
    }
}

impl fmt::Display for NamespaceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}]", self.ino)
    }
}

/// A namespace held open: it exists for as long as this does.
#[derive(Debug)]
pub struct Namespace {
    fd: OwnedFd,
    id: NamespaceId,
    kind: NamespaceKind,
}

impl Namespace {
    /// The one at a path such as /proc/PID/ns/net or a pin.
    pub fn open(path: &Path) -> Result<Self> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let fd = rustix::fs::open(path, flags, Mode::empty())
            .map_err(|errno| Error::Open { path: path.to_owned(), errno })?;
        Self::of(fd)
    }

    /// The one that a descriptor stands for; anything else is an error.
    pub fn of(fd: OwnedFd) -> Result<Self> {
        let failed = |errno| Error::AskNamespace { what: "the kind of a namespace", errno };
        let flag = ask(fd.as_fd(), NS_GET_NSTYPE).map_err(failed)?;
        let kind = NamespaceKind::ALL.into_iter().find(|kind| kind.flag() == flag);
        let kind = kind.ok_or_else(|| failed(Errno::INVAL))?;
        let id = NamespaceId::of(fd.as_fd()).map_err(failed)?;
        Ok(Self { fd, id, kind })
    }

    /// Moves the calling thread into it, with all processes that it starts from then on. For a process with one
    /// thread, and for network, IPC and UTS namespaces.
    pub fn join(&self) -> Result<()> {
        rustix::thread::move_into_link_name_space(self.fd.as_fd(), None)
            .map_err(|errno| Error::JoinNamespace { kind: self.kind, errno })
    }

    /// Its identity.
    #[must_use]
    pub fn id(&self) -> NamespaceId {
        self.id
    }

    /// Its kind.
    #[must_use]
    pub fn kind(&self) -> NamespaceKind {
        self.kind
    }

    /// The user namespace that it belongs to; of a user namespace, the one that it was made in. `None`
    /// if that is outside of the caller's sight.
    pub fn owner(&self) -> Result<Option<Self>> {
        self.relative(NS_GET_USERNS, "the user namespace that a namespace belongs to")
    }

    /// The one that a user or PID namespace was made in. `None` if it is the first, or outside of the
    /// caller's sight; an error for a kind that has none.
    pub fn parent(&self) -> Result<Option<Self>> {
        self.relative(NS_GET_PARENT, "the parent of a namespace")
    }

    /// The user, as seen from here, that created a user namespace and has all capabilities over it.
    pub fn owner_uid(&self) -> Result<u32> {
        let mut uid: libc::uid_t = 0;
        // SAFETY: the descriptor is borrowed for the whole call, which writes one user ID to `uid`.
        let result = unsafe { libc::ioctl(self.fd.as_raw_fd(), NS_GET_OWNER_UID, &raw mut uid) };
        if result == 0 {
            return Ok(uid);
        }
        Err(Error::AskNamespace { what: "the owner of a user namespace", errno: last_errno() })
    }

    fn relative(&self, question: c_ulong, what: &'static str) -> Result<Option<Self>> {
        match ask(self.fd.as_fd(), question) {
            // SAFETY: the kernel has just returned this descriptor, and no other value owns it.
            Ok(fd) => Self::of(unsafe { OwnedFd::from_raw_fd(fd) }).map(Some),
            Err(Errno::PERM) => Ok(None),
            Err(errno) => Err(Error::AskNamespace { what, errno }),
        }
    }
}

impl AsFd for Namespace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The ioctls that take no argument.
fn ask(namespace: BorrowedFd<'_>, question: c_ulong) -> std::result::Result<c_int, Errno> {
    // SAFETY: the descriptor is borrowed for the whole call, and these questions take no argument.
    let answer = unsafe { libc::ioctl(namespace.as_raw_fd(), question) };
    if answer >= 0 { Ok(answer) } else { Err(last_errno()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(kind: NamespaceKind) -> Namespace {
        Namespace::open(&Path::new("/proc/thread-self/ns").join(kind.file())).unwrap()
    }

    #[test]
    fn our_own_namespaces_are_told_apart_and_belong_to_a_user_namespace() {
        let user = own(NamespaceKind::User);
        for kind in NamespaceKind::ALL.into_iter().filter(|kind| *kind != NamespaceKind::User) {
            let found = own(kind);
            assert_eq!(found.kind(), kind);
            assert_ne!(found.id(), user.id());
            if let Some(owner) = found.owner().unwrap() {
                assert_eq!(owner.kind(), NamespaceKind::User);
            }
        }
    }

    #[test]
    fn what_is_no_namespace_is_refused() {
        let file = std::fs::File::open("/dev/null").unwrap();
        let error = Namespace::of(file.into()).unwrap_err();
        assert!(matches!(error, Error::AskNamespace { errno: Errno::NOTTY, .. }), "{error}");
    }

    #[test]
    fn a_kind_without_parents_says_so() {
        let error = own(NamespaceKind::Net).parent().unwrap_err();
        assert!(matches!(error, Error::AskNamespace { errno: Errno::INVAL, .. }), "{error}");
    }
}

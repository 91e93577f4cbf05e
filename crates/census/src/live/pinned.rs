//! User namespaces without tasks: reached through what keeps them, and their maps asked of the kernel.

use std::fmt;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use kernel::{IdMaps, Namespace};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::maps::Maps;
use super::mounts::namespace_mounts;
use super::own;
use super::walk::read_into;
use crate::host_root::HostRoot;
use crate::owner::Via;

/// `NSFS_MAGIC` of linux/magic.h.
const NSFS: u64 = 0x6e73_6673;

/// Where a namespace is found.
#[derive(Debug, Clone)]
pub(crate) enum Place {
    /// A task lives in it: its link below the task's directory.
    Home(&'static str),
    Descriptor(u32),
    Mount {
        point: PathBuf,
        reach: Reach,
    },
}

/// Which user namespaces can act through a mount of a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Any: the mount namespace is the host's own.
    Any,
    /// Those whose IDs are seen in use anyway. The mount namespace belongs to a user namespace other than the host's, and
    /// only a task there, or in one around it, can open the mount. It has power over what it opens only if that was made
    /// inside of its own user namespace; then its own maps, which are seen, have all IDs of it.
    Owner,
}

/// Something by which a user namespace is kept, and can be reached.
#[derive(Debug, Clone)]
pub(crate) struct Pin {
    /// The task that lives in it or has it open, or one that sees the mount.
    pub(crate) task: u32,
    pub(crate) place: Place,
    /// The namespace that is found there.
    pub(crate) inode: u64,
    /// How many steps to go up from the namespace to owning user namespaces. None for the namespace itself.
    pub(crate) up: usize,
}

impl Pin {
    pub(crate) fn via(&self) -> Via {
        match self.place {
            _ if self.up > 0 => Via::Belonging,
            Place::Home(_) => Via::Task,
            Place::Descriptor(_) => Via::Descriptor,
            Place::Mount { .. } => Via::Mount,
        }
    }

    /// Whether nothing has to be known of the namespace that is found there: see [`Reach::Owner`].
    pub(crate) fn is_harmless(&self) -> bool {
        matches!(self.place, Place::Mount { reach: Reach::Owner, .. })
    }

    fn path(&self, root: &HostRoot, name: &str) -> PathBuf {
        root.path(format!("/proc/{}/{name}", self.task))
    }

    /// Its link below `/proc`, if it has one.
    fn link(&self, root: &HostRoot) -> Option<PathBuf> {
        match &self.place {
            Place::Home(name) => Some(self.path(root, name)),
            Place::Descriptor(fd) => Some(self.path(root, &format!("fd/{fd}"))),
            Place::Mount { .. } => None,
        }
    }

    /// A handle on the namespace; it may have become something else in the meantime.
    fn open(&self, root: &HostRoot) -> io::Result<OwnedFd> {
        // A handle opens nothing: a device or a pipe in the place of the namespace does no harm.
        let handle = OFlags::PATH | OFlags::CLOEXEC;
        if let Some(link) = self.link(root) {
            return Ok(rustix::fs::openat(CWD, link, handle, Mode::empty())?);
        }
        let Place::Mount { point, reach } = &self.place else { return Err(io::ErrorKind::NotFound.into()) };
        let top = rustix::fs::openat(CWD, self.path(root, "root"), handle, Mode::empty())?;
        // The kernel holds the way to every mount point in memory. A filesystem that an ordinary user has mounted is never
        // asked for it: it need not answer.
        let resolve = match reach {
            Reach::Any => ResolveFlags::IN_ROOT,
            Reach::Owner => ResolveFlags::IN_ROOT | ResolveFlags::CACHED,
        };
        Ok(rustix::fs::openat2(&top, point, handle, Mode::empty(), resolve)?)
    }

    /// If it cannot be read, it counts as held.
    pub(crate) fn still_holds(&self, root: &HostRoot) -> bool {
        if let Some(link) = self.link(root) {
            return match rustix::fs::stat(link) {
                Ok(found) => found.st_ino == self.inode,
                Err(e) => !matches!(e, Errno::NOENT | Errno::SRCH),
            };
        }
        let mut text = Vec::new();
        match read_into(CWD, self.path(root, "mountinfo"), &mut text) {
            Ok(()) => namespace_mounts(&text).iter().any(|m| m.inode == self.inode),
            Err(e) => !matches!(e, Errno::NOENT | Errno::SRCH | Errno::INVAL),
        }
    }

    /// The namespace that is found there. The error says why it cannot be held.
    pub(crate) fn found(&self, root: &HostRoot) -> Result<Namespace, String> {
        if let (Place::Home(_), Some(link)) = (&self.place, self.link(root)) {
            // Such a link leads to a namespace whosever it is by now.
            let found = Namespace::open(&link).map_err(|e| e.to_string())?;
            let is_same = found.id().ino == self.inode;
            return if is_same { Ok(found) } else { Err("its task lives in another by now".into()) };
        }
        let handle = self.open(root).map_err(|e| e.to_string())?;
        if !is_namespace(&handle, self.inode).map_err(|e| e.to_string())? {
            return Err("it is hidden behind another mount; unmount that first".into());
        }
        // Ours, not the host root's: this thread is known by that name here.
        let own = format!("/proc/thread-self/fd/{}", handle.as_raw_fd());
        Namespace::open(Path::new(&own)).map_err(|e| e.to_string())
    }

    /// The user namespace that it keeps.
    fn kept(&self, root: &HostRoot) -> Result<Namespace, String> {
        let mut namespace = self.found(root)?;
        for _ in 0..self.up {
            let owner = namespace.owner().map_err(|e| e.to_string())?;
            namespace = owner.ok_or("its owning user namespace is not visible from here")?;
        }
        Ok(namespace)
    }
}

impl fmt::Display for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.up > 0 {
            write!(f, "namespace {} that belongs to it, ", self.inode)?;
        }
        match &self.place {
            Place::Home(name) => write!(f, "{name} of task {}", self.task),
            Place::Descriptor(fd) => write!(f, "descriptor {fd} of task {}", self.task),
            Place::Mount { point, .. } => {
                write!(f, "the mount {} (as task {} sees it)", point.display(), self.task)
            }
        }
    }
}

/// The maps of the user namespace that all of `pins` keep, and the pin that showed them. `None` if
/// none keeps it any longer. The error says why it cannot be looked into though it is kept.
pub(crate) fn maps_of<'a>(
    root: &HostRoot,
    inode: u64,
    pins: &'a mut [Pin],
) -> Result<Option<(&'a Pin, Maps)>, String> {
    let _looking = own::looking();
    // Those that keep it by themselves say most.
    pins.sort_by_key(|pin| pin.up);
    let mut failed = None;
    for pin in &*pins {
        match maps_through(root, inode, pin) {
            Ok(maps) => return Ok(Some((pin, maps))),
            Err(_) if pin.is_harmless() || !pin.still_holds(root) => {}
            Err(cause) => failed = Some(format!("held by {pin}, cannot be looked into: {cause}")),
        }
    }
    failed.map_or(Ok(None), Err)
}

fn maps_through(root: &HostRoot, inode: u64, pin: &Pin) -> Result<Maps, String> {
    let namespace = pin.kept(root)?;
    if namespace.id().ino != inode {
        return Err(format!("the user namespace found there is {}", namespace.id().ino));
    }
    IdMaps::read(&namespace).map(Maps::from).map_err(|e| e.to_string())
}

fn is_namespace(handle: &OwnedFd, inode: u64) -> io::Result<bool> {
    let on_nsfs = u64::try_from(rustix::fs::fstatfs(handle)?.f_type).is_ok_and(|magic| magic == NSFS);
    Ok(on_nsfs && rustix::fs::fstat(handle)?.st_ino == inode)
}

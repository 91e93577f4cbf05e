//! User namespaces without tasks.
//!
//! The kernel shows a user namespace's maps only through a task in it, so where there is none, one
//! is put there for a moment: `nsenter` joins the namespace and becomes `cat`, which waits on a pipe
//! while we read its maps from here, and ends when the pipe is closed.

use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};

use super::maps::Maps;
use super::mounts::user_namespace_mounts;
use super::walk::{namespace_inode, read_into};
use crate::host_root::HostRoot;
use crate::owner::Via;

const NSENTER: &str = "/usr/bin/nsenter";
const CAT: &str = "/usr/bin/cat";
/// `NSFS_MAGIC` of linux/magic.h.
const NSFS: u64 = 0x6e73_6673;

/// What keeps a namespace.
#[derive(Debug)]
pub(crate) enum Place {
    Descriptor(u32),
    Mount(PathBuf),
}

/// Something by which a user namespace is kept, and can be reached.
#[derive(Debug)]
pub(crate) struct Pin {
    /// The task that has it open, or one that sees the mount.
    pub(crate) task: u32,
    pub(crate) place: Place,
}

impl Pin {
    pub(crate) fn via(&self) -> Via {
        match self.place {
            Place::Descriptor(_) => Via::Descriptor,
            Place::Mount(_) => Via::Mount,
        }
    }

    fn path(&self, root: &HostRoot, name: &str) -> PathBuf {
        root.path(format!("/proc/{}/{name}", self.task))
    }

    /// A handle on the namespace; it may have become something else in the meantime.
    fn open(&self, root: &HostRoot) -> io::Result<OwnedFd> {
        // A handle opens nothing: a device or a pipe in the place of the namespace does no harm.
        let handle = OFlags::PATH | OFlags::CLOEXEC;
        match &self.place {
            Place::Descriptor(fd) => {
                Ok(rustix::fs::openat(CWD, self.path(root, &format!("fd/{fd}")), handle, Mode::empty())?)
            }
            Place::Mount(point) => {
                let top = rustix::fs::openat(CWD, self.path(root, "root"), handle, Mode::empty())?;
                Ok(rustix::fs::openat2(&top, point, handle, Mode::empty(), ResolveFlags::IN_ROOT)?)
            }
        }
    }

    fn still_holds(&self, root: &HostRoot, inode: u64) -> bool {
        match &self.place {
            Place::Descriptor(fd) => fs::read_link(self.path(root, &format!("fd/{fd}"))).is_ok_and(|link| {
                namespace_inode(link.as_os_str().as_encoded_bytes(), b"user") == Some(inode)
            }),
            Place::Mount(_) => {
                let mut text = Vec::new();
                read_into(CWD, self.path(root, "mountinfo"), &mut text).is_ok()
                    && user_namespace_mounts(&text).iter().any(|m| m.inode == inode)
            }
        }
    }
}

impl fmt::Display for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Place::Descriptor(fd) => write!(f, "descriptor {fd} of task {}", self.task),
            Place::Mount(point) => write!(f, "the mount {} (as task {} sees it)", point.display(), self.task),
        }
    }
}

/// The maps of the user namespace that all of `pins` keep, and the pin that showed them. `None` if
/// none keeps it any longer. The error says why it cannot be looked into though it is kept.
pub(crate) fn maps_of<'a>(
    root: &HostRoot,
    inode: u64,
    pins: &'a [Pin],
) -> Result<Option<(&'a Pin, Maps)>, String> {
    let mut failed = None;
    for pin in pins {
        match maps_through(root, inode, pin) {
            Ok(maps) => return Ok(Some((pin, maps))),
            Err(_) if !pin.still_holds(root, inode) => {}
            Err(cause) => failed = Some(format!("held by {pin}, cannot be looked into: {cause}")),
        }
    }
    failed.map_or(Ok(None), Err)
}

fn maps_through(root: &HostRoot, inode: u64, pin: &Pin) -> Result<Maps, String> {
    let handle = pin.open(root).map_err(|e| e.to_string())?;
    if !is_namespace(&handle, inode).map_err(|e| e.to_string())? {
        return Err("it is hidden behind another mount; unmount that first".into());
    }
    // Ours, not the host root's: this process and its child are known by these numbers here.
    let path = format!("/proc/{}/fd/{}", std::process::id(), handle.as_raw_fd());
    Visitor::send(Path::new(&path))?.maps(inode)
}

fn is_namespace(handle: &OwnedFd, inode: u64) -> io::Result<bool> {
    let on_nsfs = u64::try_from(rustix::fs::fstatfs(handle)?.f_type).is_ok_and(|magic| magic == NSFS);
    Ok(on_nsfs && rustix::fs::fstat(handle)?.st_ino == inode)
}

/// A task of ours inside the namespace, which it leaves when this is dropped.
struct Visitor(Child);

impl Visitor {
    fn send(namespace: &Path) -> Result<Self, String> {
        let mut user = OsString::from("--user=");
        user.push(namespace);
        // Root need not be mapped inside, so the visitor stays who it is.
        let child = Command::new(NSENTER)
            .arg(user)
            .args(["--preserve-credentials", "--", CAT])
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let mut visitor = Self(child.map_err(|e| format!("cannot run {NSENTER} (of util-linux): {e}"))?);
        if visitor.echoes() { Ok(visitor) } else { Err(visitor.last_words()) }
    }

    /// `cat` answers only once it runs, and it runs only inside.
    fn echoes(&mut self) -> bool {
        let mut byte = [0];
        let sent = self.0.stdin.as_mut().is_some_and(|s| s.write_all(b"\n").is_ok());
        sent && self.0.stdout.as_mut().is_some_and(|s| s.read_exact(&mut byte).is_ok())
    }

    fn last_words(&mut self) -> String {
        let mut words = String::new();
        if let Some(mut stderr) = self.0.stderr.take() {
            // Whatever was said is better than an error about listening.
            let _ = stderr.read_to_string(&mut words);
        }
        format!("cannot join it: {}", words.trim())
    }

    fn maps(&self, inode: u64) -> Result<Maps, String> {
        let own = PathBuf::from(format!("/proc/{}", self.0.id()));
        let read = |name: &str| fs::read_to_string(own.join(name)).map_err(|e| format!("{name}: {e}"));
        let link = fs::read_link(own.join("ns/user")).map_err(|e| format!("ns/user: {e}"))?;
        if namespace_inode(link.as_os_str().as_encoded_bytes(), b"user") != Some(inode) {
            return Err("the visitor came out in another namespace".into());
        }
        Maps::parse(&read("uid_map")?, &read("gid_map")?).map_err(|e| e.to_string())
    }
}

impl Drop for Visitor {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        // It ends by itself at the end of its input; only the entry in the process table is left.
        let _ = self.0.wait();
    }
}

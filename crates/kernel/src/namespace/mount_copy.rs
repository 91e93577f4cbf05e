//! The mounts of another mount namespace, copied to where they can be looked at and taken apart.

use std::collections::BTreeSet;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::{Namespace, PrivateMountNamespace};
use crate::mount::tree;
use crate::{
    Attributes, DetachedMount, Dir, Error, MountEntry, MountTable, Node, Propagation, Result, Submounts,
};

const OWN_TASK: &str = "/proc/thread-self";

/// From where the mounts of another mount namespace are copied.
#[derive(Debug, Clone, Copy)]
pub enum CopiedFrom<'a> {
    /// From the root of the mount namespace. No process inside moves that by chroot(2).
    Root,
    /// From a directory in that mount namespace which the caller holds open: the root of a process, say.
    Directory(BorrowedFd<'a>),
}

/// A copy of the mounts of another mount namespace, private in both directions: unmounting here changes nothing there.
/// It is unmounted when this is dropped.
#[derive(Debug)]
pub struct MountCopy<'a> {
    mount: DetachedMount,
    root: u64,
    target: PathBuf,
    original: MountTable,
    /// It is attached in the mount namespace of the thread that holds this.
    _attached_in: &'a PrivateMountNamespace,
}

impl PrivateMountNamespace {
    /// Copies the mounts of the mount namespace `of` and attaches the copy at `target`, a directory. The kernel leaves out
    /// mounts that are unbindable: [`MountCopy::original`] tells what there was.
    ///
    /// # Errors
    /// If the caller may not enter that mount namespace, or the kernel does not copy its mounts.
    pub fn copy_mounts(&self, of: &Namespace, from: CopiedFrom<'_>, target: &Path) -> Result<MountCopy<'_>> {
        // Both are opened here: below /proc of another mount namespace anything may be mounted.
        let home = opened("/proc/thread-self/ns/mnt", OFlags::RDONLY)?;
        let task = opened(OWN_TASK, OFlags::PATH | OFlags::DIRECTORY)?;
        enter(of.as_fd()).map_err(failed("enter another mount namespace"))?;
        let copied = copied(task.as_fd(), from);
        enter(home.as_fd()).map_err(failed("return to its own mount namespace"))?;
        let (original, fd) = copied?;
        let mut mount = DetachedMount::new(fd, "the copy of another mount namespace".to_owned());
        // Before anything is unmounted: what the original shares with others, its copy shares, too.
        let private = Some(Propagation::Private);
        mount.set(&Attributes {
            propagation: private,
            submounts: Submounts::Included,
            ..Attributes::default()
        })?;
        let root = crate::Stat::mount_id_of(mount.as_fd()).map_err(failed("find the root of the copy"))?;
        mount.attach_to(crate::Target::Path(target))?;
        Ok(MountCopy { mount, root, target: target.to_owned(), original, _attached_in: self })
    }
}

impl MountCopy<'_> {
    /// The mounts of the original, as seen from the root of its mount namespace.
    #[must_use]
    pub fn original(&self) -> &MountTable {
        &self.original
    }

    /// The root of the copy.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn root(&self) -> Result<Dir> {
        self.mount.root()
    }

    /// The mounts that the copy consists of by now, those that others cover among them. Their mount points are paths from
    /// the root of the copy.
    ///
    /// # Errors
    /// If the caller's table of mounts cannot be read.
    pub fn mounts(&self) -> Result<Vec<MountEntry>> {
        let table = MountTable::read()?;
        let mut inside = BTreeSet::from([self.root]);
        // The kernel's order need not be one of parents before children.
        loop {
            let before = inside.len();
            for mount in table.iter() {
                if inside.contains(&mount.parent) {
                    inside.insert(mount.id);
                }
            }
            if inside.len() == before {
                break;
            }
        }
        let of_copy = table.iter().filter(|mount| inside.contains(&mount.id));
        Ok(of_copy.map(|mount| MountEntry { point: self.point(mount), ..mount.clone() }).collect())
    }

    fn point(&self, mount: &MountEntry) -> PathBuf {
        let below = mount.point.strip_prefix(&self.target).unwrap_or(&mount.point);
        Path::new("/").join(below)
    }

    /// Whether this is the number of the copy's root.
    #[must_use]
    pub fn is_root(&self, mount: u64) -> bool {
        mount == self.root
    }

    /// Takes the mount whose root `top` is out of the copy, with all mounts below it.
    ///
    /// # Errors
    /// If the kernel refuses: it does where a user namespace inside the original may not uncover what is below, either.
    pub fn unmount(&self, top: &Node) -> Result<()> {
        detach(top.as_fd()).map_err(|errno| Error::Unmount { path: top.path().to_owned(), errno })
    }
}

impl Drop for MountCopy<'_> {
    /// On an error it stays until the private mount namespace ends.
    fn drop(&mut self) {
        let _ = detach(self.mount.as_fd());
    }
}

fn copied(task: BorrowedFd<'_>, from: CopiedFrom<'_>) -> Result<(MountTable, OwnedFd)> {
    let original = MountTable::of_task(task)?;
    let cloned = match from {
        CopiedFrom::Root => tree(rustix::fs::CWD, Path::new("/"), Submounts::Included),
        CopiedFrom::Directory(directory) => tree(directory, Path::new(""), Submounts::Included),
    };
    let fd = cloned.map_err(failed("copy the mounts of another mount namespace"))?;
    Ok((original, fd))
}

fn detach(mount: BorrowedFd<'_>) -> std::result::Result<(), Errno> {
    rustix::mount::unmount(format!("{OWN_TASK}/fd/{}", mount.as_raw_fd()), UnmountFlags::DETACH)
}

fn enter(namespace: BorrowedFd<'_>) -> std::result::Result<(), Errno> {
    move_into_link_name_space(namespace, Some(LinkNameSpaceType::Mount))
}

fn opened(path: &str, flags: OFlags) -> Result<OwnedFd> {
    rustix::fs::open(path, flags | OFlags::CLOEXEC, Mode::empty())
        .map_err(|errno| Error::Open { path: path.into(), errno })
}

fn failed(step: &'static str) -> impl Fn(Errno) -> Error {
    move |errno| Error::MountNamespace { step, errno }
}

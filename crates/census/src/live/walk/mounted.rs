//! Namespaces that are mounted, as `/proc/PID/mountinfo` names them.

use std::os::fd::BorrowedFd;

use kernel::NamespaceKind;

use super::super::mounts::{NamespaceMount, namespace_mounts};
use super::super::pinned::{Pin, Place, Reach};
use super::{Looked, Miss, Walk, gone_is_fine, link_inode, read_into};

/// A mount of a namespace, as a task sees it.
pub(super) struct Mounted {
    task: u32,
    /// The mount namespace of the task.
    within: u64,
    mount: NamespaceMount,
}

impl Walk {
    pub(super) fn mounts(&mut self, task: BorrowedFd<'_>, tid: u32) -> Looked<()> {
        let mount_namespace = Miss::at("mount namespace");
        let inode = match link_inode(task, "ns/mnt", NamespaceKind::Mnt) {
            Ok(inode) => inode,
            Err(e) => return gone_is_fine(mount_namespace(e)),
        };
        let root = match rustix::fs::readlinkat(task, "root", Vec::new()) {
            Ok(root) => root.into_bytes(),
            Err(e) => return gone_is_fine(mount_namespace(e)),
        };
        self.belongs(&Pin { task: tid, place: Place::Home("ns/mnt"), inode, up: 0 });
        if self.mounts_read.contains(&(inode, root.clone())) {
            return Ok(());
        }
        if let Err(e) = read_into(task, "mountinfo", &mut self.text) {
            return gone_is_fine(mount_namespace(e));
        }
        let mounts = namespace_mounts(&self.text).into_iter();
        self.mounted.extend(mounts.map(|mount| Mounted { task: tid, within: inode, mount }));
        self.mounts_read.insert((inode, root));
        Ok(())
    }

    /// Looks at what is mounted. By now every namespace is known that a task lives in or has open, and nothing has to be reached
    /// through a mount that another one may cover.
    pub(super) fn resolve_mounts(&mut self) {
        for Mounted { task, within, mount } in std::mem::take(&mut self.mounted) {
            let owner = self.belonging.nearest(within).filter(|owner| !self.like_host.contains(owner));
            let reach = if owner.is_some() { Reach::Owner } else { Reach::Any };
            let place = Place::Mount { point: mount.point, reach };
            self.pin(mount.kind, Pin { task, place, inode: mount.inode, up: 0 });
        }
    }
}

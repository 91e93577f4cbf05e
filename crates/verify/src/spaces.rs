//! Namespaces: where each can be got hold of, which user namespace each belongs to, and what lies in what.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use census::HostRoot;
use kernel::{LastLink, Namespace, NamespaceKind, Node, Within};

/// The host's own user namespace; the number is fixed by the kernel's ABI.
pub(crate) const HOST: u64 = 0xEFFF_FFFD;

/// How a namespace is kept, and can be reached.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Handle {
    /// A process is in it.
    Task { pid: u32 },
    /// It is mounted.
    Mount { pid: u32, point: PathBuf, id: u64 },
    /// A process has it open.
    Descriptor { pid: u32, path: PathBuf },
}

impl fmt::Display for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Task { pid } => write!(f, "process {pid} in it"),
            Self::Mount { pid, point, .. } => {
                write!(f, "the mount {} (as process {pid} sees it)", point.display())
            }
            Self::Descriptor { path, .. } => write!(f, "the open descriptor {}", path.display()),
        }
    }
}

type Place = (NamespaceKind, u64);

/// Every namespace within reach.
#[derive(Debug)]
pub(crate) struct Spaces {
    root: HostRoot,
    /// The best handle of each: a task's before a mount's before a descriptor's.
    handles: BTreeMap<Place, Handle>,
    owners: RefCell<HashMap<Place, Option<u64>>>,
    parents: RefCell<HashMap<u64, Option<u64>>>,
}

impl Spaces {
    pub(crate) fn new(root: &HostRoot) -> Self {
        Self {
            root: root.clone(),
            handles: BTreeMap::new(),
            owners: RefCell::default(),
            parents: RefCell::default(),
        }
    }

    pub(crate) fn hold(&mut self, kind: NamespaceKind, inode: u64, handle: Handle) {
        let held = self.handles.entry((kind, inode)).or_insert_with(|| handle.clone());
        if handle < *held {
            *held = handle;
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (NamespaceKind, u64, &Handle)> {
        self.handles.iter().map(|((kind, inode), handle)| (*kind, *inode, handle))
    }

    pub(crate) fn handle(&self, kind: NamespaceKind, inode: u64) -> Option<&Handle> {
        self.handles.get(&(kind, inode))
    }

    /// The namespace itself, if it is still where it was seen.
    pub(crate) fn open(&self, kind: NamespaceKind, inode: u64) -> Option<Namespace> {
        let found = match self.handles.get(&(kind, inode))? {
            Handle::Task { pid } => {
                Namespace::open(&self.root.path(format!("/proc/{pid}/ns/{kind}"))).ok()?
            }
            Handle::Descriptor { path, .. } => open_descriptor(path)?,
            Handle::Mount { pid, point, id } => self.open_mount(*pid, point, *id)?,
        };
        (found.kind() == kind && found.id().ino == inode).then_some(found)
    }

    /// No link on the way is followed, and nothing but that very mount is opened: the path is in another
    /// process's mount namespace.
    fn open_mount(&self, pid: u32, point: &Path, id: u64) -> Option<Namespace> {
        let top = Node::open(&self.root.path(format!("/proc/{pid}/root"))).ok()?.open_dir().ok()?;
        let below = point.strip_prefix("/").ok()?;
        let node = top.node(below, Within::NoLinks, LastLink::Keep).ok()?;
        if node.mount_id().ok()? != id {
            return None;
        }
        let path =
            format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&std::os::fd::AsFd::as_fd(&node)));
        Namespace::open(Path::new(&path)).ok()
    }

    /// The user namespace that another namespace belongs to.
    pub(crate) fn owner(&self, kind: NamespaceKind, inode: u64) -> Option<u64> {
        if let Some(known) = self.owners.borrow().get(&(kind, inode)) {
            return *known;
        }
        let owner = self.open(kind, inode).and_then(|space| space.owner().ok().flatten());
        if let Some(owner) = &owner {
            self.learn_parent(owner);
        }
        let owner = owner.map(|owner| owner.id().ino);
        self.owners.borrow_mut().insert((kind, inode), owner);
        owner
    }

    /// The owner itself, held.
    pub(crate) fn open_owner(&self, kind: NamespaceKind, inode: u64) -> Option<Namespace> {
        self.open(kind, inode)?.owner().ok().flatten()
    }

    /// Whether user namespace `inner` is `outer`, or was made in it or in one below it.
    pub(crate) fn lies_in(&self, inner: u64, outer: u64) -> bool {
        let mut current = inner;
        // The kernel nests at most 32 deep.
        for _ in 0..64 {
            if current == outer {
                return true;
            }
            match self.parent(current) {
                Some(parent) if parent != current => current = parent,
                _ => return false,
            }
        }
        false
    }

    fn parent(&self, user: u64) -> Option<u64> {
        if user == HOST {
            return None;
        }
        if let Some(known) = self.parents.borrow().get(&user) {
            return *known;
        }
        match self.open(NamespaceKind::User, user) {
            Some(space) => self.learn_parent(&space),
            None => None,
        }
    }

    /// One without a task may be known only through what it owns: its whole line is noted while it is held.
    fn learn_parent(&self, user: &Namespace) -> Option<u64> {
        let inode = user.id().ino;
        if let Some(known) = self.parents.borrow().get(&inode) {
            return *known;
        }
        let parent = user.parent().ok().flatten();
        let found = parent.as_ref().map(|parent| parent.id().ino);
        self.parents.borrow_mut().insert(inode, found);
        if let Some(parent) = parent.filter(|parent| parent.id().ino != HOST) {
            self.learn_parent(&parent);
        }
        found
    }
}

/// What a descriptor leads to may have changed since its link was read: its kind is looked at before it is opened.
fn open_descriptor(path: &Path) -> Option<Namespace> {
    namespace_link(&fs::read_link(path).ok()?)?;
    Namespace::open(path).ok()
}

/// The kind and number in a link such as `net:[4026531840]`.
pub(crate) fn namespace_link(link: &Path) -> Option<(NamespaceKind, u64)> {
    let (kind, rest) = link.to_str()?.split_once(":[")?;
    let kind = NamespaceKind::ALL.into_iter().find(|known| known.file() == kind)?;
    Some((kind, rest.strip_suffix(']')?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_to_a_namespace_is_told_from_any_other() {
        assert_eq!(namespace_link(Path::new("net:[7]")), Some((NamespaceKind::Net, 7)));
        assert_eq!(namespace_link(Path::new("socket:[7]")), None);
        assert_eq!(namespace_link(Path::new("/x/net:[7]")), None);
        assert_eq!(namespace_link(Path::new("net:[7")), None);
    }

    #[test]
    fn a_task_is_the_best_way_to_a_namespace() {
        let mut spaces = Spaces::new(&HostRoot::default());
        let descriptor = Handle::Descriptor { pid: 1, path: "/x".into() };
        spaces.hold(NamespaceKind::Net, 7, descriptor);
        spaces.hold(NamespaceKind::Net, 7, Handle::Task { pid: 9 });
        spaces.hold(NamespaceKind::Net, 7, Handle::Mount { pid: 1, point: "/y".into(), id: 3 });
        assert_eq!(spaces.handle(NamespaceKind::Net, 7), Some(&Handle::Task { pid: 9 }));
    }

    #[test]
    fn our_own_network_belongs_to_the_user_namespace_that_we_are_in_or_one_around_it() {
        let mut spaces = Spaces::new(&HostRoot::default());
        let pid = std::process::id();
        let inode = |kind: &str| {
            let link = fs::read_link(format!("/proc/self/ns/{kind}")).unwrap();
            namespace_link(&link).unwrap().1
        };
        let (net, user) = (inode("net"), inode("user"));
        spaces.hold(NamespaceKind::Net, net, Handle::Task { pid });
        spaces.hold(NamespaceKind::User, user, Handle::Task { pid });
        if let Some(owner) = spaces.owner(NamespaceKind::Net, net) {
            assert!(spaces.lies_in(user, owner));
        }
    }
}

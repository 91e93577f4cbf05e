//! What the nodes can do, as far as it is known without asking one.

use std::collections::{BTreeMap, BTreeSet};

use ids::BlockLength;
use plan::{
    Facts, FilesystemFacts, HandlerFacts, KernelFacts, PoolFacts, RuntimeFacts, SelinuxFacts, Support,
    VolumeKind,
};

use inventory::Objects;

/// Filesystems that Linux 6.3 can idmap.
const CAN: [&str; 14] = [
    "btrfs", "erofs", "exfat", "ext2", "ext3", "ext4", "f2fs", "ntfs3", "overlay", "squashfs", "tmpfs",
    "vfat", "xfs", "zfs",
];
/// Filesystems that no Linux can idmap.
const CANNOT: [&str; 6] = ["9p", "afs", "cifs", "nfs", "nfs4", "smb3"];
/// Handlers of runtimes that have kernels of their own and no user namespaces of ours.
const SANDBOXES: [&str; 3] = ["runsc", "gvisor", "kata"];
const ABLE: HandlerFacts = HandlerFacts { user_namespaces: true, recursive_read_only_mounts: true };

/// A node with a kernel and a runtime as new as user namespaces take.
pub(crate) fn able_node() -> Facts {
    let yes = CAN.map(|name| (name.to_owned(), Support::Yes));
    let no = CANNOT.map(|name| (name.to_owned(), Support::No("no Linux has idmapped mounts of it".into())));
    let kinds = [("emptyDir", "ext4"), ("configMap", "ext4"), ("image", "overlay")];
    let kinds = kinds.map(|(kind, on)| (VolumeKind(kind.to_owned()), on.to_owned()));
    Facts {
        kernel: KernelFacts {
            user_namespaces: Support::Yes,
            max_user_namespaces: 65_536,
            idmapped_mounts: Support::Yes,
        },
        filesystems: FilesystemFacts {
            idmap: yes.into_iter().chain(no).collect(),
            kinds: kinds.into(),
            paths: BTreeMap::new(),
            setuid: BTreeMap::new(),
        },
        runtime: RuntimeFacts {
            handlers: BTreeMap::from([(String::new(), ABLE)]),
            user_namespaces_host_network: false,
        },
        selinux: SelinuxFacts::default(),
        pool: PoolFacts {
            length: BlockLength::DEFAULT,
            longest: BlockLength::DEFAULT,
            allowed: None,
            blocks: 65_534,
            origin: "the default of a kubelet".to_owned(),
        },
    }
}

/// What is known of the runtime's handlers.
#[derive(Debug, Default)]
pub(crate) struct Handlers {
    pub(crate) facts: BTreeMap<String, HandlerFacts>,
    /// Nodes on which a handler that others can use cannot.
    pub(crate) unable_nodes: BTreeMap<String, Vec<String>>,
    /// Handlers without any information.
    pub(crate) assumed: BTreeSet<String>,
}

impl Handlers {
    /// Those of these names, by what a file of facts says, else by what the nodes say, else by what is
    /// known of their names.
    pub(crate) fn of(names: &BTreeSet<String>, objects: &Objects, given: Option<&Facts>) -> Self {
        let mut known = Self::default();
        let stated = given.map(|facts| &facts.runtime.handlers);
        for name in names {
            match stated.and_then(|handlers| handlers.get(name)) {
                Some(facts) => drop(known.facts.insert(name.clone(), *facts)),
                None => known.ask_nodes(name, objects),
            }
        }
        known
    }

    /// What was taken for granted.
    pub(crate) fn notes(&self) -> Vec<String> {
        let named = |name: &String| if name.is_empty() { "default".to_owned() } else { name.clone() };
        let names: Vec<String> = self.assumed.iter().map(named).collect();
        if names.is_empty() {
            return Vec::new();
        }
        let list = names.join(", ");
        vec![format!("no node was shown: runtime handlers taken to support user namespaces: {list}")]
    }

    fn ask_nodes(&mut self, name: &str, objects: &Objects) {
        let nodes: Vec<_> =
            objects.runtime_handlers().iter().filter(|(_, handlers)| !handlers.is_empty()).collect();
        if nodes.is_empty() {
            return self.assume(name);
        }
        let can = |handlers: &BTreeMap<String, HandlerFacts>| handlers.get(name).copied();
        let known: Vec<HandlerFacts> = nodes.iter().filter_map(|(_, handlers)| can(handlers)).collect();
        let Some(best) = known.iter().max_by_key(|facts| facts.user_namespaces) else { return };
        self.facts.insert(name.to_owned(), *best);
        let unable = nodes.iter().filter(|(_, handlers)| !can(handlers).is_some_and(|f| f.user_namespaces));
        let unable: Vec<String> = unable.map(|(node, _)| (*node).clone()).collect();
        if best.user_namespaces && !unable.is_empty() {
            self.unable_nodes.insert(name.to_owned(), unable);
        }
    }

    fn assume(&mut self, name: &str) {
        let is_sandbox = SANDBOXES.iter().any(|sandbox| name.contains(sandbox));
        let facts = if is_sandbox { HandlerFacts { user_namespaces: false, ..ABLE } } else { ABLE };
        self.facts.insert(name.to_owned(), facts);
        if !is_sandbox {
            self.assumed.insert(name.to_owned());
        }
    }
}

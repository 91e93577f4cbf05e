//! Nodes that tests share, by what is behind containerd's socket.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use testbed::Containerd;

use crate::support::{Gate, Node};

const CRUN: &str = include_str!("../support/crun.sh");

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Setup {
    /// containerd 1.6 and runc 1.1.
    Containerd16,
    /// containerd 2 and its runc.
    Containerd2,
    /// containerd 1.6 and Debian's crun.
    Crun,
}

impl Setup {
    pub(crate) fn containerd(self) -> Containerd {
        match self {
            Self::Containerd16 | Self::Crun => Containerd::Debian,
            Self::Containerd2 => Containerd::Pinned,
        }
    }

    fn start(self) -> Node {
        let node = Node::start(self.containerd());
        if self == Self::Crun {
            use_crun(&node);
        }
        node
    }
}

/// Has the wrapper call crun.
pub(crate) fn use_crun(node: &Node) {
    let crun = node.dir("programs").join("crun");
    fs::write(&crun, CRUN).unwrap();
    fs::set_permissions(&crun, fs::Permissions::from_mode(0o755)).unwrap();
    node.configure(Gate::Open, &crun);
}

/// One node for all tests that leave containerd alone. It ends with this process.
pub(crate) fn node(setup: Setup) -> &'static Node {
    static NODES: [OnceLock<Node>; 3] = [const { OnceLock::new() }; 3];
    NODES[setup as usize].get_or_init(|| setup.start())
}

/// One node for tests that look at the whole of it, or end containerd: one test after the other.
pub(crate) fn quiet(setup: Setup) -> MutexGuard<'static, Node> {
    static NODES: [OnceLock<Mutex<Node>>; 3] = [const { OnceLock::new() }; 3];
    let node = NODES[setup as usize].get_or_init(|| Mutex::new(setup.start()));
    // What a failed test has left is not laid to the next one's charge: it compares with how it began.
    node.lock().unwrap_or_else(PoisonError::into_inner)
}

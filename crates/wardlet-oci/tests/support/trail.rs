//! Everything that a pod could have left behind.

use std::collections::BTreeSet;

use super::{Node, proc};

/// How the node looked before.
pub struct Trail {
    mounts: BTreeSet<String>,
    files: BTreeSet<String>,
}

impl Trail {
    pub fn of(node: &Node) -> Self {
        Self { mounts: mounts(node), files: files(node) }
    }

    /// What is there now and was not then, and whatever still has IDs of these blocks.
    pub fn left(&self, node: &Node, blocks: &[u64]) -> Vec<String> {
        let mut left: Vec<String> = mounts(node).difference(&self.mounts).cloned().collect();
        left.extend(files(node).difference(&self.files).cloned());
        left.extend(blocks.iter().flat_map(|block| proc::processes_in(*block)));
        left.extend(node.leased().iter().map(|first| format!("the lease of {first}")));
        left
    }

    /// The same, waited for: containerd tidies up after it has answered.
    #[track_caller]
    pub fn ends_with_nothing(&self, node: &Node, blocks: &[u64]) {
        let began = std::time::Instant::now();
        loop {
            let left = self.left(node, blocks);
            if left.is_empty() {
                return;
            }
            assert!(began.elapsed() < super::PATIENCE, "left behind: {left:#?}");
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
    }
}

/// The testbed's mounts, without their numbers.
fn mounts(node: &Node) -> BTreeSet<String> {
    let table = node.said("cat", &["/proc/self/mountinfo"]);
    let points = table.lines().map(|line| line.split(' ').skip(3).collect::<Vec<_>>().join(" "));
    points.collect()
}

/// What our program and the runtimes keep of every container. Empty directories and what our program has learnt
/// of the runtime stay.
fn files(node: &Node) -> BTreeSet<String> {
    let script = "find /run/wardlet /run/wardlet-oci /run/containerd/runc /run/containerd/runsc /run/netns \
                  -not -type d -not -path '*/runtimes/*' 2>/dev/null; true";
    node.said("sh", &["-c", script]).lines().map(str::to_owned).collect()
}

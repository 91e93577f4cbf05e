//! The same pods with Debian's crun behind our program.
//!
//! crun 1.8 refuses hosts whose second hierarchy of control groups has a controller. There it is run with that one
//! hidden, in mounts of its own: what is left is a host with the first version alone, which crun knows.

use testbed::Containerd;

use crate::nodes::use_crun;
use crate::support::Node;
use crate::support::pods::Pod;
use crate::support::trail::Trail;

/// crun's own words for every pod of a containerd that writes a newer version of OCI, whether it asks or not.
#[test]
fn crun_1_8_refuses_what_containerd_2_writes_and_nothing_is_left() {
    let node = Node::start(Containerd::Pinned);
    use_crun(&node);
    let before = Trail::of(&node);
    for pod in [Pod::plain(&node, "plain"), Pod::annotated(&node, "asks")] {
        let refused = node.cri.run_sandbox(&pod).expect_err("a version that crun does not know");
        assert!(refused.message().contains("unknown version specified"), "{}", refused.message());
        for sandbox in node.cri.sandboxes().unwrap() {
            node.cri.remove_sandbox(&sandbox.id).expect("removed");
        }
    }
    before.ends_with_nothing(&node, &[]);
}

//! The same pods with Debian's crun behind our program.
//!
//! crun 1.8 refuses hosts whose second hierarchy of control groups has a controller. There it is run with that one
//! hidden, in mounts of its own: what is left is a host with the first version alone, which crun knows.

use crate::support;

#[path = "containerd/files.rs"]
mod files;
#[path = "containerd/lives.rs"]
#[expect(dead_code, reason = "crun is not tried with every case")]
mod lives;
#[path = "containerd/network.rs"]
mod network;
#[path = "containerd/shapes.rs"]
#[expect(dead_code, reason = "crun is not tried with every case")]
mod shapes;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use support::pods::Pod;
use support::trail::Trail;
use support::{Gate, Node};
use testbed::Containerd;

const CRUN: &str = include_str!("../support/crun.sh");

fn start(containerd: Containerd) -> Node {
    let node = Node::start(containerd);
    let crun = node.dir("programs").join("crun");
    fs::write(&crun, CRUN).unwrap();
    fs::set_permissions(&crun, fs::Permissions::from_mode(0o755)).unwrap();
    node.configure(Gate::Open, &crun);
    node
}

/// One for all: crun 1.8 takes only what the old containerd writes.
fn node(containerd: Containerd) -> &'static Node {
    static NODE: OnceLock<Node> = OnceLock::new();
    assert_eq!(containerd, Containerd::Debian);
    NODE.get_or_init(|| start(containerd))
}

/// One test after the other.
fn quiet(containerd: Containerd) -> MutexGuard<'static, Node> {
    static NODE: OnceLock<Mutex<Node>> = OnceLock::new();
    NODE.get_or_init(|| Mutex::new(start(containerd))).lock().unwrap_or_else(PoisonError::into_inner)
}

macro_rules! on_containerd_1_6 {
    ($($module:ident::$test:ident),* $(,)?) => {
        $(#[test] fn $test() { $module::$test(Containerd::Debian); })*
    };
}

on_containerd_1_6!(
    files::two_pods_have_two_blocks_and_see_their_files_as_their_own,
    files::what_a_pod_writes_belongs_to_root_on_disk_and_not_to_its_block,
    files::a_user_of_the_image_writes_where_it_may_and_to_its_streams,
    network::a_pod_serves_on_port_80_as_an_ordinary_user,
    network::sysctls_of_the_network_are_set_inside_the_pod_only,
    lives::the_namespaces_of_exec_are_those_of_init,
    lives::a_container_that_is_made_again_has_the_block_of_its_pod,
    lives::a_killed_shim_gives_the_block_back,
    shapes::containers_of_a_shared_pid_namespace_see_each_other,
    shapes::groups_limits_and_a_read_only_root_are_kept,
);

/// crun's own words for every pod of a containerd that writes a newer version of OCI, whether it asks or not.
#[test]
fn crun_1_8_refuses_what_containerd_2_writes_and_nothing_is_left() {
    let node = start(Containerd::Pinned);
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

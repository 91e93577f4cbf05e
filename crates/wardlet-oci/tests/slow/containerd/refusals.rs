//! What is refused, what others have decided, and what a failed create leaves: nothing.

use cri::NamespaceMode;

use crate::nodes::{Setup, node, quiet};
use crate::support::pods::{ASKS, Pod, Shaped};
use crate::support::trail::Trail;
use crate::support::{Node, proc, wait_for};

/// A pod that cannot be isolated, and a word of the reason.
fn impossible(node: &Node) -> Vec<(Pod, &'static str)> {
    let annotated = |name: &str| Pod::annotated(node, name);
    let mut host_network = annotated("host-network");
    host_network.options().network = NamespaceMode::Node.into();
    host_network.config.hostname.clear();
    let mut host_pid = annotated("host-pid");
    host_pid.options().pid = NamespaceMode::Node.into();
    let mut host_ipc = annotated("host-ipc");
    host_ipc.options().ipc = NamespaceMode::Node.into();
    vec![
        (host_network, "network"),
        (host_pid, "PID"),
        (host_ipc, "IPC"),
        (Pod::plain(node, "misspelt").with(ASKS, "yes"), ASKS),
        (annotated("unknown-sysctl").sysctl("net.core.no_such_thing", "1"), "no_such_thing"),
    ]
}

pub(crate) fn what_cannot_be_isolated_is_refused_with_its_reason_and_leaves_nothing(setup: Setup) {
    let node = quiet(setup);
    let before = Trail::of(&node);
    for (pod, word) in impossible(&node) {
        let name = pod.config.metadata.as_ref().unwrap().name.clone();
        let refused = node.cri.run_sandbox(&pod).expect_err(&name);
        assert!(refused.message().contains(word), "{name}: {}", refused.message());
        for sandbox in node.cri.sandboxes().unwrap() {
            node.cri.remove_sandbox(&sandbox.id).expect("removed");
        }
        before.ends_with_nothing(&node, &[]);
    }
    // The same without the annotation runs: it was the annotation that was refused.
    let mut plain = Pod::plain(&node, "host-network-plain");
    plain.options().network = NamespaceMode::Node.into();
    // The host's network comes with the host's name.
    plain.config.hostname.clear();
    let sandbox = node.cri.run_sandbox(&plain).expect("a sandbox");
    node.cri.remove_sandbox(&sandbox).expect("removed");
}

pub(crate) fn a_container_that_cannot_start_leaves_nothing(setup: Setup) {
    let node = quiet(setup);
    let before = Trail::of(&node);
    let pod = Pod::annotated(&node, "failing");
    let sandbox = node.cri.run_sandbox(&pod).expect("a sandbox");
    let block = proc::block(node.cri.sandbox_pid(&sandbox)).0;
    let with_pod = Trail::of(&node);
    let mut absent = pod.shell("absent", "");
    absent.command = vec!["/no/such/program".into()];
    let mut privileged = pod.shell("privileged", "sleep 1000");
    privileged.security().privileged = true;
    let mut admin = pod.shell("admin", "sleep 1000");
    admin.security().capabilities =
        Some(cri::Capability { add_capabilities: vec!["NET_ADMIN".into()], ..Default::default() });
    for (config, word) in [(absent, "no such"), (privileged, "privileged"), (admin, "NET_ADMIN")] {
        let failed = node.cri.run(&sandbox, &pod, config).expect_err(word);
        assert!(failed.message().contains(word), "{word}: {}", failed.message());
        let left = with_pod.left(&node, &[]);
        assert_eq!(left, [format!("the lease of {block}")], "only the pod's own lease");
    }
    let container = node.cri.run(&sandbox, &pod, pod.shell("main", "sleep 1000")).expect("a container");
    assert_eq!(proc::block(node.cri.pid(&container)).0, block);
    node.cri.remove_sandbox(&sandbox).expect("removed");
    before.ends_with_nothing(&node, &[block]);
}

/// containerd's own first container is an ordinary one in a pod that is to have privileged ones: nothing in its
/// configuration tells. Nothing is lost by it, as each of the others is refused by itself.
pub(crate) fn a_privileged_sandbox_is_isolated_and_its_privileged_container_is_refused(setup: Setup) {
    let node = node(setup);
    let mut pod = Pod::annotated(node, "privileged-sandbox");
    pod.context().privileged = true;
    let sandbox = node.cri.run_sandbox(&pod).expect("a sandbox");
    let block = proc::block(node.cri.sandbox_pid(&sandbox)).0;
    let mut privileged = pod.shell("privileged", "sleep 1000");
    privileged.security().privileged = true;
    let refused = node.cri.run(&sandbox, &pod, privileged).expect_err("privileged");
    assert!(refused.message().contains("privileged"), "{}", refused.message());
    let plain = node.cri.run(&sandbox, &pod, pod.shell("plain", "sleep 1000")).expect("a container");
    assert_eq!(proc::block(node.cri.pid(&plain)).0, block);
    node.cri.remove_sandbox(&sandbox).expect("removed");
}

pub(crate) fn a_volume_that_cannot_be_idmapped_is_refused_by_its_name(setup: Setup) {
    let node = node(setup);
    let pod = Pod::annotated(node, "overlay-volume");
    let sandbox = node.cri.run_sandbox(&pod).expect("a sandbox");
    // An overlay in a testbed, and the kernel idmaps none.
    let config = pod.shell("main", "sleep 1000").volume("/var/log".as_ref(), "/logs");
    let refused = node.cri.run(&sandbox, &pod, config).expect_err("an overlay");
    assert!(refused.message().contains("/var/log cannot be idmapped for /logs"), "{}", refused.message());
    node.cri.run(&sandbox, &pod, pod.shell("other", "sleep 1000")).expect("the pod is none the worse for it");
    node.cri.remove_sandbox(&sandbox).expect("removed");
}

/// The first host ID that a kubelet would have chosen.
const KUBELETS: u32 = 1_376_256_000;

pub(crate) fn a_user_namespace_from_the_kubelet_wins_and_nothing_is_leased(setup: Setup) {
    let node = node(setup);
    let mut pod = Pod::annotated(node, "hostusers");
    let line = cri::IdMapping { host_id: KUBELETS, container_id: 0, length: 65_536 };
    pod.options().userns_options =
        Some(cri::UserNamespace { mode: NamespaceMode::Pod.into(), uids: vec![line], gids: vec![line] });
    let sandbox = node.cri.run_sandbox(&pod).expect("a sandbox");
    let container = node.cri.run(&sandbox, &pod, pod.shell("main", "sleep 1000")).expect("a container");
    for pid in [node.cri.sandbox_pid(&sandbox), node.cri.pid(&container)] {
        assert_eq!(proc::block(pid), (u64::from(KUBELETS), 65_536));
    }
    assert!(!node.leased().contains(&u64::from(KUBELETS)));
    assert_eq!(node.cri.said(&container, "cat /proc/self/uid_map | wc -l"), "1\n");
    node.cri.remove_sandbox(&sandbox).expect("removed");
    wait_for("it is gone", || proc::processes_in(KUBELETS.into()).is_empty().then_some(()));
}

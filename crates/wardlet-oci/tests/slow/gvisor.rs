//! gVisor's shim with our program as its runsc: the seed's own case.

use crate::support;

use std::fs;
use std::os::unix::fs::{MetadataExt, chown};

use cri::{IdMapping, NamespaceMode, UserNamespace};
use rustix::process::Signal;
use support::pods::{Pod, Shaped};
use support::trail::Trail;
use support::{Gate, Node, WARD, ours, proc, wait_for};
use testbed::{Containerd, Part, Parts, ProcessId, Shim};

/// What pods of gVisor ask by.
const GVISOR_ASKS: &str = "dev.gvisor.spec.user-namespace";

fn node() -> Node {
    let node = Node::with(Containerd::Pinned, Parts::of(&[Part::Containerd]), vec![ours(WARD, Shim::Runsc)]);
    node.configure(Gate::Open, &testbed::cache::program("runsc", "runsc").expect("runsc"));
    node
}

/// The processes of runsc that serve this sandbox: the sandbox itself and its gofers.
fn processes(sandbox: &str) -> Vec<(String, i32)> {
    let of_it = proc::all().filter(|(pid, _)| proc::words(*pid).contains(sandbox));
    let named = of_it.map(|(pid, _)| {
        let words = proc::words(pid);
        let kind = ["boot", "gofer"].into_iter().find(|kind| words.contains(&format!("\0{kind}\0")));
        (kind.unwrap_or("other").to_owned(), pid)
    });
    named.filter(|(kind, _)| kind != "other").collect()
}

#[test]
fn sandbox_and_gofer_of_an_annotated_pod_run_in_its_block() {
    let node = node();
    let before = Trail::of(&node);
    let pods: Vec<(Pod, String, u64)> = ["one", "two"]
        .into_iter()
        .map(|name| {
            let pod = Pod::plain(&node, name).with(GVISOR_ASKS, "true");
            let sandbox =
                node.cri.run_sandbox(&pod).unwrap_or_else(|e| panic!("{e}\n{}", node.containerd_log()));
            let block = proc::block(node.cri.sandbox_pid(&sandbox)).0;
            (pod, sandbox, block)
        })
        .collect();
    assert!(pods[0].2.abs_diff(pods[1].2) >= 65_536, "{pods:?}");
    for (pod, sandbox, block) in &pods {
        assert!(node.leased().contains(block));
        let volume = node.dir(&format!("gvisor-{block}"));
        fs::write(volume.join("of-1000"), "words\n").unwrap();
        chown(volume.join("of-1000"), Some(1000), Some(1000)).unwrap();
        let config =
            pod.shell("main", "echo out; echo again > /dev/stdout; sleep 1000").volume(&volume, "/data");
        let container =
            node.cri.run(sandbox, pod, config).unwrap_or_else(|e| panic!("{e}\n{}", node.containerd_log()));
        let serving = processes(sandbox);
        for kind in ["boot", "gofer"] {
            assert!(serving.iter().any(|(one, _)| one == kind), "no {kind}: {serving:?}");
        }
        for (kind, pid) in serving {
            assert_eq!(proc::block(pid), (*block, 65_536), "{kind} {pid}");
        }
        let owners =
            node.cri.said(&container, "stat -c %u:%g / /bin/busybox /etc/passwd /data /data/of-1000");
        assert_eq!(owners, "0:0\n0:0\n0:0\n0:0\n1000:1000\n");
        node.cri.said(&container, "echo x > /data/x && chown 7:8 /data/x && echo y > /y && cat /y");
        let meta = fs::metadata(volume.join("x")).unwrap();
        assert_eq!((meta.uid(), meta.gid()), (7, 8));
        wait_for("its log", || (pod.logged("main") == "out\nagain\n").then_some(()));
    }
    for (_, sandbox, _) in &pods {
        node.cri.remove_sandbox(sandbox).expect("removed");
    }
    before.ends_with_nothing(&node, &pods.iter().map(|(_, _, block)| *block).collect::<Vec<_>>());
}

#[test]
fn a_pod_of_gvisor_that_asks_for_nothing_is_left_alone() {
    let node = node();
    for (name, value) in [("silent", None), ("one", Some("1"))] {
        let pod = Pod::plain(&node, name);
        let pod = value.into_iter().fold(pod, |pod, value| pod.with(GVISOR_ASKS, value));
        let sandbox = node.cri.run_sandbox(&pod).unwrap_or_else(|e| panic!("{e}\n{}", node.containerd_log()));
        let container = node.cri.run(&sandbox, &pod, pod.shell("main", "sleep 1000")).expect("a container");
        assert_eq!(node.cri.said(&container, "echo $((6 * 7))"), "42\n");
        assert_eq!(node.leased(), Vec::<u64>::new());
        node.cri.remove_sandbox(&sandbox).expect("removed");
    }
}

/// What the shim runs is in a file of the shim's, and not in containerd's.
#[test]
fn doctor_sees_what_gvisors_shim_is_told_to_run() {
    let node = node();
    let endpoint = format!("unix://{}", node.testbed.containerd_socket().display());
    let (_, report) = node.asked(&["doctor", "--runtime-endpoint", &endpoint]);
    let of_ours = report["checks"].as_array().unwrap().iter().filter(|check| check["group"] == "wrapper");
    let found: Vec<_> = of_ours.map(|check| (check["need"].to_string(), check["holds"].as_bool())).collect();
    for need in ["annotations of pods reach wardlet-oci", "the operator's gate", "finds the runtime"] {
        assert!(
            found.iter().any(|(one, holds)| one.contains(need) && *holds == Some(true)),
            "{need}: {found:?}"
        );
    }
}

#[test]
fn an_ordinary_user_serves_on_port_80_and_writes_where_it_may() {
    let node = node();
    let before = Trail::of(&node);
    let pod = Pod::annotated(&node, "web");
    let sandbox = node.cri.run_sandbox(&pod).expect("a sandbox");
    let block = proc::block(node.cri.sandbox_pid(&sandbox)).0;
    let volume = node.dir("gvisor-guarded");
    fs::write(volume.join("file"), "words\n").unwrap();
    let script = "mkdir /tmp/www && echo hello > /tmp/www/index.html && echo out > /dev/stdout && \
                  touch /mine 2>/dev/null || echo refused; httpd -f -p 80 -h /tmp/www";
    let config = pod.shell("web", script).user(1000).read_only(&volume, "/guarded");
    let container = node.cri.run(&sandbox, &pod, config).expect("a container");
    let url = format!("http://{}/index.html", node.cri.address(&sandbox));
    let page = wait_for("port 80 answers", || {
        let output = node.testbed.command("curl").args(["-s", "--max-time", "5", &url]).output().unwrap();
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    });
    assert_eq!(page, "hello\n");
    assert_eq!(pod.logged("web"), "out\nrefused\n");
    assert_eq!(node.cri.said(&container, "cat /guarded/file && id -u"), "words\n1000\n");
    assert_ne!(node.cri.exec(&container, "echo x > /guarded/file").unwrap().exit_code, 0);
    node.cri.remove_container(&container).expect("removed");
    let again = node.cri.run(&sandbox, &pod, pod.shell("again", "sleep 1000")).expect("a container");
    assert_eq!(node.cri.said(&again, "id -u"), "0\n");
    node.cri.remove_sandbox(&sandbox).expect("removed");
    before.ends_with_nothing(&node, &[block]);
}

#[test]
fn a_killed_shim_of_gvisor_gives_the_block_back() {
    let node = node();
    let before = Trail::of(&node);
    let pod = Pod::annotated(&node, "shimless");
    let sandbox = node.cri.run_sandbox(&pod).expect("a sandbox");
    node.cri.run(&sandbox, &pod, pod.shell("main", "sleep 1000")).expect("a container");
    let block = proc::block(node.cri.sandbox_pid(&sandbox)).0;
    assert!(ProcessId::of(proc::shim(&sandbox)).unwrap().signal(Signal::KILL));
    wait_for("the pod can be removed", || node.cri.remove_sandbox(&sandbox).ok());
    before.ends_with_nothing(&node, &[block]);
}

/// runsc's own words: it cannot join a user namespace that is there already. So the kubelet's `hostUsers: false`
/// is refused by it, and the annotation does not come in its place.
#[test]
fn a_user_namespace_from_the_kubelet_is_refused_by_runsc_itself() {
    let node = node();
    let before = Trail::of(&node);
    let mut pod = Pod::annotated(&node, "hostusers");
    let line = IdMapping { host_id: 1_376_321_536, container_id: 0, length: 65_536 };
    pod.options().userns_options =
        Some(UserNamespace { mode: NamespaceMode::Pod.into(), uids: vec![line], gids: vec![line] });
    let refused = node.cri.run_sandbox(&pod).expect_err("runsc joins no user namespace");
    assert!(refused.message().contains("error setting namespace of type user"), "{}", refused.message());
    assert_eq!(node.leased(), Vec::<u64>::new());
    for sandbox in node.cri.sandboxes().unwrap() {
        node.cri.remove_sandbox(&sandbox.id).expect("removed");
    }
    before.ends_with_nothing(&node, &[]);
}

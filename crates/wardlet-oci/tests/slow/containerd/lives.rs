//! Containers, containerd and shims that end and begin again.

use rustix::process::Signal;
use serde_json::{Value, json};
use testbed::{Part, ProcessId, faults};

use crate::nodes::{Setup, node, quiet};
use crate::support::pods::{Pod, Shaped};
use crate::support::trail::Trail;
use crate::support::{Gate, Node, cri::Cri, proc, usual_runtime, wait_for};

pub(crate) fn the_namespaces_of_exec_are_those_of_init(setup: Setup) {
    let node = node(setup);
    let pod = Pod::annotated(node, "exec");
    let sandbox = node.cri.run_sandbox(&pod).expect("a sandbox");
    let show = "for n in /proc/self/ns/*; do echo ${n##*/} $(readlink $n); done; cat /proc/self/uid_map";
    for (name, config) in
        [("root", pod.shell("root", "sleep 1000")), ("user", pod.shell("user", "sleep 1000").user(7))]
    {
        let container = node.cri.run(&sandbox, &pod, config).expect("a container");
        let pid = node.cri.pid(&container);
        let said = node.cri.said(&container, show);
        for (kind, inode) in proc::namespaces(&pid.to_string()) {
            assert!(
                said.contains(&format!("{kind} {inode}\n")),
                "{name}: {kind} is {inode} for init; exec: {said}"
            );
        }
        let own = proc::namespaces("self");
        for kind in ["user", "net", "mnt", "uts", "ipc", "pid"] {
            assert!(!said.contains(&own[kind]), "{name}: exec is in the host's {kind} namespace: {said}");
        }
        assert!(said.contains(&proc::block(pid).0.to_string()), "{name}: {said}");
    }
    node.cri.remove_sandbox(&sandbox).expect("removed");
}

pub(crate) fn a_container_that_is_made_again_has_the_block_of_its_pod(setup: Setup) {
    let node = node(setup);
    let volume = node.dir("again");
    let pod = Pod::annotated(node, "again");
    let sandbox = node.cri.run_sandbox(&pod).expect("a sandbox");
    let block = proc::block(node.cri.sandbox_pid(&sandbox));
    for attempt in 0..3 {
        let script = "ls /data; touch /data/$RANDOM-$$ /own; sleep 1000";
        let mut config = pod.shell("main", script).volume(&volume, "/data");
        config.metadata.as_mut().unwrap().attempt = attempt;
        let container = node.cri.run(&sandbox, &pod, config).expect("a container");
        assert_eq!(proc::block(node.cri.pid(&container)), block);
        wait_for("it has written", || {
            node.cri.exec(&container, "test -e /own").is_ok_and(|answer| answer.exit_code == 0).then_some(())
        });
        node.cri.remove_container(&container).expect("removed");
        assert!(node.leased().contains(&block.0), "the block is the pod's, not the container's");
    }
    node.cri.remove_sandbox(&sandbox).expect("removed");
    wait_for("the block is given back", || (!node.leased().contains(&block.0)).then_some(()));
}

pub(crate) fn pods_survive_a_restart_of_containerd(setup: Setup) {
    let mut node = quiet(setup);
    let before = Trail::of(&node);
    let pod = Pod::annotated(&node, "survivor");
    let sandbox = node.cri.run_sandbox(&pod).expect("a sandbox");
    let container =
        node.cri.run(&sandbox, &pod, pod.shell("main", "echo $$ > /born; sleep 1000")).expect("one");
    let (pid, block) = (node.cri.pid(&container), proc::block(node.cri.sandbox_pid(&sandbox)));
    faults::kill(&node.testbed, Part::Containerd).expect("killed");
    node.testbed.restart(Part::Containerd).expect("containerd");
    node.cri = Cri::of(&node.testbed);
    assert_eq!(node.cri.pid(&container), pid, "the container is another one");
    assert_eq!(node.cri.said(&container, "test -e /born; cat /proc/self/uid_map | wc -l"), "1\n");
    let later = node.cri.run(&sandbox, &pod, pod.shell("later", "sleep 1000")).expect("a container");
    assert_eq!(proc::block(node.cri.pid(&later)), block);
    let other = Pod::annotated(&node, "newcomer");
    let second = node.cri.run_sandbox(&other).expect("another pod");
    assert_ne!(proc::block(node.cri.sandbox_pid(&second)), block);
    for sandbox in [&sandbox, &second] {
        node.cri.remove_sandbox(sandbox).expect("removed");
    }
    before.ends_with_nothing(&node, &[block.0]);
}

pub(crate) fn a_killed_shim_gives_the_block_back(setup: Setup) {
    let node = quiet(setup);
    let before = Trail::of(&node);
    let pod = Pod::annotated(&node, "shimless");
    let sandbox = node.cri.run_sandbox(&pod).expect("a sandbox");
    node.cri.run(&sandbox, &pod, pod.shell("main", "sleep 1000")).expect("a container");
    let block = proc::block(node.cri.sandbox_pid(&sandbox)).0;
    assert!(ProcessId::of(proc::shim(&sandbox)).unwrap().signal(Signal::KILL));
    wait_for("its processes are gone", || proc::processes_in(block).is_empty().then_some(()));
    wait_for("the pod can be removed", || node.cri.remove_sandbox(&sandbox).ok());
    before.ends_with_nothing(&node, &[block]);
    let again = node.cri.run_sandbox(&pod).expect("the pod once more");
    node.cri.remove_sandbox(&again).expect("removed");
}

pub(crate) fn verify_holds_for_annotated_pods(setup: Setup) {
    let node = node(setup);
    let volume = node.dir("verified");
    let pod = Pod::annotated(node, "verified");
    let sandbox = node.cri.run_sandbox(&pod).expect("a sandbox");
    let script = "echo x > /data/x; echo y > /etc/y; sleep 1000";
    let config = pod.shell("main", script).volume(&volume, "/data");
    let container = node.cri.run(&sandbox, &pod, config).expect("a container");
    wait_for("it has written", || {
        node.cri.exec(&container, "cat /etc/y").is_ok_and(|a| a.exit_code == 0).then_some(())
    });
    let block = proc::block(node.cri.pid(&container)).0;
    let endpoint = format!("unix://{}", node.testbed.containerd_socket().display());
    // By its name: other pods of this host have ledgers of their own.
    let (code, report) = node.asked(&["verify", "tests/verified", "--runtime-endpoint", &endpoint]);
    assert_eq!(
        (code, &report["holds"], &report["violations"]),
        (Some(0), &json!(true), &json!([])),
        "{report:#}"
    );
    let found =
        report["pods"].as_array().unwrap().iter().find(|pod| pod["name"] == "verified").expect("the pod");
    assert_eq!(found["block"], json!({"hostId": block, "length": 65_536}), "{report:#}");
    assert!(found["processes"].as_u64() >= Some(2), "{found}");
    node.cri.remove_sandbox(&sandbox).expect("removed");
}

/// What doctor says of our wiring, by what is needed.
fn wiring(node: &Node) -> Vec<Value> {
    let endpoint = format!("unix://{}", node.testbed.containerd_socket().display());
    let (_, report) = node.asked(&["doctor", "--runtime-endpoint", &endpoint]);
    let all = report["checks"].as_array().unwrap().clone();
    all.into_iter().filter(|check| check["group"] == "wrapper").collect()
}

pub(crate) fn doctor_sees_how_it_is_wired(setup: Setup) {
    let node = quiet(setup);
    let found = wiring(&node);
    let check = |need: &str| {
        let of_it = found.iter().find(|check| check["need"].as_str().unwrap().contains(need));
        of_it.unwrap_or_else(|| panic!("nothing about {need:?} in {found:#?}")).clone()
    };
    let annotations = check("annotations of pods reach wardlet-oci (handler \"ward\")");
    assert_eq!(annotations["holds"], true, "{annotations}");
    assert!(annotations["found"].as_str().unwrap().contains("wardlet.dev/*"), "{annotations}");
    assert_eq!(check("the operator's gate is open")["holds"], true);
    assert_eq!(check("leases of wardlet-oci are in the ledger")["holds"], true);
    let runtime = usual_runtime(setup.containerd());
    assert_eq!(check("finds the runtime")["found"], runtime.display().to_string());
    node.configure(Gate::Closed, &runtime);
    let closed = wiring(&node).iter().any(|check| check["found"] == "closed");
    node.configure(Gate::Open, &runtime);
    assert!(closed);
}

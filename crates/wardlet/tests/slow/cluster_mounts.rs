//! Mounts of the node that its pods see, and that its pods make: propagation in both directions, and images on a filesystem
//! of their own.

use serde_json::{Value, json};
use testbed::faults;
use testkit::wait_until;

use crate::cluster::pods::{deployment, spec, workload};
use crate::cluster::{Cluster, NODE, Runtime, is_true, name};

/// Makes a mount in the directory that it shares with the node, and unmounts it when it is asked to end.
const MOUNTING: &str = "mkdir -p /shared/made && mount -t tmpfs made /shared/made && echo propagated > /shared/made/file; \
    trap 'umount /shared/made && rmdir /shared/made; kill $!; exit 0' TERM; sleep 100000 & wait";
/// Says what it sees each time that this changes.
const LOOKING: &str = "last=; trap 'exit 0' TERM; while :; do now=$(cat /shared/made/file 2>/dev/null || echo nothing); \
    [ \"$now\" = \"$last\" ] || echo \"$now\"; last=$now; sleep 0.2; done";

/// Mounts a directory of the node into the pod's container.
fn share(spec: &mut Value, directory: &std::path::Path, propagation: &str) {
    spec["volumes"] = json!([{"name": "shared", "hostPath": {"path": directory, "type": "Directory"}}]);
    spec["containers"][0]["volumeMounts"] =
        json!([{"name": "shared", "mountPath": "/shared", "mountPropagation": propagation}]);
}

fn seen(cluster: &Cluster, app: &str) -> Vec<String> {
    let log = cluster.kubectl(&format!("logs -l app={app}"));
    log.lines().map(str::to_owned).collect()
}

/// Whether there is a mount at the directory on the node.
fn is_mounted(cluster: &Cluster, directory: &std::path::Path) -> bool {
    let mut command = cluster.testbed.command("mountpoint");
    command.arg("-q").arg(directory).status().unwrap().success()
}

#[test]
fn a_mount_of_a_privileged_pod_is_seen_by_the_node_and_by_an_isolated_pod() {
    let (cluster, _agent) = Cluster::with_agent(Runtime::BuiltIn);
    let directory = cluster.path("shared");
    std::fs::create_dir(&directory).unwrap();
    let mut looking = spec(LOOKING);
    share(&mut looking, &directory, "HostToContainer");
    let mut private = spec(LOOKING);
    share(&mut private, &directory, "None");
    cluster.apply(&workload("Deployment", "before", &looking));
    cluster.apply(&workload("Deployment", "private", &private));
    let before = cluster.await_ready_pods("before", 1);
    cluster.await_ready_pods("private", 1);
    cluster.each_pod_has_its_own_block(&before);
    wait_until("nothing is mounted yet", || seen(&cluster, "before") == ["nothing"]);

    let mut mounting = spec(MOUNTING);
    mounting["hostUsers"] = json!(true);
    mounting["containers"][0]["securityContext"] = json!({"privileged": true});
    share(&mut mounting, &directory, "Bidirectional");
    cluster.apply(&workload("DaemonSet", "mounting", &mounting));
    let made = directory.join("made");
    wait_until("the node sees the mount", || is_mounted(&cluster, &made));
    wait_until("the isolated pod sees the mount", || seen(&cluster, "before") == ["nothing", "propagated"]);
    cluster.apply(&workload("Deployment", "after", &looking));
    let after = cluster.await_ready_pods("after", 1);
    wait_until("a later pod sees the mount", || seen(&cluster, "after") == ["propagated"]);

    // Nothing of it is left with the pod.
    cluster.kubectl("delete daemonset mounting --timeout=60s");
    wait_until("the mount is gone from the node", || !is_mounted(&cluster, &made) && !made.exists());
    wait_until("and from the pods", || seen(&cluster, "after") == ["propagated", "nothing"]);
    assert_eq!(seen(&cluster, "before"), ["nothing", "propagated", "nothing"]);
    assert_eq!(seen(&cluster, "private"), ["nothing"]);
    cluster.each_pod_has_its_own_block(&after);
    cluster.kubectl("delete deployment before after private --timeout=60s");
    cluster.await_no_leases();
    std::fs::remove_dir(&directory).unwrap();
}

/// Bytes of the filesystem that holds a directory, as the node sees it.
fn size(cluster: &Cluster, directory: &std::path::Path) -> u64 {
    let output = cluster.testbed.command("stat").args(["-f", "-c", "%S %b"]).arg(directory).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.split_whitespace().map(|number| number.parse::<u64>().unwrap()).product()
}

/// A quantity of the API in bytes.
fn bytes(quantity: &str) -> u64 {
    let digits = quantity.trim_end_matches(|last: char| !last.is_ascii_digit());
    let shift = match &quantity[digits.len()..] {
        "" => 0,
        "Ki" => 10,
        "Mi" => 20,
        "Gi" => 30,
        other => panic!("{other}"),
    };
    digits.parse::<u64>().unwrap() << shift
}

#[test]
fn pods_run_with_their_images_on_a_filesystem_of_their_own() {
    let cluster = Cluster::start(Runtime::BuiltIn);
    let images = cluster.state().join("images");
    std::fs::create_dir(&images).unwrap();
    faults::disk::separate(&cluster.testbed, &images, 512 << 20).unwrap();
    cluster.import();
    let agent = cluster.agent();
    cluster.await_node_ready();
    cluster.apply(&deployment("web", 2));
    let pods = cluster.await_ready_pods("web", 2);
    cluster.each_pod_has_its_own_block(&pods);

    let node = cluster.get(&format!("node {NODE}")).unwrap();
    let storage = bytes(node["status"]["capacity"]["ephemeral-storage"].as_str().unwrap());
    assert_eq!(storage, size(&cluster, &cluster.state()), "what pods write is not where images are");
    assert_ne!(storage, size(&cluster, &images));
    assert!(!is_true(&node, "DiskPressure") && is_true(&node, "Ready"), "{node:#}");
    let names = node["status"]["images"].to_string();
    assert!(names.contains("busybox"), "{names}");

    // The next agent finds the images and the pods.
    drop(agent);
    let _agent = cluster.agent();
    cluster.kubectl("scale deployment/web --replicas=3");
    let three = cluster.await_ready_pods("web", 3);
    assert!(pods.iter().all(|old| three.iter().any(|pod| name(pod) == name(old))));
    cluster.kubectl("delete deployment web --timeout=60s");
    cluster.await_no_leases();
}

//! Upstream's sample device plugin, as it is: a Go program that registers at the path of a kubelet's socket.

use std::process::{Child, Stdio};

use serde_json::{Value, json};
use testkit::{wait_for, wait_until};

use crate::cluster::pods::bound_pod;
use crate::cluster::{Cluster, NODE, Runtime};

const RESOURCE: &str = "example.com/resource";

/// The plugin's devices are files that it makes in /tmp and mounts into the container.
const SAYS: &str = "ls /tmp | grep Dev; echo done; trap 'kill $!; exit 0' TERM; sleep 100000 & wait";

struct Plugin(Child);

impl Drop for Plugin {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[track_caller]
fn await_devices(cluster: &Cluster, capacity: &str, allocatable: &str) {
    wait_until(&format!("the node has {capacity} devices, {allocatable} of them to be had"), || {
        let status = cluster.get(&format!("node {NODE}")).unwrap_or_default()["status"].clone();
        status["capacity"][RESOURCE] == capacity && status["allocatable"][RESOURCE] == allocatable
    });
}

fn asking(name: &str) -> Value {
    let mut pod = bound_pod(name, SAYS);
    pod["spec"]["containers"][0]["resources"] = json!({"limits": {RESOURCE: "1"}});
    pod
}

fn said(cluster: &Cluster, name: &str) -> String {
    let log = wait_for(&format!("pod {name} says what it has"), || {
        let output = cluster.testbed.command("kubectl").args(["logs", name]).output().unwrap();
        Some(String::from_utf8_lossy(&output.stdout).into_owned()).filter(|log| log.ends_with("done\n"))
    });
    log.trim_end_matches("done\n").trim_end().to_owned()
}

fn run(runtime: Runtime) {
    let (cluster, agent) = Cluster::with_agent(runtime);
    let mut command = cluster.testbed.command("sample-device-plugin");
    let plugin = Plugin(command.stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    await_devices(&cluster, "2", "2");
    ["one", "two"].iter().for_each(|name| cluster.apply(&asking(name)));
    let mut devices = ["one", "two"].map(|name| said(&cluster, name));
    devices.sort_unstable();
    assert_eq!(devices, ["Dev-1", "Dev-2"]);

    // It serves and registers again when the node's socket is made anew.
    agent.stop();
    let _agent = cluster.agent();
    cluster.await_node_ready();
    await_devices(&cluster, "2", "2");
    drop(plugin);
    await_devices(&cluster, "2", "0");
    cluster.kubectl("delete pod one two --timeout=60s");
    cluster.await_no_leases();
}

#[test]
fn upstreams_sample_device_plugin_gives_pods_devices_on_the_built_in_runtime() {
    run(Runtime::BuiltIn);
}

#[test]
fn upstreams_sample_device_plugin_gives_pods_devices_on_containerd() {
    run(Runtime::Containerd);
}

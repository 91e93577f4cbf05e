//! Device plugins on a node that is `wardlet agent`: what a pod gets, for how long, and that no other pod gets it.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Stdio};

use serde_json::{Value, json};
use testkit::{wait_for, wait_until};

use crate::cluster::pods::{bound_pod, container_id, restarts};
use crate::cluster::{Cluster, NODE, Runtime, uid};

const RESOURCE: &str = "example.com/fake";

/// Says which devices it has by their variable and by their nodes, and what it reads from those.
const SAYS: &str = r#"echo "devices $FAKE_DEVICES"; for node in /dev/wfd?; do echo "node $node $(stat -c '%F %t:%T' $node)"
head -c 3 "$node" | od -An -tx1; done; echo done; trap 'kill $!; exit 0' TERM; sleep 100000 & wait"#;

/// The devices: the kernel's zeros, so that it shows what a container can do with one.
const IDS: [&str; 2] = ["wfd0", "wfd1"];

/// Killed when it is dropped, as a plugin is whose node runs out of memory.
struct Plugin(Child);

/// Device nodes of the host, removed when this is dropped.
struct Nodes<'a>(&'a Cluster);

impl Drop for Nodes<'_> {
    fn drop(&mut self) {
        for id in IDS {
            let _ = self.0.testbed.command("rm").arg("-f").arg(format!("/dev/{id}")).status();
        }
    }
}

impl Drop for Plugin {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Cluster {
    /// The directory of device plugins, seen from outside of the testbed.
    fn plugins(&self) -> PathBuf {
        self.testbed.record().places.data.join("kubelet/device-plugins")
    }

    fn unhealthy(&self) -> PathBuf {
        self.path("unhealthy")
    }

    /// Makes the nodes of the devices at the paths that they have in containers: in a user namespace runc finds no others.
    fn nodes(&self) -> Nodes<'_> {
        let nodes = Nodes(self);
        for id in IDS {
            let mut make = self.testbed.command("mknod");
            make.args(["-m", "666", &format!("/dev/{id}"), "c", "1", "5"]);
            assert!(make.status().unwrap().success());
        }
        nodes
    }

    /// A plugin with both devices. On the built-in runtime they are a node of another path.
    fn plugin(&self) -> Plugin {
        let node = |id: &str| match self.runtime {
            Runtime::BuiltIn => format!("{id}=/dev/zero"),
            Runtime::Containerd => format!("{id}=/dev/{id}"),
        };
        let package = concat!(env!("CARGO_MANIFEST_DIR"), "/../devices");
        let mut command = self.testbed.command(testkit::example("device_plugin", package));
        command.args(["/var/lib/kubelet/device-plugins", RESOURCE]).arg(self.unhealthy());
        command.args(IDS.map(node));
        Plugin(command.stdin(Stdio::null()).spawn().unwrap())
    }

    /// Waits until the Node has so many devices, and so many of them can be had.
    #[track_caller]
    fn await_devices(&self, capacity: &str, allocatable: &str) {
        wait_until(&format!("the node has {capacity} devices, {allocatable} of them to be had"), || {
            let status = self.get(&format!("node {NODE}")).unwrap_or_default()["status"].clone();
            status["capacity"][RESOURCE] == capacity && status["allocatable"][RESOURCE] == allocatable
        });
    }

    /// A pod that asks for devices, bound to the node as if a scheduler had counted wrong.
    fn asks(&self, name: &str, count: &str) {
        let mut pod = bound_pod(name, SAYS);
        pod["spec"]["containers"][0]["resources"] = json!({"limits": {RESOURCE: count}});
        self.apply(&pod);
    }

    /// The device that a pod says it has, once it has said all.
    fn device_of(&self, name: &str) -> String {
        let log = wait_for(&format!("pod {name} says what it has"), || {
            let output = self.testbed.command("kubectl").args(["logs", name]).output().unwrap();
            Some(String::from_utf8_lossy(&output.stdout).into_owned()).filter(|log| log.ends_with("done\n"))
        });
        let device = log.lines().next().unwrap().strip_prefix("devices ").unwrap().to_owned();
        // Its own node and no other, with the numbers of /dev/zero, and it can be read.
        let expected =
            format!("devices {device}\nnode /dev/{device} character special file 1:5\n 00 00 00\ndone\n");
        assert_eq!(log, expected);
        device
    }

    /// The status that a pod is rejected with.
    #[track_caller]
    fn rejected(&self, name: &str, message: &str) {
        let pod = self.await_pod(name, "fails", |pod| pod["status"]["phase"] == "Failed");
        assert_eq!(pod["status"]["reason"], "UnexpectedAdmissionError", "{pod:#?}");
        let expected =
            format!("Pod was rejected: Allocate failed due to {message} {RESOURCE}, which is unexpected");
        let said = pod["status"]["message"].as_str().unwrap();
        assert!(
            said == expected || said.starts_with(&expected.replace(", which is unexpected", ".")),
            "{said}"
        );
        self.kubectl(&format!("delete pod {name} --timeout=60s"));
    }
}

fn is_running(pod: &Value) -> bool {
    pod["status"]["phase"] == "Running"
}

/// The devices in the status of a pod, with their health.
fn shown(pod: &Value) -> Value {
    pod["status"]["containerStatuses"][0]["allocatedResourcesStatus"].clone()
}

fn run(runtime: Runtime) {
    let (cluster, agent) = Cluster::with_agent(runtime);
    let _nodes = (runtime == Runtime::Containerd).then(|| cluster.nodes());
    let plugin = cluster.plugin();
    cluster.await_devices("2", "2");

    // Each pod has a device of its own, and a third one none.
    cluster.asks("one", "1");
    cluster.asks("two", "1");
    let [one, two] = ["one", "two"].map(|name| cluster.await_pod(name, "runs", is_running));
    let [first, second] = ["one", "two"].map(|name| cluster.device_of(name));
    let mut both = [first.as_str(), second.as_str()];
    both.sort_unstable();
    assert_eq!(both, IDS);
    cluster.asks("three", "1");
    cluster.rejected("three", "requested number of devices unavailable for");
    let health = |id: &str, health: &str| json!([{"name": RESOURCE, "resources": [{"resourceID": id, "health": health}]}]);
    assert_eq!(shown(&one), health(&first, "Healthy"));
    let checkpoint = || fs::read_to_string(cluster.plugins().join("kubelet_internal_checkpoint")).unwrap();
    assert!([&one, &two].iter().all(|pod| checkpoint().contains(uid(pod))), "{}", checkpoint());

    // A device that becomes unhealthy is its pod's all the same.
    fs::write(cluster.unhealthy(), &first).unwrap();
    cluster.await_devices("2", "1");
    cluster.await_pod("one", "shows its unhealthy device", |pod| shown(pod) == health(&first, "Unhealthy"));
    fs::write(cluster.unhealthy(), "").unwrap();
    cluster.await_devices("2", "2");

    // The agent is killed. The next one knows which pod has which device, and the plugin registers there.
    drop(agent);
    let _agent = cluster.agent();
    cluster.await_node_ready();
    cluster.await_devices("2", "2");
    let adopted = cluster.await_pod("one", "runs", is_running);
    assert_eq!(container_id(&adopted), container_id(&one));
    cluster.asks("three", "1");
    cluster.rejected("three", "requested number of devices unavailable for");
    cluster.kubectl("exec two -- kill -TERM 1");
    let again = cluster.await_pod("two", "has restarted", |pod| is_running(pod) && restarts(pod) == 1);
    assert_ne!(container_id(&again), container_id(&two));
    wait_until("the new container has the same device", || cluster.device_of("two") == second);

    // A device is free when its pod is gone.
    cluster.kubectl("delete pod one --timeout=60s");
    cluster.asks("four", "1");
    cluster.await_pod("four", "runs", is_running);
    assert_eq!(cluster.device_of("four"), first);
    assert!(!checkpoint().contains(uid(&one)), "{}", checkpoint());

    // Without its plugin no device can be had; what runs goes on.
    drop(plugin);
    cluster.await_devices("2", "0");
    cluster.kubectl("delete pod two --timeout=60s");
    cluster.asks("five", "1");
    cluster.rejected("five", "no healthy devices present; cannot allocate unhealthy devices");
    assert!(is_running(&cluster.get("pod four").unwrap()));
    let _plugin = cluster.plugin();
    // It is a new process on the same node: it registers without a new agent.
    cluster.await_devices("2", "2");
    cluster.asks("six", "1");
    cluster.await_pod("six", "runs", is_running);
    assert_eq!(cluster.device_of("six"), second);
    cluster.kubectl("delete pod four six --timeout=60s");
    cluster.await_no_leases();
}

#[test]
fn pods_have_the_devices_of_a_plugin_for_themselves_on_the_built_in_runtime() {
    run(Runtime::BuiltIn);
}

#[test]
fn pods_have_the_devices_of_a_plugin_for_themselves_on_containerd() {
    run(Runtime::Containerd);
}

/// The scheduler counts the devices of the Node; what a pod has asked for is what it finds there.
#[test]
fn a_pod_of_more_devices_than_there_are_waits_for_them() {
    let (cluster, _agent) = Cluster::with_agent(Runtime::BuiltIn);
    let mut pod = bound_pod("large", SAYS);
    pod["spec"].as_object_mut().unwrap().remove("nodeName");
    pod["spec"]["containers"][0]["resources"] = json!({"limits": {RESOURCE: "1"}});
    cluster.apply(&pod);
    let is_unschedulable = |pod: &Value| {
        let conditions = pod["status"]["conditions"].as_array();
        conditions.is_some_and(|all| all.iter().any(|one| one["reason"] == "Unschedulable"))
    };
    cluster.await_pod("large", "cannot be scheduled", is_unschedulable);
    let plugin = cluster.plugin();
    cluster.await_devices("2", "2");
    let running = cluster.await_pod("large", "runs", is_running);
    assert_eq!(running["spec"]["nodeName"], NODE);
    assert_eq!(shown(&running)[0]["resources"].as_array().unwrap().len(), 1);
    // Deleted while its plugin is away.
    drop(plugin);
    cluster.await_devices("2", "0");
    cluster.kubectl("delete pod large --timeout=60s");
    cluster.await_no_leases();
}

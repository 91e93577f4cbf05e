//! Deployments whose pods cannot run on the node.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::{wait_for_success, wait_until};

use super::pods::{LASTING, spec, workload};
use super::{Cluster, Runtime, uid};

/// The pods of each Deployment.
const REPLICAS: usize = 5;

fn deploy(cluster: &Cluster, app: &str, volumes: &Value) {
    let mut pod = spec(LASTING);
    pod["volumes"] = volumes.clone();
    let mut deployment = workload("Deployment", app, &pod);
    deployment["spec"]["replicas"] = json!(REPLICAS);
    cluster.apply(&deployment);
}

fn pods(cluster: &Cluster, app: &str) -> Vec<Value> {
    cluster.list(&format!("pods -l app={app}"))
}

fn uids(pods: &[Value]) -> BTreeSet<String> {
    pods.iter().map(|pod| uid(pod).to_owned()).collect()
}

fn in_phase(pods: &[Value], phase: &str) -> usize {
    pods.iter().filter(|pod| pod["status"]["phase"] == phase).count()
}

/// The messages of the events with this reason of the pods of a Deployment.
fn events(cluster: &Cluster, app: &str, reason: &str) -> Vec<String> {
    let of_app = |event: &&Value| {
        event["reason"] == reason
            && event["involvedObject"]["name"].as_str().is_some_and(|name| name.starts_with(app))
    };
    let message = |event: &Value| event["message"].as_str().unwrap_or_default().to_owned();
    cluster.list("events").iter().filter(of_app).map(message).collect()
}

/// A terminal refusal would make the controller create pods without end: for so long, the Deployments have the pods that
/// they had at first.
pub(crate) fn a_deployment_keeps_its_pods(patience: Duration) {
    let cluster = Cluster::start(Runtime::BuiltIn);
    cluster.import();
    // Blocks for two pods.
    cluster.configure(json!({"maxPods": 2}));
    let _agent = cluster.agent();
    cluster.await_node_ready();
    deploy(&cluster, "volume", &json!([{"name": "data", "nfs": {"server": "nfs.example", "path": "/"}}]));
    deploy(&cluster, "full", &json!([]));
    wait_until("five pods are refused", || {
        pods(&cluster, "volume").len() == REPLICAS
            && events(&cluster, "volume", "FailedMount").len() >= REPLICAS
    });
    wait_for_success("two pods have a block, and three are refused", || {
        let pods = pods(&cluster, "full");
        let counts = (in_phase(&pods, "Running"), in_phase(&pods, "Pending"));
        let refused = events(&cluster, "full", "FailedCreatePodSandBox");
        let seen =
            || format!("{counts:?} running and pending, {} leases, {refused:?}", cluster.leases().len());
        if counts == (2, 3) && refused.len() >= 3 { Ok(()) } else { Err(seen()) }
    });
    let first = ["volume", "full"].map(|app| uids(&pods(&cluster, app)));
    let message = events(&cluster, "full", "FailedCreatePodSandBox").remove(0);
    assert!(message.contains("userNamespaces.maxPods"), "{message}");
    let message = events(&cluster, "volume", "FailedMount").remove(0);
    assert!(message.starts_with("spec.volumes[0].nfs: ") && message.contains("; use emptyDir"), "{message}");
    let begun = Instant::now();
    while begun.elapsed() < patience {
        let now = ["volume", "full"].map(|app| pods(&cluster, app));
        assert_eq!(now.each_ref().map(|pods| uids(pods)), first, "other pods were created");
        assert_eq!(now.each_ref().map(|pods| in_phase(pods, "Pending")), [5, 3]);
        std::thread::sleep(Duration::from_secs(2));
    }
    assert_eq!(cluster.leases().len(), 2);
    let metrics = cluster.metrics();
    let line = "wardlet_pod_refusals_total{reason=\"FailedMount\",cause=\"spec.volumes.nfs\"} ";
    assert!(metrics.contains(line), "{metrics}");
    cluster.kubectl("delete deployment volume full --timeout=60s");
    wait_until("the pods are gone", || cluster.get("pods").is_some_and(|list| list["items"] == json!([])));
    cluster.await_no_leases();
}

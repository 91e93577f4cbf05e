//! Every path with metrics of `wardlet agent`, on the built-in runtime, beside that of a real kubelet with the same pods.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use testbed::images::BUSYBOX;
use testbed::{Part, Parts, Testbed, yardstick};
use testkit::wait_for;

use crate::agent_metrics::ENDPOINTS;
use crate::cluster::{Cluster, NODE, Runtime};

const KUBELET: &str = "node0";
/// Uses processor, memory, disk and network, so that all of it is counted.
const WORKS: &str = "trap 'exit 0' TERM; while :; do dd if=/dev/zero of=/data/file bs=64k count=16 conv=fsync 2> /dev/null; \
                     wget -q -T 1 -O /dev/null http://127.0.0.1:1/; sleep 0.2; done";

/// A pod with probes of each kind, and one that has ended.
fn pods(node: &str) -> Value {
    let probe = json!({"exec": {"command": ["true"]}, "periodSeconds": 1});
    let container = |name: &str, script: &str| json!({"name": name, "image": BUSYBOX, "imagePullPolicy": "IfNotPresent", "command": ["sh", "-c", script]});
    let mut works = container("app", WORKS);
    works["resources"] =
        json!({"requests": {"cpu": "50m", "memory": "32Mi"}, "limits": {"cpu": "200m", "memory": "64Mi"}});
    for kind in ["startupProbe", "readinessProbe", "livenessProbe"] {
        works[kind] = probe.clone();
    }
    works["volumeMounts"] = json!([{"name": "data", "mountPath": "/data"}]);
    let pod = |name: &str, container: Value, restarts: &str| {
        json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "nodeName": node, "automountServiceAccountToken": false, "terminationGracePeriodSeconds": 1,
                "restartPolicy": restarts, "containers": [container],
                "volumes": [{"name": "data", "emptyDir": {}}],
            },
        })
    };
    let items = [pod("works", works, "Always"), pod("done", container("app", "exit 3"), "Never")];
    json!({"apiVersion": "v1", "kind": "List", "items": items})
}

/// What a node answers at each path, once it has measured the pod.
fn scraped(testbed: &Testbed, node: &str) -> BTreeMap<&'static str, String> {
    let _ = testbed.command("kubectl").args(["create", "serviceaccount", "default"]).output();
    yardstick::apply(testbed, &pods(node).to_string()).unwrap();
    let raw = |path: &str| {
        let path = format!("/api/v1/nodes/{node}/proxy/{path}");
        let output = testbed.command("kubectl").args(["get", "--raw", &path]).output().unwrap();
        output.status.success().then(|| String::from_utf8(output.stdout).unwrap())
    };
    // Each probe has run, the throttled container was measured, and the health checks have a result.
    let is_there = |path: &str, text: &str| match path {
        "metrics/probes" => ["Startup", "Readiness", "Liveness"].iter().all(|kind| text.contains(kind)),
        "metrics/slis" => text.contains("kubernetes_healthcheck"),
        "metrics/cadvisor" => text.lines().any(|line| {
            line.starts_with("container_cpu_cfs_periods_total{") && line.contains("pod=\"works\"")
        }),
        "metrics/resource" => text.contains("pod=\"works\""),
        _ => true,
    };
    let scrape = |path: &'static str| {
        wait_for(&format!("{node} has measured the pod at {path}"), || {
            let _ = raw("healthz");
            raw(path).filter(|text| is_there(path, text))
        })
    };
    ENDPOINTS.iter().map(|endpoint| (endpoint.path, scrape(endpoint.path))).collect()
}

#[test]
fn metrics_of_every_path_are_those_of_a_kubelet() {
    let theirs = {
        let testbed = Testbed::start(Parts::of(&[Part::Kubelet])).unwrap();
        scraped(&testbed, KUBELET)
    };
    let (cluster, _agent) = Cluster::with_agent(Runtime::BuiltIn);
    let ours = scraped(&cluster.testbed, NODE);
    cluster.kubectl("delete pods --all --timeout=60s");
    let compare = |endpoint: &crate::agent_metrics::Endpoint| {
        endpoint.differences(&theirs[endpoint.path], &ours[endpoint.path])
    };
    let differences: Vec<String> = ENDPOINTS.iter().flat_map(compare).collect();
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    // What belongs to a pod goes with it.
    testkit::wait_until("no metric names the pods any more", || {
        let probes = cluster.kubectl(&format!("get --raw /api/v1/nodes/{NODE}/proxy/metrics/probes"));
        !probes.contains("works")
    });
}

//! What the node and its pods use, as port 10250 of `wardlet agent` serves it through the API server: the summary, the metrics
//! that metrics-server and dashboards read, and the configuration.

use serde_json::{Value, json};
use testkit::{wait_for, wait_until};

use crate::cluster::pods::bound_pod;
use crate::cluster::{Cluster, NODE, Runtime};

const MIB: u64 = 1 << 20;
/// Writes 4 MiB to its layer and 8 MiB to its volume, and goes on writing to its log and using the processor.
const BUSY: &str = "dd if=/dev/zero of=/layer bs=1M count=4 2>/dev/null; dd if=/dev/zero of=/data/file bs=1M count=8 2>/dev/null; \
    trap 'exit 0' TERM; while :; do echo line; n=0; while [ $n -lt 2000 ]; do n=$((n+1)); done; sleep 0.1; done";

impl Cluster {
    /// What port 10250 answers.
    #[track_caller]
    fn of_port(&self, path: &str) -> String {
        self.kubectl(&format!("get --raw /api/v1/nodes/{NODE}/proxy/{path}"))
    }

    #[track_caller]
    fn summary(&self, query: &str) -> Value {
        serde_json::from_str(&self.of_port(&format!("stats/summary{query}"))).unwrap()
    }
}

fn number(value: &Value, field: &str) -> u64 {
    value[field].as_u64().unwrap_or_default()
}

/// The pod of this name in a summary.
fn pod<'a>(summary: &'a Value, name: &str) -> Option<&'a Value> {
    summary["pods"].as_array()?.iter().find(|pod| pod["podRef"]["name"] == name)
}

/// The value of the first sample of a metric with these labels.
fn sample(text: &str, name: &str, labels: &[&str]) -> Option<f64> {
    let is_it = |line: &&str| {
        line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' ']))
            && labels.iter().all(|label| line.contains(label))
    };
    let line = text.lines().find(is_it)?;
    // Labels here have no spaces; the time follows the value.
    let behind = line
        .rsplit_once('}')
        .map_or_else(|| line.split_once(' ').map(|(_, rest)| rest), |(_, rest)| Some(rest));
    behind?.split_whitespace().next()?.parse().ok()
}

/// A quantity of bytes is that, with what a filesystem adds.
#[track_caller]
fn assert_about(found: u64, expected: u64) {
    assert!((expected..expected + 2 * MIB).contains(&found), "{found} is not about {expected}");
}

fn what_is_used_is_served(runtime: Runtime) {
    let (cluster, _agent) = Cluster::with_agent(runtime);
    let mut busy = bound_pod("busy", BUSY);
    busy["spec"]["volumes"] = json!([
        {"name": "data", "emptyDir": {}}, {"name": "memory", "emptyDir": {"medium": "Memory", "sizeLimit": "16Mi"}},
    ]);
    busy["spec"]["containers"][0]["volumeMounts"] =
        json!([{"name": "data", "mountPath": "/data"}, {"name": "memory", "mountPath": "/memory"}]);
    cluster.apply(&busy);
    cluster.await_pods("busy", 1, |pod| pod["status"]["phase"] == "Running");

    let volume = |pod: &Value, name: &str| {
        pod["volume"].as_array()?.iter().find(|volume| volume["name"] == name).cloned()
    };
    let summary = wait_for("the summary has what the pod has written", || {
        let summary = cluster.summary("");
        let pod = pod(&summary, "busy")?;
        let layer = number(&pod["containers"][0]["rootfs"], "usedBytes");
        let has_written = number(&volume(pod, "data")?, "usedBytes") >= 8 * MIB && layer >= 4 * MIB;
        has_written.then_some(summary)
    });
    let node = &summary["node"];
    assert_eq!(node["nodeName"], NODE);
    for field in ["availableBytes", "usageBytes", "workingSetBytes", "rssBytes"] {
        assert!(number(&node["memory"], field) > 0, "{field}: {node:#}");
    }
    assert!(number(&node["cpu"], "usageNanoCores") > 0 && number(&node["rlimit"], "curproc") > 0, "{node:#}");
    for filesystem in [&node["fs"], &node["runtime"]["imageFs"], &node["runtime"]["containerFs"]] {
        for field in ["availableBytes", "capacityBytes", "usedBytes", "inodesFree", "inodes", "inodesUsed"] {
            assert!(number(filesystem, field) > 0, "{field}: {node:#}");
        }
    }
    let of_pods = node["systemContainers"].as_array().unwrap().iter().find(|part| part["name"] == "pods");
    assert!(number(&of_pods.unwrap()["memory"], "availableBytes") > 0, "{node:#}");

    let busy = pod(&summary, "busy").unwrap();
    assert_eq!(busy["podRef"]["namespace"], "default");
    assert!(number(&busy["process_stats"], "process_count") > 0, "{busy:#}");
    assert_eq!(busy["network"]["name"], "eth0");
    let container = &busy["containers"][0];
    assert_eq!(container["name"], "app");
    assert!(number(&container["cpu"], "usageCoreNanoSeconds") > 0, "{container:#}");
    assert!(number(&container["memory"], "workingSetBytes") > 0, "{container:#}");
    assert!(number(&container["logs"], "usedBytes") > 0, "{container:#}");
    assert_about(number(&container["rootfs"], "usedBytes"), 4 * MIB);
    let data = volume(busy, "data").unwrap();
    assert_about(number(&data, "usedBytes"), 8 * MIB);
    assert_eq!(number(&data, "inodesUsed"), 2);
    let memory = volume(busy, "memory").unwrap();
    assert_eq!(number(&memory, "capacityBytes"), 16 * MIB);
    // The layer, the logs and the volume on the disk.
    let storage = &busy["ephemeral-storage"];
    assert_about(number(storage, "usedBytes"), 12 * MIB);
    assert_eq!(number(storage, "capacityBytes"), number(&node["fs"], "capacityBytes"));
    let short = cluster.summary("?only_cpu_and_memory=true");
    assert!(short["node"].get("fs").is_none() && pod(&short, "busy").unwrap().get("volume").is_none());

    let labels = ["container=\"app\"", "namespace=\"default\"", "pod=\"busy\""];
    let resource = cluster.of_port("metrics/resource");
    for name in ["container_cpu_usage_seconds_total", "container_memory_working_set_bytes"] {
        assert!(sample(&resource, name, &labels).is_some_and(|value| value > 0.0), "{name}\n{resource}");
    }
    for name in ["pod_cpu_usage_seconds_total", "pod_memory_working_set_bytes"] {
        assert!(sample(&resource, name, &labels[1..]).is_some_and(|value| value > 0.0), "{name}\n{resource}");
    }
    for name in ["node_cpu_usage_seconds_total", "node_memory_working_set_bytes"] {
        assert!(sample(&resource, name, &[]).is_some_and(|value| value > 0.0), "{name}\n{resource}");
    }
    assert_eq!(sample(&resource, "resource_scrape_error", &[]), Some(0.0), "{resource}");

    let metrics = cluster.of_port("metrics/cadvisor");
    for name in ["machine_cpu_cores", "machine_memory_bytes"] {
        assert!(sample(&metrics, name, &[]).is_some_and(|value| value > 0.0), "{name}\n{metrics}");
    }
    // Older versions of containerd do not have these calls.
    if runtime == Runtime::BuiltIn {
        for name in ["container_memory_working_set_bytes", "container_cpu_usage_seconds_total"] {
            wait_until(name, || {
                let metrics = cluster.of_port("metrics/cadvisor");
                sample(&metrics, name, &labels).is_some_and(|value| value > 0.0)
            });
        }
    }

    let configuration: Value = serde_json::from_str(&cluster.of_port("configz")).unwrap();
    let of_kubelet = &configuration["kubeletconfig"];
    assert_eq!(of_kubelet["kind"], "KubeletConfiguration");
    assert_eq!(of_kubelet["evictionHard"], json!({"nodefs.available": "0%"}));
    assert_eq!(of_kubelet["imageGCHighThresholdPercent"], 100);
    cluster.kubectl("delete pod busy --timeout=60s");
    wait_until("the pod is no longer in the summary", || pod(&cluster.summary(""), "busy").is_none());
    cluster.await_no_leases();
}

#[test]
fn what_pods_and_the_node_use_is_served_on_the_built_in_runtime() {
    what_is_used_is_served(Runtime::BuiltIn);
}

#[test]
fn what_pods_and_the_node_use_is_served_on_containerd() {
    what_is_used_is_served(Runtime::Containerd);
}

#[test]
fn a_sample_is_found_by_its_labels() {
    let text = "# HELP a_total x\na_total{pod=\"one\"} 1 1000\na_total{container=\"app\",pod=\"two\"} 2.5 1000\nb 3\na 4\n";
    assert_eq!(sample(text, "a_total", &["pod=\"two\""]), Some(2.5));
    assert_eq!(sample(text, "a_total", &["pod=\"three\""]), None);
    assert_eq!((sample(text, "b", &[]), sample(text, "a", &[])), (Some(3.0), Some(4.0)));
}

//! The metrics of `wardlet agent` beside those of a real kubelet that has run the same pods: names, kinds, labels, buckets.

use std::collections::{BTreeMap, BTreeSet};

/// What `/metrics` of an agent must have once pods have run.
const REQUIRED: [&str; 43] = [
    "kubelet_active_pods",
    "kubelet_certificate_manager_client_expiration_renew_errors",
    "kubelet_certificate_manager_client_ttl_seconds",
    "kubelet_certificate_manager_server_ttl_seconds",
    "kubelet_cgroup_manager_duration_seconds",
    "kubelet_cgroup_version",
    "kubelet_desired_pods",
    "kubelet_http_inflight_requests",
    "kubelet_http_requests_duration_seconds",
    "kubelet_http_requests_total",
    "kubelet_mirror_pods",
    "kubelet_node_name",
    "kubelet_orphaned_runtime_pods_total",
    "kubelet_pleg_last_seen_seconds",
    "kubelet_pleg_relist_duration_seconds",
    "kubelet_pleg_relist_interval_seconds",
    "kubelet_pod_start_duration_seconds",
    "kubelet_pod_start_sli_duration_seconds",
    "kubelet_pod_status_sync_duration_seconds",
    "kubelet_pod_worker_duration_seconds",
    "kubelet_pod_worker_start_duration_seconds",
    "kubelet_run_podsandbox_duration_seconds",
    "kubelet_running_containers",
    "kubelet_running_pods",
    "kubelet_runtime_operations_duration_seconds",
    "kubelet_runtime_operations_total",
    "kubelet_server_expiration_renew_errors",
    "kubelet_started_containers_errors_total",
    "kubelet_started_containers_total",
    "kubelet_started_pods_errors_total",
    "kubelet_started_pods_total",
    "kubelet_terminated_containers_total",
    "kubelet_working_pods",
    "process_cpu_seconds_total",
    "process_max_fds",
    "process_open_fds",
    "process_resident_memory_bytes",
    "process_start_time_seconds",
    "process_virtual_memory_bytes",
    "rest_client_request_duration_seconds",
    "rest_client_requests_total",
    "storage_operation_duration_seconds",
    "volume_manager_total_volumes",
];

/// What a kubelet has only with other settings than those of the testbed, and why.
const ELSEWHERE: [(&str, &str); 4] = [
    ("kubelet_certificate_manager_client_ttl_seconds", "with rotateCertificates"),
    ("kubelet_certificate_manager_client_expiration_renew_errors", "with rotateCertificates"),
    ("kubelet_certificate_manager_server_ttl_seconds", "with serverTLSBootstrap"),
    ("kubelet_server_expiration_renew_errors", "with serverTLSBootstrap"),
];

/// A metric without its values.
#[derive(Debug, Default, PartialEq, Eq)]
struct Shape {
    kind: String,
    labels: BTreeSet<String>,
    /// The bounds of a histogram's buckets.
    bounds: BTreeSet<String>,
}

/// Each metric of a text that has a sample.
fn shapes(text: &str) -> BTreeMap<String, Shape> {
    let kinds: BTreeMap<&str, &str> =
        text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' ')).collect();
    let mut found: BTreeMap<String, Shape> = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        let end = line.find(['{', ' ']).unwrap();
        let (sample, rest) = line.split_at(end);
        let of_histogram = ["_bucket", "_sum", "_count"].iter().find_map(|suffix| {
            sample.strip_suffix(suffix).filter(|name| kinds.get(name) == Some(&"histogram"))
        });
        let name = of_histogram.unwrap_or(sample);
        let shape = found.entry(name.to_owned()).or_default();
        shape.kind = kinds.get(name).copied().unwrap_or("untyped").to_owned();
        for (label, value) in labels(rest) {
            if label == "le" {
                shape.bounds.insert(value);
            } else {
                shape.labels.insert(label);
            }
        }
    }
    found
}

/// The labels before a value: `{a="1",b="2"} 3`.
fn labels(rest: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut rest = rest.strip_prefix('{').unwrap_or_default();
    while let Some((label, after)) = rest.split_once("=\"") {
        let mut is_escaped = false;
        let end = after.find(|c| {
            let ends = c == '"' && !is_escaped;
            is_escaped = c == '\\' && !is_escaped;
            ends
        });
        let (value, behind) = after.split_at(end.unwrap());
        found.push((label.trim_start_matches(',').to_owned(), value.to_owned()));
        rest = &behind[1..];
        if rest.starts_with('}') {
            break;
        }
    }
    found
}

/// How the agent's metrics differ from a kubelet's. Metrics of our own, and a kubelet's that the agent has not, do not count.
pub(crate) fn differences(kubelet: &str, agent: &str) -> Vec<String> {
    let (theirs, ours) = (shapes(kubelet), shapes(agent));
    let mut all: Vec<String> = Vec::new();
    all.extend(
        REQUIRED.iter().filter(|name| !ours.contains_key(**name)).map(|name| format!("{name}: missing")),
    );
    for (name, shape) in ours.iter().filter(|(name, _)| !name.starts_with("wardlet_")) {
        let is_elsewhere = ELSEWHERE.iter().any(|(known, _)| known == name);
        match theirs.get(name) {
            None if is_elsewhere => {}
            None => all.push(format!("{name}: a kubelet has none")),
            Some(_) if is_elsewhere => all.push(format!("{name}: a kubelet has it here, too")),
            Some(other) if other == shape => {}
            Some(other) => all.push(format!("{name}: kubelet {other:?}, agent {shape:?}")),
        }
    }
    all
}

#[test]
fn a_metric_with_another_name_kind_label_or_bucket_is_found() {
    let text = |name: &str, kind: &str, label: &str, bound: &str| {
        format!(
            "# HELP {name} h\n# TYPE {name} {kind}\n{name}_bucket{{{label}=\"a,\\\"}}b\",le=\"{bound}\"}} 1\n{name}_sum{{{label}=\"c\"}} 2\n"
        )
    };
    let kubelet = text("kubelet_x", "histogram", "l", "1");
    let of = |agent: &str| {
        let found = differences(&kubelet, agent);
        found.into_iter().filter(|text| !text.ends_with(": missing")).collect::<Vec<_>>()
    };
    assert!(of(&kubelet).is_empty());
    assert_eq!(differences(&kubelet, &kubelet).len(), REQUIRED.len());
    assert_eq!(of(&text("kubelet_y", "histogram", "l", "1")), ["kubelet_y: a kubelet has none"]);
    for other in [text("kubelet_x", "histogram", "m", "1"), text("kubelet_x", "histogram", "l", "2")] {
        assert!(of(&other)[0].starts_with("kubelet_x: kubelet"), "{other}");
    }
    assert!(!of(&kubelet.replace("histogram", "counter")).is_empty());
    assert!(of("wardlet_pods 1\n").is_empty());
}

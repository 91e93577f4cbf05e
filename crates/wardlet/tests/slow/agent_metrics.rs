//! The metrics of `wardlet agent` beside those of a real kubelet that has run the same pods: names, kinds, labels, buckets, at every
//! path that has some.

use std::collections::{BTreeMap, BTreeSet};

/// What `/metrics` of an agent must have once pods have run.
const REQUIRED: [&str; 45] = [
    "kubelet_active_pods",
    "kubelet_certificate_manager_client_expiration_renew_errors",
    "kubelet_certificate_manager_client_ttl_seconds",
    "kubelet_certificate_manager_server_ttl_seconds",
    "kubelet_cgroup_manager_duration_seconds",
    "kubelet_cgroup_version",
    "kubelet_desired_pods",
    "kubelet_graceful_shutdown_end_time_seconds",
    "kubelet_graceful_shutdown_start_time_seconds",
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

/// The metrics at one path, and how an agent's may differ from a kubelet's. `*` stands for any text.
pub(crate) struct Endpoint {
    pub(crate) path: &'static str,
    /// What an agent must have once pods have run.
    required: &'static [&'static str],
    /// What a kubelet has only with other settings than those of the testbed, and why.
    elsewhere: &'static [Reason],
    /// What the agent does not have, and why.
    missing: &'static [Reason],
    /// What depends on the kernel, the disks or what pods have just done: compared where both have it.
    sometimes: &'static [&'static str],
}

/// Names of metrics, and a reason.
type Reason = (&'static str, &'static str);

const OF_GO: &str = "of Go's runtime and Prometheus' library for Go";
const OF_LIBRARIES: &str = "of libraries of Kubernetes that are not used here";
const NOT_DRAWN: &str = "no dashboard or alert of kube-prometheus reads it";
const NO_MANAGER: &str = "of a manager that the agent does not have";
const ONE_DISK: &str = "counters of single disks, which no dashboard reads";
const OF_CGROUP2: &str = "counters of cgroup v2 alone, which are not read yet";

/// Every path with metrics. This is the one list of what differs.
pub(crate) const ENDPOINTS: [Endpoint; 5] = [
    Endpoint {
        path: "metrics",
        required: &REQUIRED,
        elsewhere: &[
            ("kubelet_certificate_manager_client_ttl_seconds", "with rotateCertificates"),
            ("kubelet_certificate_manager_client_expiration_renew_errors", "with rotateCertificates"),
            ("kubelet_certificate_manager_server_ttl_seconds", "with serverTLSBootstrap"),
            ("kubelet_server_expiration_renew_errors", "with serverTLSBootstrap"),
        ],
        missing: &[
            ("go_*", OF_GO),
            ("promhttp_*", OF_GO),
            ("process_network_*", OF_GO),
            ("process_virtual_memory_max_bytes", OF_GO),
            ("apiserver_*", OF_LIBRARIES),
            ("authentication_*", OF_LIBRARIES),
            ("authorization_*", OF_LIBRARIES),
            ("cardinality_enforcement_*", OF_LIBRARIES),
            ("disabled_metrics_total", OF_LIBRARIES),
            ("field_validation_*", OF_LIBRARIES),
            ("get_token_*", OF_LIBRARIES),
            ("hidden_metrics_total", OF_LIBRARIES),
            ("kubernetes_build_info", OF_LIBRARIES),
            ("kubernetes_feature_enabled", OF_LIBRARIES),
            ("plugin_manager_*", OF_LIBRARIES),
            ("registered_metrics_total", OF_LIBRARIES),
            ("rest_client_*", "transport and rate limiter of Go's client"),
            ("version_info", OF_LIBRARIES),
            ("workqueue_*", OF_LIBRARIES),
            ("csi_*", "of volumes of CSI drivers"),
            ("dra_*", NO_MANAGER),
            ("force_cleaned_*", "volumes are set up and torn down together"),
            ("reconstruct_volume_*", "volumes are found again by the pod's record"),
            ("volume_*", "of SELinux and of volumes of CSI drivers"),
            ("node_*", "at other paths"),
            ("kubelet_certificate_manager_server_rotation_seconds", NOT_DRAWN),
            ("kubelet_container_aligned_*", NO_MANAGER),
            ("kubelet_containers_per_pod_count", NOT_DRAWN),
            ("kubelet_cpu_manager_*", NO_MANAGER),
            ("kubelet_cri_losing_support", NOT_DRAWN),
            ("kubelet_evented_pleg_*", "the events of the runtime need no second stream"),
            ("kubelet_first_network_pod_start_sli_duration_seconds", NOT_DRAWN),
            ("kubelet_image_*", NOT_DRAWN),
            ("kubelet_imagemanager_*", NOT_DRAWN),
            ("kubelet_lifecycle_handler_http_fallbacks_total", NOT_DRAWN),
            ("kubelet_managed_ephemeral_containers", NOT_DRAWN),
            ("kubelet_memory_manager_*", NO_MANAGER),
            ("kubelet_memory_qos_*", NOT_DRAWN),
            ("kubelet_metrics_provider", "there is one provider"),
            ("kubelet_node_startup_*", NOT_DRAWN),
            ("kubelet_orphan_pod_cleaned_*", NOT_DRAWN),
            ("kubelet_pleg_discard_events", "no event is discarded"),
            ("kubelet_pleg_pod_relist_duration_seconds", "each relist is of one pod"),
            ("kubelet_pod_requests_*", NOT_DRAWN),
            ("kubelet_pod_start_total_duration_seconds", NOT_DRAWN),
            ("kubelet_pod_watch_events_dropped_total", NOT_DRAWN),
            ("kubelet_resource_manager_*", NO_MANAGER),
            ("kubelet_restarted_pods_total", NOT_DRAWN),
            ("kubelet_sleep_action_terminated_early_total", NOT_DRAWN),
            ("kubelet_started_host_process_*", "of nodes with Windows"),
            ("kubelet_topology_manager_*", NO_MANAGER),
            ("kubelet_volume_*", "the use of volumes is at /stats/summary alone"),
        ],
        sometimes: &[
            "kubelet_admission_rejections_total",
            "kubelet_container_requested_resizes_total",
            "kubelet_credential_provider_*",
            "kubelet_device_plugin_*",
            "kubelet_eviction*",
            "kubelet_image_garbage_collected_total",
            "kubelet_image_pull_duration_seconds",
            "kubelet_pod_*resize*",
            "kubelet_pod_level_resources_admission_total",
            "kubelet_pod_resources_endpoint_*",
            "kubelet_preemptions",
            "kubelet_run_podsandbox_errors_total",
            "kubelet_runtime_operations_errors_total",
            "kubelet_started_containers_errors_total",
            "kubelet_terminated_containers_total",
            "kubelet_websocket_streaming_requests_total",
        ],
    },
    Endpoint {
        path: "metrics/resource",
        required: &[
            "container_cpu_usage_seconds_total",
            "container_memory_working_set_bytes",
            "container_start_time_seconds",
            "node_cpu_usage_seconds_total",
            "node_memory_working_set_bytes",
            "pod_cpu_usage_seconds_total",
            "pod_memory_working_set_bytes",
            "resource_scrape_error",
        ],
        elsewhere: &[],
        missing: &[],
        sometimes: &[
            "container_swap_limit_bytes",
            "container_swap_usage_bytes",
            "node_swap_usage_bytes",
            "pod_swap_usage_bytes",
        ],
    },
    Endpoint {
        path: "metrics/cadvisor",
        required: &[
            "container_cpu_cfs_periods_total",
            "container_cpu_cfs_throttled_periods_total",
            "container_cpu_usage_seconds_total",
            "container_memory_cache",
            "container_memory_rss",
            "container_memory_usage_bytes",
            "container_memory_working_set_bytes",
            "container_network_receive_bytes_total",
            "container_network_receive_packets_dropped_total",
            "container_network_receive_packets_total",
            "container_network_transmit_bytes_total",
            "container_network_transmit_packets_dropped_total",
            "container_network_transmit_packets_total",
            "container_scrape_error",
            "machine_cpu_cores",
            "machine_memory_bytes",
        ],
        elsewhere: &[],
        missing: &[
            ("cadvisor_version_info", "there is no cAdvisor"),
            ("container_cpu_cfs_burst_*", NOT_DRAWN),
            ("container_fs_io_*", ONE_DISK),
            ("container_fs_read_seconds_total", ONE_DISK),
            ("container_fs_reads_merged_total", ONE_DISK),
            ("container_fs_sector_*", ONE_DISK),
            ("container_fs_write_seconds_total", ONE_DISK),
            ("container_fs_writes_merged_total", ONE_DISK),
            ("container_health_state", "of Docker"),
            ("container_memory_events_*", OF_CGROUP2),
            ("container_memory_file_*", OF_CGROUP2),
            ("container_memory_pg*", OF_CGROUP2),
            ("container_memory_workingset_*", OF_CGROUP2),
            ("machine_*", "what dashboards read of the machine are its processors and its memory"),
        ],
        sometimes: &[
            "container_blkio_device_usage_total",
            "container_fs_*",
            "container_memory_failcnt",
            "container_memory_kernel_usage",
            "container_memory_max_usage_bytes",
            "container_memory_swap",
            "container_pressure_*",
            "container_sockets",
            "container_ulimits_soft",
        ],
    },
    Endpoint {
        path: "metrics/probes",
        required: &["process_start_time_seconds", "prober_probe_duration_seconds", "prober_probe_total"],
        elsewhere: &[],
        missing: &[],
        sometimes: &[],
    },
    Endpoint {
        path: "metrics/slis",
        required: &["kubernetes_healthcheck", "kubernetes_healthchecks_total", "process_start_time_seconds"],
        elsewhere: &[],
        missing: &[],
        sometimes: &[],
    },
];

/// Whether a pattern stands for a name.
fn fits(pattern: &str, name: &str) -> bool {
    let parts: Vec<&str> = pattern.split('*').collect();
    let [first, middle @ .., last] = parts.as_slice() else { return pattern == name };
    let rest = name.strip_prefix(first).and_then(|rest| rest.strip_suffix(last));
    rest.is_some_and(|rest| middle.iter().all(|part| rest.contains(part)))
}

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

impl Endpoint {
    /// How the agent's metrics differ from a kubelet's, but for metrics of our own and for what is listed.
    pub(crate) fn differences(&self, kubelet: &str, agent: &str) -> Vec<String> {
        let (theirs, ours) = (shapes(kubelet), shapes(agent));
        let is_listed = |list: &[Reason], name: &str| list.iter().any(|(known, _)| fits(known, name));
        let is_rare = |name: &str| self.sometimes.iter().any(|known| fits(known, name));
        let missing = self.required.iter().filter(|name| !ours.contains_key(**name));
        let mut all: Vec<String> = missing.map(|name| format!("{name}: missing")).collect();
        for (name, shape) in ours.iter().filter(|(name, _)| !name.starts_with("wardlet_")) {
            let is_elsewhere = is_listed(self.elsewhere, name);
            match theirs.get(name) {
                None if is_elsewhere || is_rare(name) => {}
                None => all.push(format!("{name}: a kubelet has none")),
                Some(_) if is_elsewhere => all.push(format!("{name}: a kubelet has it here, too")),
                Some(other) if other == shape => {}
                Some(other) => all.push(format!("{name}: kubelet {other:?}, agent {shape:?}")),
            }
        }
        let only_theirs = theirs.keys().filter(|name| !ours.contains_key(*name));
        let unknown = only_theirs.filter(|name| !is_listed(self.missing, name) && !is_rare(name));
        all.extend(unknown.map(|name| format!("{name}: only a kubelet has it")));
        all.iter().map(|found| format!("/{}: {found}", self.path)).collect()
    }
}

/// The differences at `/metrics`.
pub(crate) fn differences(kubelet: &str, agent: &str) -> Vec<String> {
    let [metrics, ..] = &ENDPOINTS;
    metrics.differences(kubelet, agent)
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
    assert_eq!(
        of(&text("kubelet_y", "histogram", "l", "1")),
        ["/metrics: kubelet_y: a kubelet has none", "/metrics: kubelet_x: only a kubelet has it"]
    );
    for other in [text("kubelet_x", "histogram", "m", "1"), text("kubelet_x", "histogram", "l", "2")] {
        assert!(of(&other)[0].starts_with("/metrics: kubelet_x: kubelet"), "{other}");
    }
    assert!(!of(&kubelet.replace("histogram", "counter")).is_empty());
    assert_eq!(of("wardlet_pods 1\n"), ["/metrics: kubelet_x: only a kubelet has it"]);
    assert!(fits("a_*", "a_b") && fits("a*c*e", "abcde") && fits("a", "a"));
    assert!(!fits("a_*", "b_a_") && !fits("a*c*e", "abde") && !fits("a", "ab"));
}

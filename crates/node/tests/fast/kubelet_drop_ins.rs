//! Drop-ins, merged as a kubelet merges them.

use node::kubelet::KubeletConfigError;

use crate::support::{Files, HEADER};

fn drop_in(fields: &str) -> String {
    format!("{HEADER}{fields}")
}

#[test]
fn drop_ins_are_merged_in_lexical_order_with_those_below() {
    let files = Files::with("maxPods: 1\npodsPerCore: 1\nport: 1001\n")
        .drop_in("20-b.conf", &drop_in("maxPods: 20\n"))
        .drop_in("10-a.conf", &drop_in("maxPods: 10\npodsPerCore: 10\n"))
        .drop_in("15/z.conf", &drop_in("podsPerCore: 15\nport: 1015\n"))
        .drop_in("30.yaml", "not read")
        .drop_in("README", "not read");
    let loaded = files.load().unwrap();
    let config = loaded.config;
    assert_eq!((config.max_pods, config.pods_per_core, config.port), (20, 15, 1015));
    let names: Vec<_> = loaded.files.iter().map(|file| file.file_name().unwrap().to_str().unwrap()).collect();
    assert_eq!(names, ["config.yaml", "10-a.conf", "z.conf", "20-b.conf"]);
}

#[test]
fn maps_are_merged_lists_replaced_and_null_is_the_default_again() {
    let files = Files::with(
        "kubeReserved: {cpu: 100m, memory: 1Gi}\nclusterDNS: [10.0.0.1, 10.0.0.2]\nmaxPods: 5\nfeatureGates: {SELinuxMount: false}\n",
    )
    .drop_in(
        "a.conf",
        &drop_in(
            "kubeReserved: {cpu: 200m, memory: ~}\nclusterDNS: [10.0.0.3]\nmaxPods: ~\nfeatureGates: {GracefulNodeShutdown: true}\n",
        ),
    );
    let config = files.config();
    assert_eq!(config.kube_reserved.len(), 1);
    assert_eq!(config.kube_reserved["cpu"].thousandths(), 200);
    assert_eq!(config.cluster_dns.len(), 1);
    assert_eq!(config.max_pods, 110);
    assert_eq!(config.feature_gates.len(), 2);
}

#[test]
fn defaults_of_the_main_file_hold_before_drop_ins_are_merged() {
    // The thresholds that a file without evictionHard has stay beside those of a drop-in.
    let config =
        Files::with("").drop_in("a.conf", &drop_in("evictionHard: {memory.available: 5%}\n")).config();
    assert_eq!(config.eviction_hard.len(), 5);
    let alone = Files::with("evictionHard: {memory.available: 5%}\n").config();
    assert_eq!(alone.eviction_hard.len(), 1);
    // nodeStatusReportFrequency got its default from the main file.
    let config = Files::with("").drop_in("a.conf", &drop_in("nodeStatusUpdateFrequency: 20s\n")).config();
    assert_eq!(config.node_status_report_frequency.to_string(), "5m0s");
    // So did serializeImagePulls, which contradicts the drop-in.
    let files = Files::with("").drop_in("a.conf", &drop_in("maxParallelImagePulls: 4\n"));
    assert_eq!(files.problems()[0].0.field, "maxParallelImagePulls");
    let fields = "maxParallelImagePulls: 4\nserializeImagePulls: false\n";
    assert_eq!(
        Files::with("").drop_in("a.conf", &drop_in(fields)).config().max_parallel_image_pulls,
        Some(4)
    );
    let empty = Files::with("enforceNodeAllocatable: []\n").drop_in("a.conf", HEADER).config();
    assert_eq!(empty.enforce_node_allocatable, ["pods"]);
}

#[test]
fn each_drop_in_is_a_kubelet_configuration() {
    for (text, field) in
        [("maxPods: 5\n", "apiVersion"), ("apiVersion: kubelet.config.k8s.io/v1beta1\n", "kind")]
    {
        let problems = Files::with("").drop_in("a.conf", text).problems();
        assert_eq!(problems[0].0.field, field);
        assert!(problems[0].1.starts_with("conf.d/a.conf:"), "{}", problems[0].1);
    }
    let problems = Files::with("").drop_in("a.conf", &drop_in("maxPodz: 5\n")).problems();
    assert!(problems[0].1.starts_with("conf.d/a.conf:3:1: maxPodz: "), "{}", problems[0].1);
    assert_eq!(problems[0].0.hint, "did you mean maxPods?");
}

#[test]
fn a_directory_that_is_not_there_is_an_error() {
    let missing = std::path::Path::new("/nonexistent/kubelet.conf.d");
    let flags = node::kubelet::KubeletFlags::default();
    let error = node::kubelet::KubeletConfig::load(None, Some(missing), &flags).unwrap_err();
    assert!(matches!(&error, KubeletConfigError::Unreadable { path, .. } if path == missing), "{error}");
}

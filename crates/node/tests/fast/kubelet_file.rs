//! Configuration files as installers write them, and what holds without one.

use node::kubelet::{AuthorizationMode, CgroupDriver, EvictionSignal, Threshold};
use types::Quantity;

use crate::support::{Files, HEADER};

/// The fields that kubeadm writes, zeroes included.
const KUBEADM: &str = r#"
authentication:
  anonymous: {enabled: false}
  webhook: {cacheTTL: 0s, enabled: true}
  x509: {clientCAFile: /etc/kubernetes/pki/ca.crt}
authorization:
  mode: Webhook
  webhook: {cacheAuthorizedTTL: 0s, cacheUnauthorizedTTL: 0s}
cgroupDriver: systemd
clusterDNS:
- 10.96.0.10
clusterDomain: cluster.local
containerRuntimeEndpoint: ""
cpuManagerReconcilePeriod: 0s
crashLoopBackOff: {}
evictionPressureTransitionPeriod: 0s
fileCheckFrequency: 0s
healthzBindAddress: 127.0.0.1
healthzPort: 10248
httpCheckFrequency: 0s
imageMaximumGCAge: 0s
imageMinimumGCAge: 0s
logging:
  flushFrequency: 0
  options:
    json: {infoBufferSize: "0"}
    text: {infoBufferSize: "0"}
  verbosity: 0
memorySwap: {}
nodeStatusReportFrequency: 0s
nodeStatusUpdateFrequency: 0s
resolvConf: /run/systemd/resolve/resolv.conf
rotateCertificates: true
runtimeRequestTimeout: 0s
shutdownGracePeriod: 0s
shutdownGracePeriodCriticalPods: 0s
staticPodPath: /etc/kubernetes/manifests
streamingConnectionIdleTimeout: 0s
syncFrequency: 0s
volumeStatsAggPeriod: 0s
"#;

#[test]
fn the_file_of_kubeadm_is_read_unchanged_and_without_a_notice() {
    let loaded = Files::with(KUBEADM).load().unwrap();
    assert_eq!(loaded.notices, []);
    let config = loaded.config;
    assert_eq!(config.static_pod_path.unwrap().to_str(), Some("/etc/kubernetes/manifests"));
    assert_eq!(config.resolv_conf.to_str(), Some("/run/systemd/resolve/resolv.conf"));
    assert_eq!(
        config.authentication.x509.client_ca_file.unwrap().to_str(),
        Some("/etc/kubernetes/pki/ca.crt")
    );
    assert_eq!(config.authorization.mode, AuthorizationMode::Webhook);
    assert_eq!(config.cgroup_driver, CgroupDriver::Systemd);
    assert_eq!(config.cluster_dns, ["10.96.0.10".parse::<std::net::IpAddr>().unwrap()]);
    assert_eq!(config.cluster_domain.as_deref(), Some("cluster.local"));
    assert!(config.rotate_certificates && !config.server_tls_bootstrap);
    assert_eq!(config.container_runtime_endpoint, "unix:///run/containerd/containerd.sock");
    // Zeroes mean the defaults.
    assert_eq!(config.sync_frequency.to_string(), "1m0s");
    assert_eq!(config.node_status_update_frequency.to_string(), "10s");
    assert_eq!(config.node_status_report_frequency.to_string(), "5m0s");
    assert_eq!(config.authentication.webhook.cache_ttl.to_string(), "2m0s");
}

#[test]
fn a_file_of_zeroes_and_an_empty_file_have_the_same_defaults() {
    let config = Files::with("").config();
    assert_eq!((config.port, config.read_only_port, config.healthz_port), (10_250, 0, 10_248));
    assert_eq!((config.max_pods, config.pods_per_core, config.pod_pids_limit), (110, 0, -1));
    assert_eq!((config.registry_pull_qps, config.registry_burst), (5, 10));
    assert_eq!((config.event_record_qps, config.event_burst), (50, 100));
    assert_eq!((config.image_gc_high_threshold_percent, config.image_gc_low_threshold_percent), (85, 80));
    assert_eq!(config.container_log_max_size, Quantity::from_units(10 << 20));
    assert_eq!((config.container_log_max_files, config.container_log_max_workers), (5, 1));
    assert_eq!((config.node_lease_duration_seconds, config.node_status_max_images), (40, 50));
    assert_eq!(u64::from(config.user_namespaces.ids_per_pod), 65_536);
    assert_eq!(config.crash_loop_back_off.max_container_restart_period.to_string(), "5m0s");
    assert_eq!(config.enforce_node_allocatable, ["pods"]);
    assert_eq!((config.serialize_image_pulls, config.max_parallel_image_pulls), (true, None));
    assert_eq!((config.fail_swap_on, config.fail_cgroup_v1, config.register_node), (true, true, true));
    assert_eq!(config.oom_score_adj, -999);
    let zeroes = "port: 0\naddress: \"\"\nmaxPods: 0\nnodeLeaseDurationSeconds: 0\npodPidsLimit: -5\ncgroupDriver: \"\"\n\
                  registryBurst: 0\nauthorization: {mode: \"\"}\nclusterDomain: \"\"\nstaticPodPath: \"\"\nevictionSoft: ~\n";
    assert_eq!(Files::with(zeroes).config(), config);
}

#[test]
fn zero_is_a_value_where_a_kubelet_can_tell_it_from_none() {
    let text = "registryPullQPS: 0\neventRecordQPS: 0\nhealthzPort: 0\noomScoreAdj: 0\npodPidsLimit: 0\nresolvConf: \"\"\n\
                enforceNodeAllocatable: []\nevictionHard: {}\n";
    let config = Files::with(text).config();
    assert_eq!((config.registry_pull_qps, config.event_record_qps, config.healthz_port), (0, 0, 0));
    assert_eq!((config.oom_score_adj, config.pod_pids_limit), (0, 0));
    assert_eq!(config.resolv_conf.to_str(), Some(""));
    assert!(config.enforce_node_allocatable.is_empty() && config.eviction_hard.is_empty());
}

#[test]
fn without_a_file_the_defaults_are_those_of_an_empty_file() {
    let none = Files::none().config();
    assert!(!none.authentication.anonymous.enabled && none.authentication.webhook.enabled);
    assert_eq!((none.authorization.mode, none.read_only_port), (AuthorizationMode::Webhook, 0));
    assert_eq!(none.eviction_hard.len(), 5);
    assert_eq!(none, Files::with("").config());
    let drop_ins = Files::none().drop_in("a.conf", &format!("{HEADER}maxPods: 7\n")).config();
    assert_eq!(drop_ins.max_pods, 7);
    assert_eq!(drop_ins.authentication, none.authentication);
    let open =
        Files::none().flag("anonymous-auth", "true").flag("authorization-mode", "AlwaysAllow").config();
    assert!(open.authentication.anonymous.enabled);
    assert_eq!(open.authorization.mode, AuthorizationMode::AlwaysAllow);
}

#[test]
fn eviction_thresholds_are_amounts_and_percentages() {
    let text = "evictionHard: {memory.available: 100Mi, nodefs.available: 7.5%, imagefs.available: 0%, pid.available: 100%}\n\
                evictionSoft: {memory.available: 1.5Gi}\nevictionSoftGracePeriod: {memory.available: 1m30s}\n\
                evictionMinimumReclaim: {nodefs.available: 500Mi}\n";
    let config = Files::with(text).config();
    let hard: Vec<_> = config.eviction_hard.into_iter().collect();
    assert_eq!(
        hard,
        [
            (EvictionSignal::MemoryAvailable, Threshold::Quantity(Quantity::from_units(100 << 20))),
            (EvictionSignal::NodeFsAvailable, Threshold::Percentage(7.5)),
        ],
        "0% and 100% turn a signal off"
    );
    assert_eq!(config.eviction_soft_grace_period[&EvictionSignal::MemoryAvailable].to_string(), "1m30s");
    assert_eq!(config.eviction_minimum_reclaim.len(), 1);
    let merged =
        Files::with("evictionHard: {memory.available: 5%}\nmergeDefaultEvictionSettings: true\n").config();
    assert_eq!(merged.eviction_hard.len(), 5);
    assert_eq!(merged.eviction_hard[&EvictionSignal::MemoryAvailable], Threshold::Percentage(5.0));
}

#[test]
fn defaults_that_depend_on_other_fields() {
    let config = Files::with("nodeStatusUpdateFrequency: 20s\nmaxParallelImagePulls: 4\n").config();
    assert_eq!(config.node_status_report_frequency.to_string(), "20s");
    assert_eq!((config.serialize_image_pulls, config.max_parallel_image_pulls), (false, Some(4)));
    assert!(Files::with("maxParallelImagePulls: 1\n").config().serialize_image_pulls);
}

#[test]
fn relative_paths_of_the_main_file_are_relative_to_it() {
    let files = Files::with("staticPodPath: manifests\ntlsCertFile: /a.crt\ntlsPrivateKeyFile: a.key\n");
    let config = files.config();
    assert_eq!(config.static_pod_path.unwrap(), files.directory().join("manifests"));
    assert_eq!(config.tls_cert_file.unwrap().to_str(), Some("/a.crt"));
    assert_eq!(config.tls_private_key_file.unwrap(), files.directory().join("a.key"));
    assert_eq!(config.resolv_conf.to_str(), Some("/etc/resolv.conf"));
}

#[test]
fn json_is_read_as_yaml_is() {
    let json = "{\n\t\"kind\": \"KubeletConfiguration\",\n\t\"apiVersion\": \"kubelet.config.k8s.io/v1beta1\",\n\
                \t\"maxPods\": 29,\n\t\"kubeReserved\": {\"cpu\": \"70m\", \"memory\": \"574Mi\"}\n}\n";
    let yaml = "maxPods: 29\nkubeReserved: {cpu: 70m, memory: 574Mi}\n";
    assert_eq!(Files::whole(json).config(), Files::with(yaml).config());
}

#[test]
fn what_has_no_effect_gets_a_notice_unless_it_is_the_default() {
    let loaded = Files::with(
        "hairpinMode: hairpin-veth\nmaxOpenFiles: 1000000\nkubeAPIQPS: 10\nlogging: {verbosity: 4}\n",
    );
    let notices = loaded.load().unwrap().notices;
    let shown: Vec<String> = notices.iter().map(|notice| format!("{} {}", notice.field, notice.at)).collect();
    let at = |line: u32, column: u32| format!("{}/config.yaml:{line}:{column}", loaded.directory().display());
    assert_eq!(
        shown,
        [
            format!("hairpinMode {}", at(3, 1)),
            format!("kubeAPIQPS {}", at(5, 1)),
            format!("logging.verbosity {}", at(6, 11)),
        ]
    );
    assert!(
        notices[0].to_string().contains("accepted without effect: the CNI plugin decides"),
        "{}",
        notices[0]
    );
}

#[test]
fn feature_gates_are_resolved_by_their_defaults() {
    let config =
        Files::with("featureGates: {ExtendWebSocketsToKubelet: false, GracefulNodeShutdown: true}\n")
            .config();
    assert!(!config.is_gate_on("ExtendWebSocketsToKubelet") && config.is_gate_on("GracefulNodeShutdown"));
    assert!(
        config.is_gate_on("SELinuxMount")
            && !config.is_gate_on("EventedPLEG")
            && !config.is_gate_on("Nothing")
    );
}

#[test]
fn the_effective_configuration_has_every_field() {
    let loaded = Files::with("hairpinMode: none\n").load().unwrap();
    assert_eq!(loaded.effective["hairpinMode"], "none");
    assert_eq!(loaded.effective["contentType"], "application/vnd.kubernetes.protobuf");
    assert_eq!(loaded.effective["syncFrequency"], "1m0s");
    assert_eq!(loaded.files.len(), 1);
}

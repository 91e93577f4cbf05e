use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;

use ids::BlockLength;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use types::Quantity;

use super::{EvictionSignal, GoDuration, Threshold};

/// The fields of KubeletConfiguration that `wardlet agent` honours, with upstream's names and defaults.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KubeletConfig {
    /// Whether port 10250 is served.
    pub enable_server: bool,
    /// The file or directory of static pods.
    pub static_pod_path: Option<PathBuf>,
    /// Where the logs of pods are.
    pub pod_logs_dir: PathBuf,
    /// How often a pod is reconciled at least.
    pub sync_frequency: GoDuration,
    /// How often static pods are read again.
    pub file_check_frequency: GoDuration,
    /// The address of ports 10250 and 10255.
    pub address: IpAddr,
    /// The port of the API of the node.
    pub port: u16,
    /// 0: there is none.
    pub read_only_port: u16,
    /// The serving certificate.
    pub tls_cert_file: Option<PathBuf>,
    /// The key of the serving certificate.
    pub tls_private_key_file: Option<PathBuf>,
    /// Empty: all that the agent offers.
    #[serde(default)]
    pub tls_cipher_suites: Vec<String>,
    /// The oldest version of TLS that is served.
    #[serde(rename = "tlsMinVersion")]
    pub tls_min_version: Option<TlsVersion>,
    /// Whether the client certificate is renewed.
    pub rotate_certificates: bool,
    /// Whether the serving certificate is requested from the API server.
    #[serde(rename = "serverTLSBootstrap")]
    pub server_tls_bootstrap: bool,
    /// How clients prove their identity.
    pub authentication: Authentication,
    /// What clients may do.
    pub authorization: Authorization,
    /// 0: no limit.
    #[serde(rename = "registryPullQPS")]
    pub registry_pull_qps: u32,
    /// How many pulls may start at once.
    pub registry_burst: u32,
    /// Which images on the node pods may use without a proof; nothing where the feature is off.
    pub image_pull_credentials_verification_policy: CredentialsVerificationPolicy,
    /// The images that the policy `NeverVerifyAllowlistedImages` is about.
    #[serde(default)]
    pub preloaded_images_verification_allowlist: Vec<String>,
    /// 0: no limit.
    #[serde(rename = "eventRecordQPS")]
    pub event_record_qps: u32,
    /// How many events may be sent at once.
    pub event_burst: u32,
    /// Whether exec, attach, port-forward and logs are served.
    pub enable_debugging_handlers: bool,
    /// A session without a byte for this time ends; zero: it does not.
    pub streaming_connection_idle_timeout: GoDuration,
    /// 0: there is none.
    pub healthz_port: u16,
    /// The address of the healthz port.
    pub healthz_bind_address: IpAddr,
    /// The agent's own oom_score_adj.
    pub oom_score_adj: i32,
    /// The domain that pods search.
    pub cluster_domain: Option<String>,
    /// The DNS servers of pods.
    #[serde(rename = "clusterDNS", default)]
    pub cluster_dns: Vec<IpAddr>,
    /// How often the node's status is computed.
    pub node_status_update_frequency: GoDuration,
    /// How often an unchanged status is sent.
    pub node_status_report_frequency: GoDuration,
    /// How long the lease of the node is valid.
    pub node_lease_duration_seconds: u32,
    /// How long an unused image is kept at least.
    #[serde(rename = "imageMinimumGCAge")]
    pub image_minimum_gc_age: GoDuration,
    /// Zero: images are not removed for their age.
    #[serde(rename = "imageMaximumGCAge")]
    pub image_maximum_gc_age: GoDuration,
    /// How full the disk is when images are removed.
    #[serde(rename = "imageGCHighThresholdPercent")]
    pub image_gc_high_threshold_percent: u8,
    /// How full the disk is when no more images are removed.
    #[serde(rename = "imageGCLowThresholdPercent")]
    pub image_gc_low_threshold_percent: u8,
    /// Negative: volumes are not measured.
    pub volume_stats_agg_period: GoDuration,
    /// The cgroup that the cgroups of pods are in.
    pub cgroup_root: Option<String>,
    /// How cgroups are made.
    pub cgroup_driver: CgroupDriver,
    /// Whether the kernel kills one process of a container and not all; nothing: not on cgroup v2.
    #[serde(rename = "singleProcessOOMKill")]
    pub single_process_oom_kill: Option<bool>,
    /// How long a CRI request may take.
    pub runtime_request_timeout: GoDuration,
    /// How many pods may run.
    pub max_pods: u32,
    /// The addresses of pods where there is no API server.
    #[serde(rename = "podCIDR")]
    pub pod_cidr: Option<String>,
    /// -1: what the node can give.
    pub pod_pids_limit: i64,
    /// Empty: pods inherit nothing.
    pub resolv_conf: PathBuf,
    /// Whether limits of processors are enforced.
    #[serde(rename = "cpuCFSQuota")]
    pub cpu_cfs_quota: bool,
    /// The period of that limit.
    #[serde(rename = "cpuCFSQuotaPeriod")]
    pub cpu_cfs_quota_period: GoDuration,
    /// -1: all.
    pub node_status_max_images: i32,
    /// Whether one image is pulled after the other.
    pub serialize_image_pulls: bool,
    /// How many images are pulled at once; nothing: no limit.
    pub max_parallel_image_pulls: Option<u32>,
    /// Without thresholds of 0% and 100%, which turn a signal off.
    #[serde(default, deserialize_with = "enabled_thresholds")]
    pub eviction_hard: BTreeMap<EvictionSignal, Threshold>,
    /// Without thresholds of 0% and 100%, which turn a signal off.
    #[serde(default, deserialize_with = "enabled_thresholds")]
    pub eviction_soft: BTreeMap<EvictionSignal, Threshold>,
    /// How long a soft threshold must be met.
    #[serde(default)]
    pub eviction_soft_grace_period: BTreeMap<EvictionSignal, GoDuration>,
    /// How long a pressure condition stays.
    pub eviction_pressure_transition_period: GoDuration,
    /// Negative: what the pod says.
    pub eviction_max_pod_grace_period: i32,
    /// How much is reclaimed at least.
    #[serde(default)]
    pub eviction_minimum_reclaim: BTreeMap<EvictionSignal, Threshold>,
    /// Already applied to `eviction_hard`.
    pub merge_default_eviction_settings: bool,
    /// 0: no limit by processors.
    pub pods_per_core: u32,
    /// Whether the agent refuses kernel settings that are not a kubelet's, and does not change them.
    pub protect_kernel_defaults: bool,
    /// Gates that are set, whether to their default or not.
    #[serde(default)]
    pub feature_gates: BTreeMap<String, bool>,
    /// Whether the agent refuses a node with swap.
    pub fail_swap_on: bool,
    /// Negative: logs are not rotated.
    #[serde(serialize_with = "write_quantity", deserialize_with = "read_quantity")]
    pub container_log_max_size: Quantity,
    /// How many files of a log are kept.
    pub container_log_max_files: u32,
    /// How many logs are rotated at once.
    pub container_log_max_workers: u32,
    /// How often the size of logs is measured.
    pub container_log_monitor_interval: GoDuration,
    /// By cpu, memory, ephemeral-storage and pid.
    #[serde(default, serialize_with = "write_quantities", deserialize_with = "read_quantities")]
    pub system_reserved: BTreeMap<String, Quantity>,
    /// By cpu, memory, ephemeral-storage and pid.
    #[serde(default, serialize_with = "write_quantities", deserialize_with = "read_quantities")]
    pub kube_reserved: BTreeMap<String, Quantity>,
    /// As a list of processors: `0-1,4`.
    #[serde(rename = "reservedSystemCPUs")]
    pub reserved_system_cpus: Option<String>,
    /// `pods`, `none`, or nothing.
    #[serde(default)]
    pub enforce_node_allocatable: Vec<String>,
    /// Unsafe sysctls that pods may set; `*` at the end stands for any.
    #[serde(default)]
    pub allowed_unsafe_sysctls: Vec<String>,
    /// The cloud's ID of the node.
    #[serde(rename = "providerID")]
    pub provider_id: Option<String>,
    /// Whether files of /var/log are served: a kubelet does by default, and this agent only where the field is set.
    pub enable_system_log_handler: bool,
    /// How long a shutdown of the node waits for pods; zero: it does not.
    pub shutdown_grace_period: GoDuration,
    /// The part of that for critical pods.
    pub shutdown_grace_period_critical_pods: GoDuration,
    /// The same by the priority of pods.
    #[serde(default)]
    pub shutdown_grace_period_by_pod_priority: Vec<ShutdownGracePeriod>,
    /// How long a container waits that ends again and again.
    pub crash_loop_back_off: CrashLoopBackOff,
    /// Whether containers have the runtime's seccomp profile by default.
    pub seccomp_default: bool,
    /// Taints that the node is registered with.
    #[serde(default)]
    pub register_with_taints: Vec<Taint>,
    /// Whether the agent creates its Node object.
    pub register_node: bool,
    /// Whether limits of ephemeral storage are enforced.
    pub local_storage_capacity_isolation: bool,
    /// The CRI endpoint.
    pub container_runtime_endpoint: String,
    /// Nothing: the same as `container_runtime_endpoint`.
    pub image_service_endpoint: Option<String>,
    /// Whether the agent refuses a node with cgroup v1.
    #[serde(rename = "failCgroupV1")]
    pub fail_cgroup_v1: bool,
    /// User namespaces of pods.
    pub user_namespaces: UserNamespaces,
}

impl KubeletConfig {
    /// Whether a feature gate is on: as it is set, or else by its default in Kubernetes 1.37.
    #[must_use]
    pub fn is_gate_on(&self, name: &str) -> bool {
        let default = || super::feature_gates().any(|gate| gate.name == name && gate.default);
        self.feature_gates.get(name).copied().unwrap_or_else(default)
    }
}

/// How clients of port 10250 prove their identity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Authentication {
    /// By certificate.
    #[serde(default)]
    pub x509: X509Authentication,
    /// By a bearer token, which the API server reviews.
    pub webhook: WebhookAuthentication,
    /// Not at all.
    pub anonymous: AnonymousAuthentication,
}

/// Authentication by certificate.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct X509Authentication {
    /// The authorities that sign clients' certificates; nothing: certificates are not accepted.
    #[serde(rename = "clientCAFile")]
    pub client_ca_file: Option<PathBuf>,
}

/// Authentication by TokenReview.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WebhookAuthentication {
    /// Whether tokens are accepted.
    pub enabled: bool,
    /// How long an answer is kept.
    #[serde(rename = "cacheTTL")]
    pub cache_ttl: GoDuration,
}

/// Requests without an identity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AnonymousAuthentication {
    /// Whether they are accepted, as system:anonymous.
    pub enabled: bool,
}

/// What clients of port 10250 may do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Authorization {
    /// Which component decides.
    pub mode: AuthorizationMode,
    /// How long the API server's answers are kept.
    pub webhook: WebhookAuthorization,
}

/// Which component decides what a client may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum AuthorizationMode {
    /// None: a client may do everything.
    AlwaysAllow,
    /// The API server, by SubjectAccessReview.
    Webhook,
}

/// How long answers to SubjectAccessReview are kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WebhookAuthorization {
    /// Where the client may.
    #[serde(rename = "cacheAuthorizedTTL")]
    pub cache_authorized_ttl: GoDuration,
    /// Where the client may not.
    #[serde(rename = "cacheUnauthorizedTTL")]
    pub cache_unauthorized_ttl: GoDuration,
}

/// The oldest version of TLS that is served. The agent never serves one before 1.2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum TlsVersion {
    /// 1.0; 1.2 is served.
    VersionTLS10,
    /// 1.1; 1.2 is served.
    VersionTLS11,
    /// 1.2.
    VersionTLS12,
    /// 1.3.
    VersionTLS13,
}

/// How cgroups are made. What the runtime reports over CRI wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CgroupDriver {
    /// As directories.
    Cgroupfs,
    /// By systemd.
    Systemd,
}

/// Which images that are on the node pods may use without a proof that they may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum CredentialsVerificationPolicy {
    /// All.
    NeverVerify,
    /// Those that the node did not pull.
    NeverVerifyPreloadedImages,
    /// Those of a list.
    NeverVerifyAllowlistedImages,
    /// None.
    AlwaysVerify,
}

/// How long pods of a priority have when the node shuts down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ShutdownGracePeriod {
    /// The least priority that it is for.
    #[serde(default)]
    pub priority: i32,
    /// How long.
    #[serde(default)]
    pub shutdown_grace_period_seconds: i64,
}

/// How long a container waits that ends again and again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CrashLoopBackOff {
    /// At most.
    pub max_container_restart_period: GoDuration,
}

/// A taint that the node is registered with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Taint {
    /// Its key.
    pub key: String,
    /// Its value; empty if it has none.
    #[serde(default)]
    pub value: String,
    /// What it does to pods without a toleration.
    pub effect: TaintEffect,
}

/// What a taint does to pods without a toleration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum TaintEffect {
    /// They are not scheduled.
    NoSchedule,
    /// They are scheduled elsewhere if possible.
    PreferNoSchedule,
    /// They are evicted.
    NoExecute,
}

/// User namespaces of pods.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UserNamespaces {
    /// The length of a pod's block.
    pub ids_per_pod: BlockLength,
}

fn enabled_thresholds<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<EvictionSignal, Threshold>, D::Error> {
    let all: BTreeMap<EvictionSignal, Threshold> = BTreeMap::deserialize(deserializer)?;
    Ok(all.into_iter().filter(|(_, threshold)| !threshold.is_disabled()).collect())
}

fn write_quantity<S: Serializer>(quantity: &Quantity, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(quantity)
}

fn read_quantity<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Quantity, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
}

fn write_quantities<S: Serializer>(
    quantities: &BTreeMap<String, Quantity>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(quantities.iter().map(|(name, quantity)| (name, quantity.to_string())))
}

fn read_quantities<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<String, Quantity>, D::Error> {
    let texts: BTreeMap<String, String> = BTreeMap::deserialize(deserializer)?;
    let read = |(name, text): (String, String)| {
        text.parse().map(|quantity| (name, quantity)).map_err(serde::de::Error::custom)
    };
    texts.into_iter().map(read).collect()
}

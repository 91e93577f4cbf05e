//! Every field of KubeletConfiguration in Kubernetes 1.37, in upstream's order, with its default and what
//! `wardlet agent` does with it. docs/reference/kubelet-configuration.md is written from this table, and `tests/slow`
//! compares it with upstream's type.

use super::field::Kind::{
    Bool, BoolMap, Duration, DurationOrNanoseconds, Float, Int32, Int64, IntList, ObjectList, OneOf, Path,
    Quantity, Text, TextList, TextListMap, TextMap,
};
use super::field::{Field, field, section};

const NO_PROFILING: &str = "the agent has no profiling handlers of Go's";
const NO_IPTABLES: &str = "the agent writes no iptables rules: CNI plugins and kube-proxy have their own";
const OWN_LOG: &str = "the agent's log is set by its own flags";
const NO_TRACING: &str = "the agent exports no traces";
const NO_URL: &str = "the agent takes static pods from files only";
const USE_PATH: &str = "put the manifests into a directory and name it in staticPodPath";
const NO_CPU_MANAGER: &str = "the agent pins no container to processors";
const NO_MEMORY_MANAGER: &str = "the agent pins no memory to NUMA nodes";
const LEAVE_OUT: &str = "leave it out, or run these pods on a node with a kubelet";
const NO_ENFORCEMENT: &str = "limits are enforced on pods only (enforceNodeAllocatable)";
const CLIENT_LIMITS: &str = "the agent does not limit its own requests: the API server's flow control does";

/// Every field.
pub static FIELDS: &[Field] = &[
    field("enableServer", Bool, "true").keeps_zero(),
    field("staticPodPath", Path, ""),
    field("podLogsDir", Path, "/var/log/pods"),
    field("syncFrequency", Duration, "1m0s").note("the agent follows changes as they happen; after this time each pod is reconciled all the same"),
    field("fileCheckFrequency", Duration, "20s"),
    field("httpCheckFrequency", Duration, "20s").no_effect("staticPodURL is refused"),
    field("staticPodURL", Text, "").refused(NO_URL, USE_PATH),
    field("staticPodURLHeader", TextListMap, "").refused(NO_URL, USE_PATH),
    field("address", Text, "0.0.0.0"),
    field("port", Int32, "10250"),
    field("readOnlyPort", Int32, "0"),
    field("tlsCertFile", Path, ""),
    field("tlsPrivateKeyFile", Path, ""),
    field("tlsCipherSuites", TextList, "")
        .note("suites without forward secrecy or with CBC are refused: the agent does not offer them"),
    field("tlsCurvePreferences", IntList, "")
        .refused("the agent offers X25519, P-256 and P-384 in this order", "leave it out"),
    field("tlsMinVersion", OneOf(&["VersionTLS10", "VersionTLS11", "VersionTLS12", "VersionTLS13"]), "")
        .note("never below VersionTLS12"),
    field("rotateCertificates", Bool, "false"),
    field("serverTLSBootstrap", Bool, "false"),
    section("authentication"),
    section("authentication.x509"),
    field("authentication.x509.clientCAFile", Path, ""),
    section("authentication.webhook"),
    field("authentication.webhook.enabled", Bool, "true")
        .keeps_zero(),
    field("authentication.webhook.cacheTTL", Duration, "2m0s"),
    section("authentication.anonymous"),
    field("authentication.anonymous.enabled", Bool, "false")
        .keeps_zero(),
    section("authorization"),
    field("authorization.mode", OneOf(&["AlwaysAllow", "Webhook"]), "Webhook"),
    section("authorization.webhook"),
    field("authorization.webhook.cacheAuthorizedTTL", Duration, "5m0s"),
    field("authorization.webhook.cacheUnauthorizedTTL", Duration, "30s"),
    field("registryPullQPS", Int32, "5").keeps_zero(),
    field("registryBurst", Int32, "10"),
    field(
        "imagePullCredentialsVerificationPolicy",
        OneOf(&["NeverVerify", "NeverVerifyPreloadedImages", "NeverVerifyAllowlistedImages", "AlwaysVerify"]),
        "NeverVerifyPreloadedImages",
    ),
    field("preloadedImagesVerificationAllowlist", TextList, ""),
    field("eventRecordQPS", Int32, "50").keeps_zero(),
    field("eventBurst", Int32, "100"),
    field("enableDebuggingHandlers", Bool, "true").keeps_zero(),
    field("enableContentionProfiling", Bool, "false").no_effect(NO_PROFILING),
    field("healthzPort", Int32, "10248").keeps_zero(),
    field("healthzBindAddress", Text, "127.0.0.1"),
    field("oomScoreAdj", Int32, "-999").keeps_zero(),
    field("clusterDomain", Text, ""),
    field("clusterDNS", TextList, ""),
    field("streamingConnectionIdleTimeout", Duration, "4h0m0s").note("the runtime ends idle sessions by a limit of its own, too"),
    field("nodeStatusUpdateFrequency", Duration, "10s"),
    field("nodeStatusReportFrequency", Duration, "5m0s")
        .note("nodeStatusUpdateFrequency is the default where the file sets that"),
    field("nodeLeaseDurationSeconds", Int32, "40"),
    field("imageMinimumGCAge", Duration, "2m0s"),
    field("imageMaximumGCAge", Duration, "0s").note("an image that a pod names is in use, also while it has no container"),
    field("imageGCHighThresholdPercent", Int32, "85").keeps_zero(),
    field("imageGCLowThresholdPercent", Int32, "80").keeps_zero(),
    field("volumeStatsAggPeriod", Duration, "1m0s").note("how often new volumes are looked for; each is then measured every 10s, one that takes long to measure less often. A negative period turns the measuring off, and with it limits of local storage"),
    field("kubeletCgroups", Text, "").no_effect("the service manager places the agent in its cgroup"),
    field("systemCgroups", Text, "").refused(
        "the agent does not move processes of the host",
        "leave it out: the service manager places them",
    ),
    field("cgroupRoot", Text, "").note("it must exist"),
    field("cgroupsPerQOS", Bool, "true")
        .keeps_zero()
        .refused("pods always have cgroups by QoS class", "leave it out, or set it to true"),
    field("cgroupDriver", OneOf(&["cgroupfs", "systemd"]), "cgroupfs")
        .note("what the runtime reports over CRI wins; systemd needs cgroup v2 alone"),
    field("cpuManagerPolicy", OneOf(&["none", "static"]), "none").refused(NO_CPU_MANAGER, LEAVE_OUT),
    field("singleProcessOOMKill", Bool, "").keeps_zero().note("on cgroup v1 only true"),
    field("cpuManagerPolicyOptions", TextMap, "").refused(NO_CPU_MANAGER, LEAVE_OUT),
    field("cpuManagerReconcilePeriod", Duration, "10s").no_effect(NO_CPU_MANAGER),
    field("memoryManagerPolicy", OneOf(&["None", "Static"]), "None").refused(NO_MEMORY_MANAGER, LEAVE_OUT),
    field(
        "topologyManagerPolicy",
        OneOf(&["none", "best-effort", "restricted", "single-numa-node"]),
        "none",
    )
    .refused("the agent does not align devices, processors and memory by NUMA node", LEAVE_OUT),
    field("topologyManagerScope", OneOf(&["container", "pod"]), "container")
        .no_effect("topologyManagerPolicy is none"),
    field("topologyManagerPolicyOptions", TextMap, "").no_effect("topologyManagerPolicy is none"),
    field("qosReserved", TextMap, "")
        .refused("the agent reserves no memory of burstable and best-effort pods", "leave it out"),
    field("runtimeRequestTimeout", Duration, "2m0s").note("image pulls have no timeout"),
    field("hairpinMode", OneOf(&["promiscuous-bridge", "hairpin-veth", "none"]), "promiscuous-bridge")
        .no_effect("the CNI plugin decides, as with a kubelet"),
    field("maxPods", Int32, "110"),
    field("podCIDR", Text, "").note("without an API server only"),
    field("podPidsLimit", Int64, "-1").keeps_zero(),
    field("resolvConf", Path, "/etc/resolv.conf")
        .keeps_zero()
        .note("a file that only names systemd-resolved stands for /run/systemd/resolve/resolv.conf"),
    field("runOnce", Bool, "false").refused("a kubelet has it no more", "use `wardlet run`"),
    field("cpuCFSQuota", Bool, "true").keeps_zero(),
    field("cpuCFSQuotaPeriod", Duration, "100ms").keeps_zero(),
    field("nodeStatusMaxImages", Int32, "50").keeps_zero(),
    field("maxOpenFiles", Int64, "1000000").no_effect("the service manager sets it (LimitNOFILE=)"),
    field("contentType", Text, "application/vnd.kubernetes.protobuf")
        .no_effect("the agent talks JSON to the API server"),
    field("kubeAPIQPS", Int32, "50").keeps_zero().no_effect(CLIENT_LIMITS),
    field("kubeAPIBurst", Int32, "100").no_effect(CLIENT_LIMITS),
    field("serializeImagePulls", Bool, "true")
        .keeps_zero(),
    field("maxParallelImagePulls", Int32, "").keeps_zero(),
    field("evictionHard", TextMap, "")
        .note("where it is not set: memory.available 100Mi, nodefs.available 10%, nodefs.inodesFree 5%, imagefs.available 15%, imagefs.inodesFree 5%. Pods that wait for their start are not evicted: they take nothing"),
    field("evictionSoft", TextMap, ""),
    field("evictionSoftGracePeriod", TextMap, ""),
    field("evictionPressureTransitionPeriod", Duration, "5m0s"),
    field("evictionMaxPodGracePeriod", Int32, "0"),
    field("evictionMinimumReclaim", TextMap, ""),
    field("mergeDefaultEvictionSettings", Bool, "false").keeps_zero(),
    field("podsPerCore", Int32, "0"),
    field("enableControllerAttachDetach", Bool, "true").keeps_zero().refused(
        "the agent attaches no volumes: the controller manager does",
        "leave it out, or set it to true",
    ),
    field("protectKernelDefaults", Bool, "false"),
    field("makeIPTablesUtilChains", Bool, "true").keeps_zero().no_effect(NO_IPTABLES),
    field("iptablesMasqueradeBit", Int32, "14").keeps_zero().no_effect(NO_IPTABLES),
    field("iptablesDropBit", Int32, "15").keeps_zero().no_effect(NO_IPTABLES),
    field("featureGates", BoolMap, "").note("see below"),
    field("failSwapOn", Bool, "true").keeps_zero(),
    section("memorySwap"),
    field("memorySwap.swapBehavior", OneOf(&["NoSwap", "LimitedSwap"]), "NoSwap")
        .refused("the agent gives pods no swap", "leave it out, or set it to NoSwap"),
    field("containerLogMaxSize", Text, "10Mi"),
    field("containerLogMaxFiles", Int32, "5").keeps_zero(),
    field("containerLogMaxWorkers", Int32, "1").keeps_zero(),
    field("containerLogMonitorInterval", Duration, "10s").keeps_zero().note("a log that grows fast is measured more often"),
    field("configMapAndSecretChangeDetectionStrategy", OneOf(&["Watch", "Cache", "Get"]), "Watch")
        .no_effect("the agent watches ConfigMaps and Secrets"),
    field("systemReserved", TextMap, ""),
    field("kubeReserved", TextMap, ""),
    field("reservedSystemCPUs", Text, "").note("counts for the node's allocatable; no processor is set apart"),
    field("showHiddenMetricsForVersion", Text, "").no_effect("the agent has no hidden metrics"),
    field("systemReservedCgroup", Text, "").no_effect(NO_ENFORCEMENT),
    field("kubeReservedCgroup", Text, "").no_effect(NO_ENFORCEMENT),
    field("enforceNodeAllocatable", TextList, "pods")
        .note("pods, none or an empty list; limits on cgroups of the system and of Kubernetes are refused"),
    field("allowedUnsafeSysctls", TextList, ""),
    field("defaultPodSysctls", TextMap, "")
        .refused("the feature is alpha (DefaultPodSysctls) and not built", "set the sysctls in the pods"),
    field("volumePluginDir", Path, "/usr/libexec/kubernetes/kubelet-plugins/volume/exec/")
        .no_effect("the agent has no FlexVolume plugins"),
    field("providerID", Text, ""),
    field("kernelMemcgNotification", Bool, "false").no_effect("the agent measures memory at an interval"),
    section("logging"),
    field("logging.format", OneOf(&["text", "json"]), "text").no_effect(OWN_LOG),
    field("logging.flushFrequency", DurationOrNanoseconds, "5s").no_effect(OWN_LOG),
    field("logging.verbosity", Int32, "0").no_effect(OWN_LOG),
    field("logging.vmodule", ObjectList, "").no_effect(OWN_LOG),
    field("logging.vmodule[].filePattern", Text, "").no_effect(OWN_LOG),
    field("logging.vmodule[].verbosity", Int32, "").no_effect(OWN_LOG),
    section("logging.options"),
    section("logging.options.text"),
    field("logging.options.text.splitStream", Bool, "false").no_effect(OWN_LOG),
    field("logging.options.text.infoBufferSize", Quantity, "0").no_effect(OWN_LOG),
    section("logging.options.json"),
    field("logging.options.json.splitStream", Bool, "false").no_effect(OWN_LOG),
    field("logging.options.json.infoBufferSize", Quantity, "0").no_effect(OWN_LOG),
    field("enableSystemLogHandler", Bool, "true").keeps_zero().note("served only where it is set to true, and not by default"),
    field("enableSystemLogQuery", Bool, "")
        .keeps_zero()
        .refused("the agent answers no queries of the node's journal", "leave it out, or set it to false")
        .also(&["false"]),
    field("shutdownGracePeriod", Duration, "0s"),
    field("shutdownGracePeriodCriticalPods", Duration, "0s"),
    field("shutdownGracePeriodByPodPriority", ObjectList, ""),
    field("shutdownGracePeriodByPodPriority[].priority", Int32, ""),
    field("shutdownGracePeriodByPodPriority[].shutdownGracePeriodSeconds", Int64, ""),
    section("crashLoopBackOff"),
    field("crashLoopBackOff.maxContainerRestartPeriod", Duration, "5m0s").keeps_zero(),
    field("reservedMemory", ObjectList, "").refused(NO_MEMORY_MANAGER, LEAVE_OUT),
    field("reservedMemory[].numaNode", Int32, "").refused(NO_MEMORY_MANAGER, LEAVE_OUT),
    field("reservedMemory[].limits", TextMap, "").refused(NO_MEMORY_MANAGER, LEAVE_OUT),
    field("enableProfilingHandler", Bool, "true").keeps_zero().no_effect(NO_PROFILING),
    field("enableDebugFlagsHandler", Bool, "true").keeps_zero().no_effect(NO_PROFILING),
    field("seccompDefault", Bool, "false").keeps_zero(),
    field("memoryThrottlingFactor", Float, "")
        .keeps_zero()
        .refused("the agent sets no memory.high", "leave it out"),
    field("memoryReservationPolicy", OneOf(&["None", "TieredReservation"]), "None")
        .refused("the agent sets no memory.min and memory.low", "leave it out, or set it to None"),
    field("registerWithTaints", ObjectList, ""),
    field("registerWithTaints[].key", Text, ""),
    field("registerWithTaints[].value", Text, ""),
    field("registerWithTaints[].effect", OneOf(&["NoSchedule", "PreferNoSchedule", "NoExecute"]), ""),
    field("registerWithTaints[].timeAdded", Text, "")
        .refused("the API server sets it", "leave it out"),
    field("registerNode", Bool, "true").keeps_zero(),
    section("tracing"),
    field("tracing.endpoint", Text, "").keeps_zero().no_effect(NO_TRACING),
    field("tracing.samplingRatePerMillion", Int32, "").keeps_zero().no_effect(NO_TRACING),
    field("localStorageCapacityIsolation", Bool, "true").keeps_zero().note("false turns limits of local storage off; the node reports its capacity all the same"),
    field("containerRuntimeEndpoint", Text, "unix:///run/containerd/containerd.sock"),
    field("imageServiceEndpoint", Text, "").not_yet("image service of its own"),
    field("failCgroupV1", Bool, "true").keeps_zero(),
    section("userNamespaces"),
    field("userNamespaces.idsPerPod", Int64, "65536").keeps_zero(),
];

/// The field of this path.
pub(super) fn find(path: &str) -> Option<&'static Field> {
    FIELDS.iter().find(|field| field.path == path)
}

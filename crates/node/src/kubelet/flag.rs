//! The flags of a kubelet 1.37, and what `wardlet agent` does with each.

/// A flag of a kubelet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flag {
    /// Its name, without dashes.
    pub name: &'static str,
    /// What it sets.
    pub target: FlagTarget,
    /// Which installers pass it, if any is known to.
    pub passed_by: &'static str,
    /// Whether Kubernetes 1.37 has it no more; installers still pass it.
    pub is_removed: bool,
}

/// What a flag sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlagTarget {
    /// A field of KubeletConfiguration, over what files say. What the agent does is in the table of fields.
    Field(&'static str),
    /// One of [`super::NodeFlags`].
    Node(NodeFlag),
    /// Nothing: it is accepted.
    NoEffect(&'static str),
    /// It is refused unless its value is empty or `false`.
    Refused {
        /// What the agent lacks.
        reason: &'static str,
        /// What to do instead.
        hint: &'static str,
    },
}

/// A flag of the node itself, which no shared configuration can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is named as its flag")]
pub enum NodeFlag {
    Config,
    ConfigDir,
    Kubeconfig,
    BootstrapKubeconfig,
    CertDir,
    RootDir,
    HostnameOverride,
    NodeIp,
    NodeLabels,
    CloudProvider,
    ImageCredentialProviderConfig,
    ImageCredentialProviderBinDir,
    MinimumContainerTtl,
    MaximumDeadPerContainer,
    MaximumDead,
}

const fn sets(name: &'static str, path: &'static str) -> Flag {
    Flag { name, target: FlagTarget::Field(path), passed_by: "", is_removed: false }
}

const fn node(name: &'static str, flag: NodeFlag) -> Flag {
    Flag { name, target: FlagTarget::Node(flag), passed_by: "", is_removed: false }
}

const fn no_effect(name: &'static str, reason: &'static str) -> Flag {
    Flag { name, target: FlagTarget::NoEffect(reason), passed_by: "", is_removed: false }
}

const fn refused(name: &'static str, reason: &'static str, hint: &'static str) -> Flag {
    Flag { name, target: FlagTarget::Refused { reason, hint }, passed_by: "", is_removed: false }
}

impl Flag {
    const fn by(mut self, installers: &'static str) -> Self {
        self.passed_by = installers;
        self
    }

    const fn removed(mut self) -> Self {
        self.is_removed = true;
        self
    }
}

/// Every flag of a kubelet 1.37 on Linux but `help` and `version`, which belong to the command line.
pub static FLAGS: &[Flag] = &[
    node("config", NodeFlag::Config).by("kubeadm, kubespray, node e2e"),
    node("config-dir", NodeFlag::ConfigDir).by("node e2e, k3s, EKS"),
    node("kubeconfig", NodeFlag::Kubeconfig).by("kubeadm, kubespray, node e2e, k3s, EKS"),
    node("bootstrap-kubeconfig", NodeFlag::BootstrapKubeconfig).by("kubeadm, kubespray"),
    node("cert-dir", NodeFlag::CertDir).by("k3s"),
    node("root-dir", NodeFlag::RootDir).by("node e2e, k3s"),
    node("hostname-override", NodeFlag::HostnameOverride).by("kubeadm, kubespray, node e2e, k3s, EKS"),
    node("node-ip", NodeFlag::NodeIp).by("kubespray, k3s, EKS"),
    node("node-labels", NodeFlag::NodeLabels).by("kubespray, k3s, EKS"),
    node("cloud-provider", NodeFlag::CloudProvider).by("kubespray, k3s, EKS"),
    no_effect("runtime-cgroups", "the runtime reports its own cgroup").by("kubespray, node e2e, EKS"),
    node("image-credential-provider-config", NodeFlag::ImageCredentialProviderConfig).by("EKS"),
    node("image-credential-provider-bin-dir", NodeFlag::ImageCredentialProviderBinDir).by("EKS"),
    sets("seccomp-default", "seccompDefault"),
    refused("lock-file", "the agent locks its own state directory", "leave it out"),
    refused("exit-on-lock-contention", "the agent locks its own state directory", "leave it out"),
    node("minimum-container-ttl-duration", NodeFlag::MinimumContainerTtl),
    node("maximum-dead-containers-per-container", NodeFlag::MaximumDeadPerContainer),
    node("maximum-dead-containers", NodeFlag::MaximumDead),
    refused("experimental-mounter-path", "the agent mounts by system calls", "leave it out"),
    refused(
        "experimental-allocatable-ignore-eviction",
        "hard eviction thresholds always count for the node's allocatable",
        "leave it out",
    ),
    no_effect("housekeeping-interval", "the agent has no cAdvisor"),
    no_effect("pod-infra-container-image", "the runtime chooses the image of sandboxes")
        .by("kubeadm before 1.35")
        .removed(),
    no_effect("containerd", "the agent has no cAdvisor").by("k3s").removed(),
    sets("enable-server", "enableServer"),
    sets("fail-swap-on", "failSwapOn"),
    sets("pod-manifest-path", "staticPodPath"),
    sets("sync-frequency", "syncFrequency"),
    sets("file-check-frequency", "fileCheckFrequency"),
    sets("http-check-frequency", "httpCheckFrequency"),
    sets("manifest-url", "staticPodURL"),
    sets("manifest-url-header", "staticPodURLHeader"),
    sets("address", "address"),
    sets("port", "port"),
    sets("read-only-port", "readOnlyPort").by("k3s"),
    sets("fail-cgroupv1", "failCgroupV1"),
    sets("container-runtime-endpoint", "containerRuntimeEndpoint").by("kubespray, node e2e, k3s"),
    sets("image-service-endpoint", "imageServiceEndpoint").by("node e2e"),
    sets("anonymous-auth", "authentication.anonymous.enabled"),
    sets("authentication-token-webhook", "authentication.webhook.enabled"),
    sets("authentication-token-webhook-cache-ttl", "authentication.webhook.cacheTTL"),
    sets("client-ca-file", "authentication.x509.clientCAFile"),
    sets("authorization-mode", "authorization.mode"),
    sets("authorization-webhook-cache-authorized-ttl", "authorization.webhook.cacheAuthorizedTTL"),
    sets("authorization-webhook-cache-unauthorized-ttl", "authorization.webhook.cacheUnauthorizedTTL"),
    sets("tls-cert-file", "tlsCertFile"),
    sets("tls-private-key-file", "tlsPrivateKeyFile"),
    sets("rotate-server-certificates", "serverTLSBootstrap"),
    sets("tls-cipher-suites", "tlsCipherSuites"),
    sets("tls-min-version", "tlsMinVersion"),
    sets("rotate-certificates", "rotateCertificates"),
    sets("registry-qps", "registryPullQPS"),
    sets("registry-burst", "registryBurst"),
    sets("event-qps", "eventRecordQPS"),
    sets("event-burst", "eventBurst"),
    sets("enable-debugging-handlers", "enableDebuggingHandlers"),
    sets("contention-profiling", "enableContentionProfiling"),
    sets("healthz-port", "healthzPort"),
    sets("healthz-bind-address", "healthzBindAddress"),
    sets("oom-score-adj", "oomScoreAdj"),
    sets("cluster-domain", "clusterDomain"),
    sets("volume-plugin-dir", "volumePluginDir"),
    sets("cluster-dns", "clusterDNS"),
    sets("streaming-connection-idle-timeout", "streamingConnectionIdleTimeout"),
    sets("node-status-update-frequency", "nodeStatusUpdateFrequency"),
    sets("minimum-image-ttl-duration", "imageMinimumGCAge"),
    sets("image-gc-high-threshold", "imageGCHighThresholdPercent"),
    sets("image-gc-low-threshold", "imageGCLowThresholdPercent"),
    sets("volume-stats-agg-period", "volumeStatsAggPeriod"),
    sets("feature-gates", "featureGates").by("node e2e, k3s"),
    sets("kubelet-cgroups", "kubeletCgroups"),
    sets("system-cgroups", "systemCgroups"),
    sets("provider-id", "providerID"),
    sets("cgroups-per-qos", "cgroupsPerQOS"),
    sets("cgroup-driver", "cgroupDriver"),
    sets("cgroup-root", "cgroupRoot"),
    sets("cpu-manager-policy", "cpuManagerPolicy"),
    sets("cpu-manager-policy-options", "cpuManagerPolicyOptions"),
    sets("cpu-manager-reconcile-period", "cpuManagerReconcilePeriod"),
    sets("qos-reserved", "qosReserved"),
    sets("topology-manager-policy", "topologyManagerPolicy"),
    sets("runtime-request-timeout", "runtimeRequestTimeout"),
    sets("hairpin-mode", "hairpinMode"),
    sets("max-pods", "maxPods"),
    sets("pod-cidr", "podCIDR"),
    sets("pod-max-pids", "podPidsLimit"),
    sets("resolv-conf", "resolvConf"),
    sets("runonce", "runOnce"),
    sets("cpu-cfs-quota", "cpuCFSQuota"),
    sets("cpu-cfs-quota-period", "cpuCFSQuotaPeriod"),
    sets("enable-controller-attach-detach", "enableControllerAttachDetach"),
    sets("make-iptables-util-chains", "makeIPTablesUtilChains"),
    sets("container-log-max-size", "containerLogMaxSize"),
    sets("container-log-max-files", "containerLogMaxFiles"),
    sets("allowed-unsafe-sysctls", "allowedUnsafeSysctls"),
    sets("node-status-max-images", "nodeStatusMaxImages"),
    sets("kernel-memcg-notification", "kernelMemcgNotification"),
    sets("local-storage-capacity-isolation", "localStorageCapacityIsolation"),
    sets("max-open-files", "maxOpenFiles"),
    sets("kube-api-content-type", "contentType"),
    sets("kube-api-qps", "kubeAPIQPS"),
    sets("kube-api-burst", "kubeAPIBurst"),
    sets("serialize-image-pulls", "serializeImagePulls"),
    sets("eviction-hard", "evictionHard"),
    sets("eviction-soft", "evictionSoft"),
    sets("eviction-soft-grace-period", "evictionSoftGracePeriod"),
    sets("eviction-pressure-transition-period", "evictionPressureTransitionPeriod"),
    sets("eviction-max-pod-grace-period", "evictionMaxPodGracePeriod"),
    sets("eviction-minimum-reclaim", "evictionMinimumReclaim"),
    sets("pods-per-core", "podsPerCore"),
    sets("protect-kernel-defaults", "protectKernelDefaults"),
    sets("reserved-cpus", "reservedSystemCPUs"),
    sets("topology-manager-scope", "topologyManagerScope"),
    sets("topology-manager-policy-options", "topologyManagerPolicyOptions"),
    sets("system-reserved", "systemReserved"),
    sets("kube-reserved", "kubeReserved"),
    sets("enforce-node-allocatable", "enforceNodeAllocatable"),
    sets("system-reserved-cgroup", "systemReservedCgroup"),
    sets("kube-reserved-cgroup", "kubeReservedCgroup"),
    sets("memory-manager-policy", "memoryManagerPolicy"),
    sets("reserved-memory", "reservedMemory"),
    sets("register-node", "registerNode"),
    sets("register-with-taints", "registerWithTaints").by("kubeadm, k3s, EKS"),
    sets("logging-format", "logging.format"),
    sets("log-flush-frequency", "logging.flushFrequency"),
    sets("v", "logging.verbosity").by("kubespray, node e2e, k3s"),
    sets("vmodule", "logging.vmodule"),
    sets("log-text-split-stream", "logging.options.text.splitStream"),
    sets("log-text-info-buffer-size", "logging.options.text.infoBufferSize"),
    sets("log-json-split-stream", "logging.options.json.splitStream"),
    sets("log-json-info-buffer-size", "logging.options.json.infoBufferSize"),
];

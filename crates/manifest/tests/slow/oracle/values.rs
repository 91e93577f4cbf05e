//! Values that fields take, and what goes with them.

use serde_json::{Value, json};

/// What a field needs beside it, as a field and its value in JSON.
pub(super) fn companions(parent: &str, field: &str) -> &'static [(&'static str, &'static str)] {
    match (parent, field) {
        ("Container", "restartPolicyRules") => &[("restartPolicy", "\"Never\"")],
        ("ClusterTrustBundleProjection", "labelSelector") => &[("signerName", "\"a.b/c\""), ("name", "null")],
        ("Toleration", "tolerationSeconds") => &[("effect", "\"NoExecute\"")],
        ("Toleration", "value") => &[("key", "\"a\""), ("operator", "\"Equal\"")],
        ("NodeSelectorRequirement" | "LabelSelectorRequirement", "values") => &[("operator", "\"In\"")],
        ("SeccompProfile" | "AppArmorProfile", "localhostProfile") => &[("type", "\"Localhost\"")],
        ("JobSpec", "backoffLimitPerIndex" | "successPolicy" | "completionMode") => {
            &[("completionMode", "\"Indexed\""), ("completions", "5")]
        }
        ("JobSpec", "maxFailedIndexes") => {
            &[("completionMode", "\"Indexed\""), ("completions", "5"), ("backoffLimitPerIndex", "1")]
        }
        ("SuccessPolicyRule", _) => &[("succeededIndexes", "\"0\"")],
        ("VolumeMount", "recursiveReadOnly") => &[("readOnly", "true")],
        ("VolumeMount", "subPath") => &[("subPathExpr", "null")],
        ("VolumeMount", "subPathExpr") => &[("subPath", "null")],
        ("EnvVar", "valueFrom") => &[("value", "null")],
        ("EnvVar", "value") => &[("valueFrom", "null")],
        ("PodSpec", "dnsPolicy") => &[("dnsConfig", "{\"nameservers\":[\"1.2.3.4\"]}")],
        ("PodSpec", "nodeName") => &[("schedulingGates", "null")],
        ("PodSpec", "schedulingGates") => &[("nodeName", "null")],
        ("PodSpec", "hostnameOverride") => &[("hostNetwork", "null"), ("setHostnameAsFQDN", "null")],
        ("PersistentVolumeSpec", "volumeAttributesClassName") => {
            &[("csi", "{\"driver\":\"d.io\",\"volumeHandle\":\"h\"}"), ("hostPath", "null")]
        }
        ("PersistentVolumeSpec", "local") => &[(
            "nodeAffinity",
            "{\"required\":{\"nodeSelectorTerms\":[{\"matchExpressions\":[{\"key\":\"a\",\"operator\":\"Exists\"}]}]}}",
        )],
        ("ISCSIVolumeSource" | "ISCSIPersistentVolumeSource", "chapAuthDiscovery" | "chapAuthSession") => {
            &[("secretRef", "{\"name\":\"s\"}")]
        }
        ("DeploymentStrategy" | "StatefulSetUpdateStrategy" | "DaemonSetUpdateStrategy", "rollingUpdate") => {
            &[("type", "\"RollingUpdate\"")]
        }
        ("RollingUpdateDeployment", _) => &[("maxSurge", "1")],
        ("RollingUpdateDaemonSet", "maxSurge") => &[("maxUnavailable", "0")],
        ("TypedLocalObjectReference" | "TypedObjectReference", "kind") => &[("apiGroup", "\"a.b\"")],
        ("AzureDiskVolumeSource", "kind" | "diskURI") => &[("kind", "\"Shared\"")],
        _ => &[],
    }
}

/// Values that the field of a type takes; none where any value of its type does.
#[allow(clippy::too_many_lines)]
pub(super) fn values(parent: &str, field: &str) -> Vec<Value> {
    let list = |text: &str| text.split(' ').map(|word| json!(word)).collect::<Vec<Value>>();
    let whole = |numbers: &[i64]| numbers.iter().map(|n| json!(n)).collect::<Vec<Value>>();
    match (parent, field) {
        (_, "imagePullPolicy" | "pullPolicy") => list("Always IfNotPresent Never"),
        (_, "terminationMessagePolicy") => list("File FallbackToLogsOnError"),
        ("Container", "restartPolicy") => list("Always OnFailure Never"),
        ("PodSpec", "restartPolicy") => list("Always OnFailure Never"),
        ("ContainerResizePolicy", "restartPolicy") => list("NotRequired RestartContainer"),
        ("ContainerResizePolicy", "resourceName") => list("cpu memory"),
        ("ContainerRestartRule", "action") => list("Restart RestartAllContainers"),
        ("ContainerRestartRuleOnExitCodes" | "PodFailurePolicyOnExitCodesRequirement", "operator") => {
            list("In NotIn")
        }
        ("PodFailurePolicyRule", "action") => list("Ignore Count FailJob FailIndex"),
        (_, "dnsPolicy") => list("ClusterFirst ClusterFirstWithHostNet Default None"),
        (_, "preemptionPolicy") => list("Never PreemptLowerPriority"),
        (_, "protocol") => list("TCP UDP SCTP HTTP1"),
        (_, "scheme") => list("HTTP HTTPS"),
        (_, "fsGroupChangePolicy") => list("OnRootMismatch Always"),
        (_, "seLinuxChangePolicy") => list("MountOption Recursive"),
        (_, "supplementalGroupsPolicy") => list("Merge Strict"),
        (_, "procMount") => list("Default Unmasked"),
        ("SeccompProfile" | "AppArmorProfile", "type") => list("RuntimeDefault Unconfined Localhost"),
        ("HostPathVolumeSource", "type") => list("Directory File Socket DirectoryOrCreate CharDevice"),
        (_, "medium") => list("Memory HugePages HugePages-2Mi other"),
        (_, "mountPropagation") => list("None HostToContainer Bidirectional"),
        (_, "recursiveReadOnly") => list("Disabled IfPossible Enabled"),
        ("Toleration", "operator") => list("Exists Equal Lt Gt"),
        ("Toleration", "effect") => list("NoSchedule PreferNoSchedule NoExecute"),
        (_, "operator") => list("Exists DoesNotExist"),
        ("LabelSelectorRequirement" | "NodeSelectorRequirement", "values") => list("a b-c"),
        (_, "whenUnsatisfiable") => list("DoNotSchedule ScheduleAnyway"),
        (_, "nodeAffinityPolicy" | "nodeTaintsPolicy") => list("Honor Ignore"),
        (_, "accessModes") => list("ReadWriteOnce ReadOnlyMany ReadWriteMany ReadWriteOncePod"),
        (_, "volumeMode") => list("Filesystem Block"),
        (_, "persistentVolumeReclaimPolicy") => list("Delete Recycle Retain"),
        (_, "completionMode") => list("Indexed NonIndexed"),
        (_, "podReplacementPolicy") => list("TerminatingOrFailed Failed"),
        (_, "concurrencyPolicy") => list("Allow Forbid Replace"),
        (_, "podManagementPolicy") => list("OrderedReady Parallel"),
        (_, "whenDeleted" | "whenScaled") => list("Retain Delete"),
        ("DeploymentStrategy", "type") => list("RollingUpdate Recreate"),
        ("StatefulSetUpdateStrategy" | "DaemonSetUpdateStrategy", "type") => list("RollingUpdate OnDelete"),
        (_, "status") => list("True False Unknown"),
        (_, "keyType") => list("RSA3072 ED25519 ECDSAP256"),
        (_, "cachingMode") => list("None ReadOnly ReadWrite"),
        ("AzureDiskVolumeSource", "kind") => list("Shared Dedicated Managed"),
        (_, "stopSignal") => list("SIGTERM SIGKILL SIGUSR1 SIGRTMIN+1"),
        ("PodOS", "name") => list("linux windows"),
        ("VolumeMount" | "FileKeySelector", "name" | "volumeName") => list("v p"),
        ("VolumeDevice", "name") => list("p v"),
        (_, "containerName" | "targetContainerName") => list("c"),
        ("EnvVar", "name") => list("A A.b a-b"),
        (_, "prefix") => list("P_ p"),
        (_, "topologyKey") => list("a b.c/d k"),
        (_, "fieldPath") => {
            list("metadata.name metadata.uid metadata.labels['a'] metadata.annotations['B/c']")
        }
        ("ResourceFieldSelector", "resource") => list("limits.cpu requests.memory limits.hugepages-2Mi"),
        (_, "divisor") => list("1 1m 1Mi 0"),
        ("PersistentVolumeClaim", "apiVersion") => list("v1"),
        ("PersistentVolumeClaim", "kind") => list("PersistentVolumeClaim"),
        (_, "apiVersion") => list("v1 apps/v1"),
        (_, "apiGroup") => list("a.b"),
        ("TypedLocalObjectReference" | "TypedObjectReference", "kind") => {
            list("PersistentVolumeClaim VolumeSnapshot")
        }
        (_, "nameservers" | "ip") => list("1.2.3.4 ::1 10.0.0.1"),
        (_, "searches") => list("a.b a_b.c. ."),
        (_, "hostIP") => list("1.2.3.4 ::1"),
        (_, "schedule") => {
            vec![json!("1 * * * *"), json!("@daily"), json!("*/5 1-3 1,2 JAN mon"), json!("@every 1h")]
        }
        (_, "timeZone") => list("UTC Europe/Vienna Etc/UTC America/New_York"),
        (_, "succeededIndexes") => list("0 0-1 0,1"),
        (_, "managedBy") => list("a.b/c kubernetes.io/job-controller"),
        (_, "signerName") => list("a.b/c kubernetes.io/kubelet-serving"),
        (_, "iqn" | "initiatorName") => list("iqn.2020-01.io.a:b eui.0123456789abcdef"),
        ("NFSVolumeSource", "path") => list("/a /a/b"),
        ("FlexVolumeSource" | "FlexPersistentVolumeSource", "driver") => list("a/b"),
        (_, "driver") => list("d.io D.io csi"),
        (_, "registry") => list("a:1 a:1,b:2"),
        (_, "diskURI") => list("https://a /subscriptions/a"),
        (_, "readOnly") => vec![json!(true), json!(false)],
        ("GRPCAction", "mode") => list("Plaintext TLS"),
        (_, "mode" | "defaultMode") => whole(&[0, 0o644, 0o777]),
        ("GRPCAction", "port") => whole(&[80, 65_535]),
        (_, "port") => vec![json!(80), json!("http"), json!(65_535)],
        (_, "containerPort" | "hostPort") => whole(&[80, 443, 65_535]),
        (_, "weight") => whole(&[1, 50, 100]),
        (_, "expirationSeconds") => whole(&[600, 3600, 1 << 32]),
        (_, "maxExpirationSeconds") => whole(&[3600, 86_400]),
        (_, "maxUnavailable" | "maxSurge") => {
            vec![json!(0), json!(1), json!("25%"), json!("0%"), json!("100%")]
        }
        (_, "activeDeadlineSeconds") => whole(&[1, 60]),
        (_, "terminationGracePeriodSeconds") => whole(&[1, 30, 60]),
        (_, "initialDelaySeconds" | "timeoutSeconds" | "periodSeconds") => whole(&[0, 1, 10]),
        (_, "progressDeadlineSeconds") => whole(&[600, 60]),
        (_, "user" | "defaultUser") => whole(&[0, 1000]),
        (_, "localhostProfile") => list("a a/b"),
        (_, "namespace" | "endpointsNamespace" | "secretNamespace" | "volumeNamespace") => list("n"),
        (_, "finalizers") => list("a.b/c foregroundDeletion orphan"),
        (_, "bindMountOptions") => list("noexec nodev nosuid"),
        (_, "gmsaCredentialSpecName") => list("g"),
        (_, "runAsUserName") => vec![json!("u"), json!("D\\u")],
        (_, "creationTimestamp" | "deletionTimestamp") => list("2020-01-01T00:00:00Z"),
        (_, "name") => list("a b c a-b"),
        _ => Vec::new(),
    }
}

/// Keys of a map that is at this field.
pub(super) fn keys(field: &str) -> &'static [&'static str] {
    match field {
        "limits" | "requests" | "overhead" => {
            &["cpu", "memory", "ephemeral-storage", "hugepages-2Mi", "a.b/c", "hugepages-1Gi", "storage"]
        }
        "capacity" => &["storage"],
        "annotations" => &[
            "a",
            "a.b/C",
            "seccomp.security.alpha.kubernetes.io/pod",
            "container.seccomp.security.alpha.kubernetes.io/c",
            "container.apparmor.security.beta.kubernetes.io/c",
            "container.apparmor.security.beta.kubernetes.io/x",
            "kubernetes.io/config.mirror",
            "controller.kubernetes.io/pod-deletion-cost",
            "scheduler.alpha.kubernetes.io/tolerations",
        ],
        _ => &["a", "a.b/c", "x-y_z"],
    }
}

/// Values for a key of a map, where the key decides.
pub(super) fn keyed(key: &str) -> &'static [&'static str] {
    match key {
        "cpu" => &["1", "500m", "2"],
        "memory" | "ephemeral-storage" | "storage" => &["1Gi", "1", "2Gi"],
        "hugepages-2Mi" => &["2Mi", "4Mi"],
        "hugepages-1Gi" => &["1Gi", "2Gi"],
        "a.b/c" => &["1", "2"],
        "app" => &["a"],
        "seccomp.security.alpha.kubernetes.io/pod" | "container.seccomp.security.alpha.kubernetes.io/c" => {
            &["runtime/default", "docker/default", "unconfined", "localhost/a"]
        }
        "container.apparmor.security.beta.kubernetes.io/c"
        | "container.apparmor.security.beta.kubernetes.io/x" => {
            &["runtime/default", "unconfined", "localhost/a"]
        }
        "controller.kubernetes.io/pod-deletion-cost" => &["1", "-1", "0"],
        "scheduler.alpha.kubernetes.io/tolerations" => &["[]", "[{\"operator\":\"Exists\"}]"],
        _ => &["a", "", "b"],
    }
}

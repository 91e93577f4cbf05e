//! What makes a valid object: the least that each type needs, and values that its fields take.

use serde_json::{Value, json};

use testkit::Dice;

/// The objects to start from.
pub(super) fn base(kind: &str, dice: &mut Dice) -> Value {
    let pod = || {
        json!({
            "containers": [{"name": "c", "image": "i"}],
            "volumes": [{"name": "v", "emptyDir": {}}, {"name": "p", "persistentVolumeClaim": {"claimName": "p"}}],
        })
    };
    let template = |policy: &str| {
        let mut spec = pod();
        spec["restartPolicy"] = json!(policy);
        json!({"metadata": {"labels": {"app": "a"}}, "spec": spec})
    };
    let selector = json!({"matchLabels": {"app": "a"}});
    let job = || json!({"template": template("Never")});
    let (version, spec) = match kind {
        "Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet" => {
            ("apps/v1", json!({"selector": selector, "template": template("Always")}))
        }
        "Job" => ("batch/v1", job()),
        "CronJob" => ("batch/v1", json!({"schedule": "1 * * * *", "jobTemplate": {"spec": job()}})),
        "PersistentVolumeClaim" => ("v1", claim()),
        "PersistentVolume" => {
            let disk = json!({"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/a"}});
            ("v1", disk)
        }
        _ if dice.below(3) == 0 => ("v1", json!({"containers": [{"name": "c", "image": "i"}]})),
        _ => ("v1", pod()),
    };
    json!({"apiVersion": version, "kind": kind, "metadata": {"name": "a"}, "spec": spec})
}

fn claim() -> Value {
    json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}})
}

/// Fields of which a type has just one.
pub(super) fn alternatives(kind: &str) -> &'static [&'static str] {
    match kind {
        "Probe" | "LifecycleHandler" => &["exec", "httpGet", "tcpSocket", "grpc", "sleep"],
        "EnvVarSource" => &["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"],
        "EnvFromSource" => &["configMapRef", "secretRef"],
        "DownwardAPIVolumeFile" => &["fieldRef", "resourceFieldRef"],
        "FCVolumeSource" => &["targetWWNs", "wwids"],
        "FlockerVolumeSource" => &["datasetName", "datasetUUID"],
        "ClusterTrustBundleProjection" => &["name", "signerName"],
        "PodResourceClaim" => &["resourceClaimName", "resourceClaimTemplateName"],
        "PodFailurePolicyRule" => &["onExitCodes", "onPodConditions"],
        "VolumeProjection" => &[
            "clusterTrustBundle",
            "configMap",
            "downwardAPI",
            "podCertificate",
            "secret",
            "serviceAccountToken",
        ],
        "Volume" | "PersistentVolumeSpec" => &[
            "awsElasticBlockStore",
            "azureDisk",
            "azureFile",
            "cephfs",
            "cinder",
            "configMap",
            "csi",
            "downwardAPI",
            "emptyDir",
            "ephemeral",
            "fc",
            "flexVolume",
            "flocker",
            "gcePersistentDisk",
            "gitRepo",
            "glusterfs",
            "hostPath",
            "image",
            "iscsi",
            "local",
            "nfs",
            "persistentVolumeClaim",
            "photonPersistentDisk",
            "portworxVolume",
            "projected",
            "quobyte",
            "rbd",
            "scaleIO",
            "secret",
            "storageos",
            "vsphereVolume",
        ],
        _ => &[],
    }
}

/// The least that a value of this type needs to be valid.
pub(super) fn minimal(kind: &str, dice: &mut Dice) -> Value {
    let n = dice.below(9_000);
    match kind {
        "Container" | "EphemeralContainer" => json!({"name": format!("c{n}"), "image": "i"}),
        "Volume" => json!({"name": format!("v{n}")}),
        "EnvVar" => json!({"name": format!("A{n}")}),
        "ContainerPort" => json!({"containerPort": n + 1}),
        "VolumeMount" => json!({"name": "v", "mountPath": format!("/m{n}")}),
        "VolumeDevice" => json!({"name": "p", "devicePath": format!("/dev/d{n}")}),
        "Probe" | "LifecycleHandler" => json!({"exec": {"command": ["a"]}}),
        "ExecAction" => json!({"command": ["a"]}),
        "HTTPGetAction" | "TCPSocketAction" | "GRPCAction" => json!({"port": 80}),
        "SleepAction" => json!({"seconds": 1}),
        "HTTPHeader" => json!({"name": "A", "value": "b"}),
        "KeyToPath" => json!({"key": "k", "path": format!("f{n}")}),
        "DownwardAPIVolumeFile" => {
            json!({"path": format!("d{n}"), "fieldRef": {"fieldPath": "metadata.name"}})
        }
        "ObjectFieldSelector" => json!({"fieldPath": "metadata.name"}),
        "ResourceFieldSelector" => json!({"resource": "limits.cpu", "containerName": "c"}),
        "ConfigMapKeySelector" | "SecretKeySelector" => json!({"name": "m", "key": "k"}),
        "FileKeySelector" => json!({"volumeName": "v", "key": "K", "path": "f"}),
        "ConfigMapEnvSource" | "SecretEnvSource" => json!({"name": "m"}),
        "ConfigMapVolumeSource" | "ConfigMapProjection" | "SecretProjection" => json!({"name": "m"}),
        "SecretVolumeSource" => json!({"secretName": "s"}),
        "ServiceAccountTokenProjection" => json!({"path": format!("t{n}")}),
        "ClusterTrustBundleProjection" => json!({"name": "b", "path": format!("b{n}")}),
        "PodCertificateProjection" => {
            json!({"signerName": "a.b/c", "keyType": "ED25519", "credentialBundlePath": format!("p{n}")})
        }
        "HostPathVolumeSource" | "LocalVolumeSource" => json!({"path": "/a"}),
        "PersistentVolumeClaimVolumeSource" => json!({"claimName": "p"}),
        "EphemeralVolumeSource" => json!({"volumeClaimTemplate": {"spec": claim()}}),
        "PersistentVolumeClaimTemplate" => json!({"spec": claim()}),
        "PersistentVolumeClaim" => json!({"metadata": {"name": format!("t{n}")}, "spec": claim()}),
        "PersistentVolumeClaimSpec" => claim(),
        "VolumeResourceRequirements" => json!({"requests": {"storage": "1Gi"}}),
        "CSIVolumeSource" => json!({"driver": "d.io"}),
        "CSIPersistentVolumeSource" => json!({"driver": "d.io", "volumeHandle": "h"}),
        "NFSVolumeSource" => json!({"server": "s", "path": "/a"}),
        "ISCSIVolumeSource" | "ISCSIPersistentVolumeSource" => {
            json!({"targetPortal": "1.2.3.4", "iqn": "iqn.2020-01.io.a:b", "lun": 1})
        }
        "FCVolumeSource" => json!({"wwids": ["a"]}),
        "AWSElasticBlockStoreVolumeSource"
        | "CinderVolumeSource"
        | "CinderPersistentVolumeSource"
        | "PortworxVolumeSource" => json!({"volumeID": "a"}),
        "AzureDiskVolumeSource" => json!({"diskName": "a", "diskURI": "https://a"}),
        "AzureFileVolumeSource" | "AzureFilePersistentVolumeSource" => {
            json!({"secretName": "a", "shareName": "b"})
        }
        "CephFSVolumeSource" | "CephFSPersistentVolumeSource" => json!({"monitors": ["a"]}),
        "FlexVolumeSource" | "FlexPersistentVolumeSource" => json!({"driver": "a/b"}),
        "FlockerVolumeSource" => json!({"datasetName": "a"}),
        "GCEPersistentDiskVolumeSource" => json!({"pdName": "a"}),
        "GitRepoVolumeSource" => json!({"repository": "a"}),
        "GlusterfsVolumeSource" | "GlusterfsPersistentVolumeSource" => json!({"endpoints": "a", "path": "b"}),
        "ImageVolumeSource" => json!({"reference": "i"}),
        "PhotonPersistentDiskVolumeSource" => json!({"pdID": "a"}),
        "QuobyteVolumeSource" => json!({"registry": "a:1", "volume": "b"}),
        "RBDVolumeSource" | "RBDPersistentVolumeSource" => json!({"monitors": ["a"], "image": "b"}),
        "ScaleIOVolumeSource" | "ScaleIOPersistentVolumeSource" => {
            json!({"gateway": "a", "system": "b", "secretRef": {"name": "s"}, "volumeName": "c"})
        }
        "StorageOSVolumeSource" | "StorageOSPersistentVolumeSource" => json!({"volumeName": "a"}),
        "VsphereVirtualDiskVolumeSource" => json!({"volumePath": "a"}),
        "SecretReference" => json!({"name": "s", "namespace": "n"}),
        "LocalObjectReference" => json!({"name": "s"}),
        "TypedLocalObjectReference" | "TypedObjectReference" => {
            json!({"kind": "PersistentVolumeClaim", "name": "q"})
        }
        "NodeSelector" => {
            json!({"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]})
        }
        "VolumeNodeAffinity" => {
            json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]}})
        }
        "NodeSelectorRequirement" | "LabelSelectorRequirement" => json!({"key": "a", "operator": "Exists"}),
        "PreferredSchedulingTerm" => json!({"weight": 1, "preference": {}}),
        "PodAffinityTerm" => json!({"topologyKey": "a", "labelSelector": {}}),
        "WeightedPodAffinityTerm" => {
            json!({"weight": 1, "podAffinityTerm": {"topologyKey": "a", "labelSelector": {}}})
        }
        "TopologySpreadConstraint" => {
            json!({"maxSkew": 1, "topologyKey": format!("k{n}"), "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}})
        }
        "Toleration" => json!({"operator": "Exists"}),
        "PodReadinessGate" => json!({"conditionType": "a"}),
        "PodSchedulingGate" => json!({"name": format!("g{n}")}),
        "HostAlias" => json!({"ip": "1.2.3.4"}),
        "PodDNSConfigOption" => json!({"name": "a"}),
        "Sysctl" => json!({"name": format!("kernel.a{n}"), "value": "1"}),
        "SeccompProfile" | "AppArmorProfile" => json!({"type": "RuntimeDefault"}),
        "PodOS" => json!({"name": "linux"}),
        "PodResourceClaim" => json!({"name": format!("r{n}"), "resourceClaimName": "a"}),
        "PodSchedulingGroup" => json!({"podGroupName": "a"}),
        "ContainerResizePolicy" => json!({"resourceName": "cpu", "restartPolicy": "NotRequired"}),
        "ContainerRestartRule" => {
            json!({"action": "Restart", "exitCodes": {"operator": "In", "values": [1]}})
        }
        "ContainerRestartRuleOnExitCodes" => json!({"operator": "In"}),
        "OwnerReference" => json!({"apiVersion": "v1", "kind": "Pod", "name": "o", "uid": "u"}),
        "PodFailurePolicyRule" => {
            json!({"action": "Ignore", "onExitCodes": {"operator": "In", "values": [1]}})
        }
        "PodFailurePolicyOnExitCodesRequirement" => json!({"operator": "In", "values": [1]}),
        "PodFailurePolicyOnPodConditionsPattern" => json!({"type": "a", "status": "True"}),
        "StatefulSetPersistentVolumeClaimRetentionPolicy" => {
            json!({"whenDeleted": "Retain", "whenScaled": "Retain"})
        }
        "a list" => json!([]),
        _ => json!({}),
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
        (_, "operator") => list("In NotIn Exists DoesNotExist Gt Lt"),
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
        (_, "fieldPath") => {
            list("metadata.name metadata.uid metadata.labels['a'] metadata.annotations['B/c']")
        }
        ("ResourceFieldSelector", "resource") => list("limits.cpu requests.memory limits.hugepages-2Mi"),
        (_, "divisor") => list("1 1m 1Mi 0"),
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
        (_, "mode" | "defaultMode") => whole(&[0, 0o644, 0o777]),
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

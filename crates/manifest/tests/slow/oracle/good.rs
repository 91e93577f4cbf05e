//! What makes a valid object: the least that each type needs.

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
        "Volume" => json!({"name": format!("v{n}"), "emptyDir": {}}),
        "EnvVarSource" => json!({"fieldRef": {"fieldPath": "metadata.name"}}),
        "EnvFromSource" => json!({"secretRef": {"name": "s"}}),
        "VolumeProjection" => json!({"secret": {"name": "s"}}),
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

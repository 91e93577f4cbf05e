use conflicts::{
    ChangePolicy, Life, Mount, Node, Placement, Pod, PodKey, PodVolume, PodVolumeSource, VolumeId,
};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{
    AWSElasticBlockStoreVolumeSource, AzureDiskVolumeSource, AzureFileVolumeSource, CinderVolumeSource,
    GCEPersistentDiskVolumeSource, PortworxVolumeSource, Volume, VsphereVirtualDiskVolumeSource,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use manifest::CsiVolume;
use selinux::{SelinuxOptions, effective};
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::meta::{name, namespace, resource, slim};

/// A Pod.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct PodObject {
    #[serde(deserialize_with = "slim")]
    pub(crate) metadata: ObjectMeta,
    #[serde(default)]
    pub(crate) spec: PodSpec,
    #[serde(default)]
    status: PodStatus,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PodSpec {
    node_name: Option<String>,
    host_users: Option<bool>,
    pub(crate) security_context: Option<PodSecurity>,
    init_containers: Option<Vec<Container>>,
    containers: Option<Vec<Container>>,
    ephemeral_containers: Option<Vec<Container>>,
    volumes: Option<Vec<VolumeObject>>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct PodStatus {
    phase: Option<String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PodSecurity {
    pub(crate) se_linux_options: Option<LabelOptions>,
    pub(crate) se_linux_change_policy: Option<String>,
}

/// `seLinuxOptions`. A field that is new in the API must not end a watch.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct LabelOptions {
    pub(crate) user: Option<String>,
    pub(crate) role: Option<String>,
    #[serde(rename = "type")]
    pub(crate) kind: Option<String>,
    pub(crate) level: Option<String>,
}

impl From<&LabelOptions> for SelinuxOptions {
    fn from(options: &LabelOptions) -> Self {
        let LabelOptions { user, role, kind, level } = options.clone();
        Self { user, role, kind, level }
    }
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Container {
    pub(crate) name: String,
    security_context: Option<ContainerSecurity>,
    volume_mounts: Option<Vec<VolumeMount>>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ContainerSecurity {
    privileged: Option<bool>,
    se_linux_options: Option<LabelOptions>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct VolumeMount {
    pub(crate) name: String,
    sub_path: Option<String>,
    sub_path_expr: Option<String>,
    read_only: Option<bool>,
}

/// A volume of a pod: a claim, or of a plugin that Kubernetes hands to a CSI driver. No other kind is mounted with a label,
/// or shared.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct VolumeObject {
    name: String,
    persistent_volume_claim: Option<ClaimSource>,
    ephemeral: Option<IgnoredAny>,
    aws_elastic_block_store: Option<Box<AWSElasticBlockStoreVolumeSource>>,
    azure_disk: Option<Box<AzureDiskVolumeSource>>,
    azure_file: Option<Box<AzureFileVolumeSource>>,
    cinder: Option<Box<CinderVolumeSource>>,
    gce_persistent_disk: Option<Box<GCEPersistentDiskVolumeSource>>,
    portworx_volume: Option<Box<PortworxVolumeSource>>,
    vsphere_volume: Option<Box<VsphereVirtualDiskVolumeSource>>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ClaimSource {
    claim_name: String,
}

resource!(PodObject, NamespaceResourceScope, "", "Pod", "pods");

impl PodObject {
    pub(crate) fn key(&self) -> PodKey {
        PodKey::new(namespace(&self.metadata), name(&self.metadata))
    }

    /// Whether it has ended and will not come back.
    pub(crate) fn is_finished(&self) -> bool {
        matches!(self.status.phase.as_deref(), Some("Succeeded" | "Failed"))
    }

    /// Whether it asks for a user namespace of its own.
    pub(crate) fn is_isolated(&self) -> bool {
        self.spec.host_users == Some(false)
    }

    /// Its containers of every kind.
    pub(crate) fn containers(&self) -> impl Iterator<Item = &Container> {
        let PodSpec { init_containers, containers, ephemeral_containers, .. } = &self.spec;
        [init_containers, containers, ephemeral_containers].into_iter().flatten().flatten()
    }

    /// Its volumes that are claims, with the claims.
    pub(crate) fn claims(&self) -> impl Iterator<Item = (&str, String)> {
        let volumes = self.spec.volumes.iter().flatten();
        volumes.filter_map(|volume| Some((volume.name.as_str(), volume.claim(name(&self.metadata))?)))
    }

    /// The pod as the conflict engine takes it; `None` if no container of it mounts a volume that may be mounted with a
    /// label.
    pub(crate) fn pod(&self) -> Option<Pod> {
        let volumes: Vec<PodVolume> =
            self.spec.volumes.iter().flatten().filter_map(|volume| self.volume(volume)).collect();
        if volumes.is_empty() {
            return None;
        }
        let policy = self.spec.security_context.as_ref().and_then(|of| of.se_linux_change_policy.as_deref());
        let node = self.spec.node_name.clone().filter(|name| !name.is_empty());
        Some(Pod {
            uid: self.metadata.uid.clone(),
            life: if self.is_finished() { Life::Finished } else { Life::Alive },
            change_policy: policy.and_then(ChangePolicy::from_name),
            volumes,
            // Whether a scheduler has chosen the node is not known from the pod.
            placement: Placement { node: node.map_or(Node::Unbound, Node::Pinned), ..Placement::default() },
            ..Pod::new(self.key())
        })
    }

    fn volume(&self, volume: &VolumeObject) -> Option<PodVolume> {
        let source = match volume.claim(name(&self.metadata)) {
            Some(claim) => PodVolumeSource::Claim(claim),
            None => {
                let CsiVolume { driver, handle, access_modes, .. } =
                    volume.migrated(namespace(&self.metadata))?;
                let id = VolumeId::csi(driver, &handle);
                PodVolumeSource::Migrated { id, driver: driver.to_owned(), access_modes }
            }
        };
        let mounts = self.mounts(&volume.name);
        (!mounts.is_empty()).then(|| PodVolume { name: volume.name.clone(), source, mounts })
    }

    fn mounts(&self, volume: &str) -> Vec<Mount> {
        let own = self.spec.security_context.as_ref().and_then(|of| of.se_linux_options.as_ref());
        let own = own.map(SelinuxOptions::from);
        let all = self.containers().flat_map(|container| container.mounts().map(move |one| (container, one)));
        let of_volume = all.filter(|(_, mount)| mount.name == volume);
        let mount = |(container, mount): (&Container, &VolumeMount)| {
            let options = container.options().map(SelinuxOptions::from);
            Mount {
                options: effective(own.as_ref(), options.as_ref()).cloned(),
                privileged: container.is_privileged(),
                sub_path: mount.is_part(),
                read_only: mount.read_only == Some(true),
            }
        };
        of_volume.map(mount).collect()
    }
}

impl Container {
    pub(crate) fn is_privileged(&self) -> bool {
        self.security_context.as_ref().and_then(|of| of.privileged) == Some(true)
    }

    /// Its own SELinux options.
    pub(crate) fn options(&self) -> Option<&LabelOptions> {
        self.security_context.as_ref()?.se_linux_options.as_ref()
    }

    pub(crate) fn mounts(&self) -> impl Iterator<Item = &VolumeMount> {
        self.volume_mounts.iter().flatten()
    }
}

impl VolumeMount {
    /// Whether a part of the volume is mounted only.
    fn is_part(&self) -> bool {
        [&self.sub_path, &self.sub_path_expr].into_iter().flatten().any(|path| !path.is_empty())
    }
}

impl VolumeObject {
    /// The claim of a pod of this name. The claim of a generic ephemeral volume has the pod's name and the volume's.
    fn claim(&self, pod: &str) -> Option<String> {
        match &self.persistent_volume_claim {
            Some(claim) => Some(claim.claim_name.clone()),
            None => self.ephemeral.map(|_| format!("{pod}-{}", self.name)),
        }
    }

    /// A volume of a plugin that was built in, as its CSI driver has it.
    fn migrated(&self, namespace: &str) -> Option<CsiVolume> {
        let volume = Volume {
            name: self.name.clone(),
            aws_elastic_block_store: self.aws_elastic_block_store.as_deref().cloned(),
            azure_disk: self.azure_disk.as_deref().cloned(),
            azure_file: self.azure_file.as_deref().cloned(),
            cinder: self.cinder.as_deref().cloned(),
            gce_persistent_disk: self.gce_persistent_disk.as_deref().cloned(),
            portworx_volume: self.portworx_volume.as_deref().cloned(),
            vsphere_volume: self.vsphere_volume.as_deref().cloned(),
            ..Volume::default()
        };
        manifest::migrated_inline(&volume, namespace)
    }
}

#[cfg(test)]
mod tests {
    use conflicts::AccessMode;
    use serde_json::json;

    use super::*;

    fn read(spec: serde_json::Value) -> PodObject {
        let metadata = json!({"name": "web", "namespace": "shop", "uid": "u-1", "resourceVersion": "7",
            "labels": {"app": "web"}, "managedFields": [{"manager": "kubectl"}]});
        let mut pod = json!({"metadata": metadata, "status": {"phase": "Running", "podIP": "10.0.0.1"}});
        pod["spec"] = spec;
        serde_json::from_value(pod).unwrap()
    }

    #[test]
    fn only_what_is_needed_of_a_pod_is_kept() {
        let pod =
            read(json!({"nodeName": "n1", "hostUsers": false, "containers": [{"name": "c", "image": "i"}]}));
        assert_eq!(pod.key(), PodKey::new("shop", "web"));
        assert_eq!(pod.metadata.resource_version.as_deref(), Some("7"));
        assert!(pod.metadata.labels.is_none() && pod.metadata.managed_fields.is_none());
        assert!(pod.is_isolated() && !pod.is_finished());
        assert_eq!(pod.pod(), None, "it shares no volume");
        let bare: PodObject = serde_json::from_value(json!({"metadata": {"name": "a"}})).unwrap();
        assert_eq!(bare.pod(), None);
    }

    #[test]
    fn the_options_that_hold_for_each_mount_are_those_of_its_container_or_the_pods() {
        let mount = json!([{"name": "data", "mountPath": "/data", "subPath": "x", "readOnly": true}]);
        let pod = read(json!({
            "nodeName": "n1",
            "securityContext": {"seLinuxOptions": {"level": "s0:c1,c2", "new": 1}, "seLinuxChangePolicy": "Recursive"},
            "initContainers": [{"name": "i", "volumeMounts": mount,
                "securityContext": {"seLinuxOptions": {"type": "spc_t"}}}],
            "containers": [{"name": "c", "volumeMounts": mount, "securityContext": {"privileged": true}},
                {"name": "d", "volumeMounts": [{"name": "scratch", "mountPath": "/s"}]}],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "claim"}},
                {"name": "scratch", "emptyDir": {}}, {"name": "unused", "persistentVolumeClaim": {"claimName": "b"}}],
        }));
        let found = pod.pod().unwrap();
        assert_eq!((found.uid.as_deref(), found.change_policy), (Some("u-1"), Some(ChangePolicy::Recursive)));
        assert_eq!(found.placement.node, Node::Pinned("n1".to_owned()));
        assert_eq!(found.volumes.len(), 1);
        assert_eq!(found.volumes[0].source, PodVolumeSource::Claim("claim".to_owned()));
        let [first, second] = &found.volumes[0].mounts[..] else { panic!("{found:?}") };
        let kind = SelinuxOptions { kind: Some("spc_t".to_owned()), ..SelinuxOptions::default() };
        assert_eq!((first.options.as_ref(), first.privileged), (Some(&kind), false));
        let level = SelinuxOptions { level: Some("s0:c1,c2".to_owned()), ..SelinuxOptions::default() };
        assert_eq!((second.options.as_ref(), second.privileged), (Some(&level), true));
        assert!(first.sub_path && first.read_only);
        let claims: Vec<_> = pod.claims().map(|(volume, claim)| format!("{volume}={claim}")).collect();
        assert_eq!(claims, ["data=claim", "unused=b"]);
    }

    #[test]
    fn ephemeral_claims_and_disks_of_the_pod_itself_are_shared_volumes() {
        let pod = read(json!({
            "containers": [{"name": "c", "volumeMounts": [{"name": "own", "mountPath": "/a"},
                {"name": "disk", "mountPath": "/b"}]}],
            "volumes": [{"name": "own", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
                {"name": "disk", "awsElasticBlockStore": {"volumeID": "aws://zone/vol-1"}}],
        }));
        let sources: Vec<_> = pod.pod().unwrap().volumes.into_iter().map(|volume| volume.source).collect();
        let id = VolumeId::csi("ebs.csi.aws.com", "vol-1");
        let access_modes = vec![AccessMode::ReadWriteOnce];
        let disk = PodVolumeSource::Migrated { id, driver: "ebs.csi.aws.com".to_owned(), access_modes };
        assert_eq!(sources, [PodVolumeSource::Claim("web-own".to_owned()), disk]);
    }
}

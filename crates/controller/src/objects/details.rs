//! What only the series of objects need: kept if they are asked for.

use std::collections::BTreeSet;

use conflicts::VolumeId;
use k8s_openapi::api::core::v1::{FCVolumeSource, PersistentVolume, PersistentVolumeSpec};

use super::{ClaimObject, LabelOptions, PodObject};

/// User, role, type and level; each empty if it is not named.
pub(crate) type Parts = [String; 4];

/// Of a pod that claims volumes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PodDetails {
    pub(crate) uid: String,
    pub(crate) options: Parts,
    pub(crate) policy: String,
    pub(crate) containers: Vec<ContainerDetails>,
    /// Names of volumes with their claims.
    pub(crate) claims: Vec<(String, String)>,
}

/// Of a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ContainerDetails {
    pub(crate) name: String,
    pub(crate) privileged: bool,
    pub(crate) options: Parts,
    /// The volumes that it mounts.
    pub(crate) volumes: BTreeSet<String>,
}

/// Of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ClaimDetails {
    pub(crate) storage_class: String,
    pub(crate) volume_mode: String,
    pub(crate) volume: String,
}

/// Of a persistent volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct VolumeDetails {
    /// What the conflict engine knows it by.
    pub(crate) id: VolumeId,
    pub(crate) storage_class: String,
    /// Labels of its source that are not empty, with their names in `kube_persistentvolume_info`.
    pub(crate) source: Vec<(&'static str, String)>,
}

fn parts(options: Option<&LabelOptions>) -> Parts {
    let Some(LabelOptions { user, role, kind, level }) = options else { return Parts::default() };
    [user, role, kind, level].map(|part| part.clone().unwrap_or_default())
}

impl PodDetails {
    /// `None` for a pod that claims no volume.
    pub(crate) fn of(pod: &PodObject) -> Option<Self> {
        let claims: Vec<_> = pod.claims().map(|(volume, claim)| (volume.to_owned(), claim)).collect();
        if claims.is_empty() {
            return None;
        }
        let security = pod.spec.security_context.as_ref();
        let containers = pod.containers().map(|container| ContainerDetails {
            name: container.name.clone(),
            privileged: container.is_privileged(),
            options: parts(container.options()),
            volumes: container.mounts().map(|mount| mount.name.clone()).collect(),
        });
        Some(Self {
            uid: pod.metadata.uid.clone().unwrap_or_default(),
            options: parts(security.and_then(|of| of.se_linux_options.as_ref())),
            policy: security.and_then(|of| of.se_linux_change_policy.clone()).unwrap_or_default(),
            containers: containers.collect(),
            claims,
        })
    }
}

impl ClaimDetails {
    pub(crate) fn of(claim: &ClaimObject) -> Self {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        Self {
            storage_class: text(&claim.spec.storage_class_name),
            volume_mode: text(&claim.spec.volume_mode),
            volume: text(&claim.spec.volume_name),
        }
    }
}

impl VolumeDetails {
    pub(crate) fn of(volume: &PersistentVolume, id: VolumeId) -> Self {
        let spec = volume.spec.as_ref();
        let storage_class = spec.and_then(|spec| spec.storage_class_name.clone()).unwrap_or_default();
        let mut source = spec.map(source).unwrap_or_default();
        source.retain(|(_, value)| !value.is_empty());
        Self { id, storage_class, source }
    }
}

/// The labels of a volume's source, as kube-state-metrics has them.
fn source(spec: &PersistentVolumeSpec) -> Vec<(&'static str, String)> {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    if let Some(csi) = &spec.csi {
        return vec![("csi_driver", csi.driver.clone()), ("csi_volume_handle", csi.volume_handle.clone())];
    }
    if let Some(disk) = &spec.gce_persistent_disk {
        return vec![("gce_persistent_disk_name", disk.pd_name.clone())];
    }
    if let Some(disk) = &spec.aws_elastic_block_store {
        return vec![("ebs_volume_id", disk.volume_id.clone())];
    }
    if let Some(disk) = &spec.azure_disk {
        return vec![("azure_disk_name", disk.disk_name.clone())];
    }
    if let Some(fc) = &spec.fc {
        return fibre_channel(fc);
    }
    if let Some(iscsi) = &spec.iscsi {
        return vec![
            ("iscsi_target_portal", iscsi.target_portal.clone()),
            ("iscsi_iqn", iscsi.iqn.clone()),
            ("iscsi_lun", iscsi.lun.to_string()),
            ("iscsi_initiator_name", text(&iscsi.initiator_name)),
        ];
    }
    if let Some(nfs) = &spec.nfs {
        return vec![("nfs_server", nfs.server.clone()), ("nfs_path", nfs.path.clone())];
    }
    if let Some(local) = &spec.local {
        return vec![("local_path", local.path.clone()), ("local_fs", text(&local.fs_type))];
    }
    if let Some(host) = &spec.host_path {
        return vec![("host_path", host.path.clone()), ("host_path_type", text(&host.type_))];
    }
    Vec::new()
}

fn fibre_channel(fc: &FCVolumeSource) -> Vec<(&'static str, String)> {
    let joined = |list: &Option<Vec<String>>| list.as_ref().map(|list| list.join(",")).unwrap_or_default();
    vec![
        ("fc_wwids", joined(&fc.wwids)),
        ("fc_lun", fc.lun.map(|lun| lun.to_string()).unwrap_or_default()),
        ("fc_target_wwns", joined(&fc.target_wwns)),
    ]
}

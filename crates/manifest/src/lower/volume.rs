use k8s_openapi::api::core::v1::{
    PersistentVolume as ClusterVolume, PersistentVolumeSpec, Volume as PodVolume,
};
use plan::{InTreeVolume, Medium, PersistentSource, PersistentVolume, Volume, VolumeSource};

use types::AccessMode;

use super::Cluster;
use crate::migration::{CsiVolume, migrated_inline, migrated_volume};
use crate::object::PodRef;
use crate::validate::volume_kinds;

pub(super) fn all(pod: &PodRef<'_>, cluster: &Cluster<'_>, root: &str) -> Vec<Volume> {
    let claimed: Vec<&str> = pod.claim_templates().collect();
    // A claim template takes the place of a volume of its name.
    let own = pod.spec.volumes.iter().flatten().enumerate();
    let own = own.filter(|(_, volume)| !claimed.contains(&volume.name.as_str()));
    let own = own.map(|(index, volume)| Volume {
        name: volume.name.clone(),
        field: format!("{root}volumes[{index}]"),
        source: source(volume, pod, cluster),
    });
    let made = claimed.iter().enumerate().map(|(index, name)| Volume {
        name: (*name).to_owned(),
        field: format!("spec.volumeClaimTemplates[{index}]"),
        source: VolumeSource::Claim { name: format!("{name}-{}", pod.object.name()) },
    });
    own.chain(made).collect()
}

fn source(volume: &PodVolume, pod: &PodRef<'_>, cluster: &Cluster<'_>) -> VolumeSource {
    if let Some(claim) = volume.persistent_volume_claim.as_ref() {
        return claimed(&claim.claim_name, pod, cluster);
    }
    if volume.ephemeral.is_some() {
        return claimed(&format!("{}-{}", pod.object.name(), volume.name), pod, cluster);
    }
    if let Some(csi) = volume.csi.as_ref() {
        return VolumeSource::CsiInline { driver: csi.driver.clone() };
    }
    if let Some(host) = volume.host_path.as_ref() {
        return VolumeSource::HostPath { path: host.path.clone() };
    }
    if let Some(dir) = volume.empty_dir.as_ref() {
        return VolumeSource::EmptyDir(medium(dir.medium.as_deref().unwrap_or_default()));
    }
    match volume_kinds(volume).find(|(_, is_set)| *is_set).map_or("", |(kind, _)| kind) {
        "configMap" => VolumeSource::ConfigMap,
        "secret" => VolumeSource::Secret,
        "downwardAPI" => VolumeSource::DownwardApi,
        "projected" => VolumeSource::Projected,
        "image" => VolumeSource::Image,
        "nfs" => VolumeSource::Nfs,
        "iscsi" => VolumeSource::Iscsi,
        "fc" => VolumeSource::FibreChannel,
        kind => in_tree(kind, volume, pod, cluster),
    }
}

/// A plugin that Kubernetes had built in. Most have become CSI drivers.
fn in_tree(kind: &str, volume: &PodVolume, pod: &PodRef<'_>, cluster: &Cluster<'_>) -> VolumeSource {
    let Some(csi) = migrated_inline(volume, pod.object.namespace()) else {
        return VolumeSource::Other(kind.to_owned());
    };
    VolumeSource::InTree(InTreeVolume {
        kind: kind.to_owned(),
        handle: csi.handle.clone(),
        volume: csi_volume(String::new(), csi, cluster),
    })
}

fn csi_volume(name: String, csi: CsiVolume, cluster: &Cluster<'_>) -> PersistentVolume {
    let selinux_mount = cluster.selinux_mount(csi.driver);
    PersistentVolume {
        name,
        access_modes: csi.access_modes,
        source: PersistentSource::Csi { driver: csi.driver.to_owned(), selinux_mount },
        fs_type: csi.fs_type.filter(|t| !t.is_empty()),
    }
}

fn medium(medium: &str) -> Medium {
    match medium {
        "Memory" => Medium::Memory,
        huge if huge.starts_with("HugePages") => Medium::HugePages,
        _ => Medium::Disk,
    }
}

fn claimed(claim: &str, pod: &PodRef<'_>, cluster: &Cluster<'_>) -> VolumeSource {
    let volume = cluster.volume_of(pod.object.namespace(), claim);
    match volume.and_then(|v| v.spec.as_ref().map(|spec| persistent(v, spec, cluster))) {
        Some(volume) => VolumeSource::Persistent(volume),
        None => VolumeSource::Claim { name: claim.to_owned() },
    }
}

/// A persistent volume as the planner knows it, but for what its driver's object says.
#[must_use]
pub fn lower_volume(volume: &ClusterVolume) -> Option<PersistentVolume> {
    volume.spec.as_ref().map(|spec| persistent(volume, spec, &Cluster::default()))
}

fn persistent(
    volume: &ClusterVolume,
    spec: &PersistentVolumeSpec,
    cluster: &Cluster<'_>,
) -> PersistentVolume {
    let name = volume.metadata.name.clone().unwrap_or_default();
    if let Some(csi) = migrated_volume(volume) {
        return csi_volume(name, csi, cluster);
    }
    let (source, fs_type) = persistent_source(spec, cluster);
    PersistentVolume {
        name,
        access_modes: spec
            .access_modes
            .iter()
            .flatten()
            .filter_map(|mode| AccessMode::from_name(mode))
            .collect(),
        source,
        fs_type: fs_type.filter(|t| !t.is_empty()),
    }
}

fn persistent_source(
    spec: &PersistentVolumeSpec,
    cluster: &Cluster<'_>,
) -> (PersistentSource, Option<String>) {
    if let Some(csi) = spec.csi.as_ref() {
        let selinux_mount = cluster.selinux_mount(&csi.driver);
        return (PersistentSource::Csi { driver: csi.driver.clone(), selinux_mount }, csi.fs_type.clone());
    }
    if let Some(iscsi) = spec.iscsi.as_ref() {
        return (PersistentSource::Iscsi, iscsi.fs_type.clone());
    }
    if let Some(fc) = spec.fc.as_ref() {
        return (PersistentSource::FibreChannel, fc.fs_type.clone());
    }
    if let Some(host) = spec.host_path.as_ref() {
        return (PersistentSource::HostPath { path: host.path.clone() }, None);
    }
    if let Some(local) = spec.local.as_ref() {
        return (PersistentSource::Local { path: local.path.clone() }, local.fs_type.clone());
    }
    if spec.nfs.is_some() {
        return (PersistentSource::Nfs, None);
    }
    (PersistentSource::Other(other_kind(spec).to_owned()), None)
}

fn other_kind(s: &PersistentVolumeSpec) -> &'static str {
    let kinds = [
        ("awsElasticBlockStore", s.aws_elastic_block_store.is_some()),
        ("azureDisk", s.azure_disk.is_some()),
        ("azureFile", s.azure_file.is_some()),
        ("cephfs", s.cephfs.is_some()),
        ("cinder", s.cinder.is_some()),
        ("flexVolume", s.flex_volume.is_some()),
        ("flocker", s.flocker.is_some()),
        ("gcePersistentDisk", s.gce_persistent_disk.is_some()),
        ("glusterfs", s.glusterfs.is_some()),
        ("photonPersistentDisk", s.photon_persistent_disk.is_some()),
        ("portworxVolume", s.portworx_volume.is_some()),
        ("quobyte", s.quobyte.is_some()),
        ("rbd", s.rbd.is_some()),
        ("scaleIO", s.scale_io.is_some()),
        ("storageos", s.storageos.is_some()),
        ("vsphereVolume", s.vsphere_volume.is_some()),
    ];
    kinds.into_iter().find(|(_, is_set)| *is_set).map_or("unknown", |(kind, _)| kind)
}

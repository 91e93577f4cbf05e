use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Volume;

use super::pod::Pod;
use super::report::{Report, each, shown};
use super::{names, sources};
use crate::place::Path;

pub(super) fn volumes(report: &mut Report<'_>, path: &Path<'_>, pod: &Pod<'_>) {
    let mut seen = BTreeSet::new();
    let list = path.field("volumes");
    for (index, volume) in each(pod.spec.volumes.as_ref()) {
        let path = list.index(index);
        report.needs(&path.field("name"), &volume.name, names::dns_label);
        report.once(&path.field("name"), &volume.name, &mut seen);
        let set: Vec<(&str, bool)> = kinds(volume).collect();
        report.just_one(&path, &set);
        sources::source(report, &path, volume, pod);
        own_claim(report, &path, volume, pod);
    }
}

/// The claim that is made for a volume gets the names of both; no other volume may name it.
fn own_claim(report: &mut Report<'_>, path: &Path<'_>, volume: &Volume, pod: &Pod<'_>) {
    let Some(name) = pod.metadata.filter(|_| pod.is_pod).and_then(|m| m.name.as_ref()) else { return };
    if volume.ephemeral.is_some() && !name.is_empty() {
        let made = format!("{name}-{}", volume.name);
        if let Err(rule) = names::dns_subdomain(&made) {
            report.invalid(&path.field("name"), shown(&made), rule);
        }
    }
    let Some(claim) = volume.persistent_volume_claim.as_ref() else { return };
    let made = pod.spec.volumes.iter().flatten().filter(|other| other.ephemeral.is_some());
    if made.into_iter().any(|other| format!("{name}-{}", other.name) == claim.claim_name) {
        let path = path.field("persistentVolumeClaim");
        report.invalid(&path.field("claimName"), shown(&claim.claim_name), "is made for another volume");
    }
}

/// Every kind of volume there is, by its field, and whether this one is of it.
pub(crate) fn kinds(v: &Volume) -> impl Iterator<Item = (&'static str, bool)> {
    [
        ("awsElasticBlockStore", v.aws_elastic_block_store.is_some()),
        ("azureDisk", v.azure_disk.is_some()),
        ("azureFile", v.azure_file.is_some()),
        ("cephfs", v.cephfs.is_some()),
        ("cinder", v.cinder.is_some()),
        ("configMap", v.config_map.is_some()),
        ("csi", v.csi.is_some()),
        ("downwardAPI", v.downward_api.is_some()),
        ("emptyDir", v.empty_dir.is_some()),
        ("ephemeral", v.ephemeral.is_some()),
        ("fc", v.fc.is_some()),
        ("flexVolume", v.flex_volume.is_some()),
        ("flocker", v.flocker.is_some()),
        ("gcePersistentDisk", v.gce_persistent_disk.is_some()),
        ("gitRepo", v.git_repo.is_some()),
        ("glusterfs", v.glusterfs.is_some()),
        ("hostPath", v.host_path.is_some()),
        ("image", v.image.is_some()),
        ("iscsi", v.iscsi.is_some()),
        ("nfs", v.nfs.is_some()),
        ("persistentVolumeClaim", v.persistent_volume_claim.is_some()),
        ("photonPersistentDisk", v.photon_persistent_disk.is_some()),
        ("portworxVolume", v.portworx_volume.is_some()),
        ("projected", v.projected.is_some()),
        ("quobyte", v.quobyte.is_some()),
        ("rbd", v.rbd.is_some()),
        ("scaleIO", v.scale_io.is_some()),
        ("secret", v.secret.is_some()),
        ("storageos", v.storageos.is_some()),
        ("vsphereVolume", v.vsphere_volume.is_some()),
    ]
    .into_iter()
}

//! Volumes of plugins that Kubernetes had built in and now hands to CSI drivers: which driver, and by which handle.
//!
//! The kubelet mounts such a volume as the driver's, a persistent one even where the pod itself names it. What cannot be
//! handed over, such as an Azure disk that is not managed, is never mounted, and is no CSI volume here either.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeSpec, Volume};
use types::AccessMode;

/// A volume as its CSI driver has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CsiVolume {
    /// The driver.
    pub driver: &'static str,
    /// What the driver calls the volume.
    pub handle: String,
    /// Its filesystem, where it says so.
    pub fs_type: Option<String>,
    /// The access modes that it is mounted with.
    pub access_modes: Vec<AccessMode>,
}

const EBS: &str = "ebs.csi.aws.com";
const GCE_DISK: &str = "pd.csi.storage.gke.io";
const AZURE_DISK: &str = "disk.csi.azure.com";
const AZURE_FILE: &str = "file.csi.azure.com";
const CINDER: &str = "cinder.csi.openstack.org";
const VSPHERE: &str = "csi.vsphere.vmware.com";
const PORTWORX: &str = "pxd.portworx.com";

/// Provisioners of storage classes, and the drivers that took their place.
const PROVISIONERS: [(&str, &str); 7] = [
    ("kubernetes.io/aws-ebs", EBS),
    ("kubernetes.io/gce-pd", GCE_DISK),
    ("kubernetes.io/azure-disk", AZURE_DISK),
    ("kubernetes.io/azure-file", AZURE_FILE),
    ("kubernetes.io/cinder", CINDER),
    ("kubernetes.io/vsphere-volume", VSPHERE),
    ("kubernetes.io/portworx-volume", PORTWORX),
];

/// The driver that provisions for a class in place of a plugin that was built in.
#[must_use]
pub fn migrated_provisioner(name: &str) -> Option<&'static str> {
    PROVISIONERS.iter().find(|(plugin, _)| *plugin == name).map(|(_, driver)| *driver)
}

/// A persistent volume of such a plugin as its driver has it.
#[must_use]
pub fn migrated_volume(volume: &PersistentVolume) -> Option<CsiVolume> {
    let spec = volume.spec.as_ref()?;
    let modes = spec.access_modes.iter().flatten().filter_map(|mode| AccessMode::from_name(mode)).collect();
    let found = |driver, handle: &str, fs_type: Option<&String>| CsiVolume {
        driver,
        handle: handle.to_owned(),
        fs_type: fs_type.cloned(),
        access_modes: modes,
    };
    if let Some(ebs) = &spec.aws_elastic_block_store {
        return Some(found(EBS, ebs_volume(&ebs.volume_id)?, ebs.fs_type.as_ref()));
    }
    if let Some(disk) = &spec.gce_persistent_disk {
        let mut found =
            found(GCE_DISK, &gce_handle(&gce_place(volume)?, &disk.pd_name), disk.fs_type.as_ref());
        found.access_modes = gce_modes(&found.access_modes);
        return Some(found);
    }
    if let Some(disk) = &spec.azure_disk {
        return is_managed(disk.kind.as_deref())
            .then(|| found(AZURE_DISK, &disk.disk_uri, disk.fs_type.as_ref()));
    }
    if let Some(file) = &spec.azure_file {
        let namespace = azure_namespace(file.secret_namespace.as_ref(), spec)?;
        let annotations = volume.metadata.annotations.as_ref();
        let group = annotations.and_then(|a| a.get("kubernetes.io/azure-file-resource-group"));
        let share = AzureShare {
            group: group.map_or("", String::as_str),
            secret: &file.secret_name,
            share: &file.share_name,
            name: volume.metadata.name.as_deref().unwrap_or_default(),
            namespace,
        };
        return Some(found(AZURE_FILE, &share.handle(), None));
    }
    if let Some(cinder) = &spec.cinder {
        return Some(found(CINDER, &cinder.volume_id, cinder.fs_type.as_ref()));
    }
    if let Some(disk) = &spec.vsphere_volume {
        return Some(found(VSPHERE, &disk.volume_path, disk.fs_type.as_ref()));
    }
    let portworx = spec.portworx_volume.as_ref()?;
    Some(found(PORTWORX, &portworx.volume_id, portworx.fs_type.as_ref()))
}

/// A volume of such a plugin that a pod of this namespace names itself, as its driver has it.
#[must_use]
pub fn migrated_inline(volume: &Volume, namespace: &str) -> Option<CsiVolume> {
    let found = |driver, handle: &str, fs_type: Option<&String>, mode| CsiVolume {
        driver,
        handle: handle.to_owned(),
        fs_type: fs_type.cloned(),
        access_modes: vec![mode],
    };
    let reading = |read_only: Option<bool>| match read_only {
        Some(true) => AccessMode::ReadOnlyMany,
        _ => AccessMode::ReadWriteOnce,
    };
    let once = AccessMode::ReadWriteOnce;
    if let Some(ebs) = &volume.aws_elastic_block_store {
        return Some(found(EBS, ebs_volume(&ebs.volume_id)?, ebs.fs_type.as_ref(), once));
    }
    if let Some(disk) = &volume.gce_persistent_disk {
        let handle = gce_handle(&Place::Unknown, &disk.pd_name);
        return Some(found(GCE_DISK, &handle, disk.fs_type.as_ref(), reading(disk.read_only)));
    }
    if let Some(disk) = &volume.azure_disk {
        let managed = is_managed(disk.kind.as_deref());
        return managed.then(|| found(AZURE_DISK, &disk.disk_uri, disk.fs_type.as_ref(), once));
    }
    if let Some(file) = &volume.azure_file {
        let (secret, share) = (file.secret_name.as_str(), file.share_name.as_str());
        let share = AzureShare { group: "", secret, share, name: &volume.name, namespace };
        return Some(found(AZURE_FILE, &share.handle(), None, AccessMode::ReadWriteMany));
    }
    if let Some(cinder) = &volume.cinder {
        return Some(found(CINDER, &cinder.volume_id, cinder.fs_type.as_ref(), once));
    }
    if let Some(disk) = &volume.vsphere_volume {
        return Some(found(VSPHERE, &disk.volume_path, disk.fs_type.as_ref(), once));
    }
    let portworx = volume.portworx_volume.as_ref()?;
    Some(found(PORTWORX, &portworx.volume_id, portworx.fs_type.as_ref(), reading(portworx.read_only)))
}

/// The volume's own ID of `aws://ZONE/ID`; one without a scheme is taken as it is.
fn ebs_volume(id: &str) -> Option<&str> {
    let Some(rest) = id.strip_prefix("aws://") else { return Some(id) };
    let (_, path) = rest.split_once('/')?;
    let volume = path.trim_matches('/');
    (volume.starts_with("vol-") && !volume.contains('/')).then_some(volume)
}

/// Where a disk of GCE is, as far as its object says.
enum Place {
    Unknown,
    Zone(String),
    Region(String),
}

/// A disk in several zones is a regional one. `None` if they are not zones of one region.
fn gce_place(volume: &PersistentVolume) -> Option<Place> {
    let label = |key| volume.metadata.labels.as_ref()?.get(key).filter(|value| !value.is_empty());
    let zones =
        label("failure-domain.beta.kubernetes.io/zone").or_else(|| label("topology.kubernetes.io/zone"));
    let Some(zones) = zones else { return Some(Place::Unknown) };
    let zones: Vec<&str> = zones.split("__").collect();
    if let [zone] = zones.as_slice() {
        return Some(Place::Zone((*zone).to_owned()));
    }
    let region = |zone: &&str| match zone.split('-').collect::<Vec<_>>().as_slice() {
        [locale, region, _] => Some(format!("{locale}-{region}")),
        _ => None,
    };
    let regions: Vec<String> = zones.iter().map(region).collect::<Option<_>>()?;
    let first = regions.first()?;
    regions.iter().all(|region| region == first).then(|| Place::Region(first.clone()))
}

/// The project is never known here, and the driver writes it so.
fn gce_handle(place: &Place, disk: &str) -> String {
    match place {
        Place::Unknown => format!("projects/UNSPECIFIED/zones/UNSPECIFIED/disks/{disk}"),
        Place::Zone(zone) => format!("projects/UNSPECIFIED/zones/{zone}/disks/{disk}"),
        Place::Region(region) => format!("projects/UNSPECIFIED/regions/{region}/disks/{disk}"),
    }
}

/// The plugin took ReadWriteMany for ReadWriteOnce, and so does the driver with its volumes.
fn gce_modes(modes: &[AccessMode]) -> Vec<AccessMode> {
    match modes {
        [] => Vec::new(),
        modes if modes.contains(&AccessMode::ReadOnlyMany) && !modes.iter().any(is_writing) => {
            vec![AccessMode::ReadOnlyMany]
        }
        _ => vec![AccessMode::ReadWriteOnce],
    }
}

fn is_writing(mode: &AccessMode) -> bool {
    matches!(mode, AccessMode::ReadWriteOnce | AccessMode::ReadWriteMany)
}

/// A disk that does not say what it is, is managed.
fn is_managed(kind: Option<&str>) -> bool {
    kind.is_none_or(|kind| kind.eq_ignore_ascii_case("Managed"))
}

/// The namespace of the share's secret: its own, or the claim's.
fn azure_namespace<'a>(own: Option<&'a String>, spec: &'a PersistentVolumeSpec) -> Option<&'a str> {
    let claim = || spec.claim_ref.as_ref()?.namespace.as_ref();
    own.or_else(claim).map(String::as_str).filter(|namespace| !namespace.is_empty())
}

struct AzureShare<'a> {
    group: &'a str,
    secret: &'a str,
    share: &'a str,
    /// The object's name, or the volume's in its pod.
    name: &'a str,
    namespace: &'a str,
}

impl AzureShare<'_> {
    fn handle(&self) -> String {
        let account = account(self.secret).unwrap_or(self.secret);
        format!("{}#{account}#{}#{}#{}", self.group, self.share, self.name, self.namespace)
    }
}

/// The storage account that the usual name of a secret has in it.
fn account(secret: &str) -> Option<&str> {
    let (_, rest) = secret.split_once("azure-storage-account-")?;
    let (account, _) = rest.rsplit_once("-secret")?;
    Some(account).filter(|account| !account.is_empty())
}

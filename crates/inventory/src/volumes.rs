use conflicts::{AccessMode, ClaimKey, ClaimReference, PersistentVolume, VolumeId, VolumeSource};
use manifest::CsiVolume;
use manifest::k8s_openapi::api::core::v1::{
    PersistentVolume as ClusterVolume, PersistentVolumeClaim, PersistentVolumeSpec,
};

/// What is kept of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    pub(crate) uid: Option<String>,
    /// The volume that it is bound to.
    pub(crate) volume: Option<String>,
    pub(crate) storage_class: Option<String>,
    pub(crate) access_modes: Vec<AccessMode>,
}

/// What is kept of a persistent volume.
#[derive(Debug, Clone)]
pub(crate) struct StoredVolume {
    /// For the engine.
    pub(crate) engine: PersistentVolume,
    /// For the planner.
    pub(crate) plan: plan::PersistentVolume,
}

impl Claim {
    pub(crate) fn of(claim: &PersistentVolumeClaim) -> Self {
        let spec = claim.spec.clone().unwrap_or_default();
        let modes = spec.access_modes.unwrap_or_default();
        Self {
            uid: claim.metadata.uid.clone(),
            volume: spec.volume_name.filter(|name| !name.is_empty()),
            storage_class: spec.storage_class_name,
            access_modes: modes.iter().filter_map(|mode| AccessMode::from_name(mode)).collect(),
        }
    }
}

impl StoredVolume {
    pub(crate) fn of(volume: &ClusterVolume) -> Option<Self> {
        let spec = volume.spec.as_ref()?;
        let name = volume.metadata.name.clone().unwrap_or_default();
        let (id, source) = match manifest::migrated_volume(volume) {
            Some(CsiVolume { driver, handle, .. }) => {
                (VolumeId::csi(driver, &handle), VolumeSource::Csi { driver: driver.to_owned() })
            }
            None => identity(spec, &name),
        };
        let plan = manifest::lower_volume(volume)?;
        let access_modes = plan.access_modes.clone();
        let engine = PersistentVolume { id, source, access_modes, claim: claim_reference(spec), name };
        Some(Self { engine, plan })
    }
}

/// A persistent volume as the conflict engine takes it: one of a plugin that Kubernetes had built in as its driver's.
#[must_use]
pub fn engine_volume(volume: &ClusterVolume) -> Option<PersistentVolume> {
    StoredVolume::of(volume).map(|stored| stored.engine)
}

fn claim_reference(spec: &PersistentVolumeSpec) -> Option<ClaimReference> {
    let claim = spec.claim_ref.as_ref()?;
    let namespace = claim.namespace.clone().unwrap_or_else(|| "default".to_owned());
    let key = ClaimKey::new(namespace, claim.name.clone()?);
    Some(ClaimReference { key, uid: claim.uid.clone() })
}

/// What the volume is in its storage. Only where two objects can mean one volume that is mounted with
/// a context does it matter; others go by their object's name.
fn identity(spec: &PersistentVolumeSpec, name: &str) -> (VolumeId, VolumeSource) {
    if let Some(csi) = spec.csi.as_ref() {
        let source = VolumeSource::Csi { driver: csi.driver.clone() };
        return (VolumeId::csi(&csi.driver, &csi.volume_handle), source);
    }
    if let Some(iscsi) = spec.iscsi.as_ref() {
        let target = format!("{}:{}:{}", iscsi.target_portal, iscsi.iqn, iscsi.lun);
        return (VolumeId::new("kubernetes.io/iscsi", &target), VolumeSource::Iscsi);
    }
    if let Some(fc) = spec.fc.as_ref() {
        let names = fc.target_wwns.iter().chain(&fc.wwids).flatten().cloned().collect::<Vec<_>>();
        let target = format!("{}:{}", names.join(","), fc.lun.unwrap_or_default());
        return (VolumeId::new("kubernetes.io/fc", &target), VolumeSource::FibreChannel);
    }
    (VolumeId::new("persistentVolume", name), VolumeSource::Other)
}

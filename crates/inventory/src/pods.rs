use conflicts::{Life, Mount, Pod, PodKey, PodVolume, PodVolumeSource, VolumeId};
use manifest::k8s_openapi::api::core::v1::Pod as ClusterPod;
use manifest::{Cluster, Finding, PodRef};
use plan::{InTreeVolume, Intent, PersistentSource, VolumeSource};
use selinux::effective;

use crate::object::{ObjectRef, SourcePosition};
use crate::placement::placement;
use crate::resources::{self, controller};

/// The label by which a Deployment tells its ReplicaSets' pods apart.
const TEMPLATE_HASH: &str = "pod-template-hash";

/// What is kept of a pod that runs or is to run.
#[derive(Debug, Clone)]
pub(crate) struct LivePod {
    /// Its controller; `None` for a bare pod.
    pub(crate) owner: Option<ObjectRef>,
    /// Its use of persistent volumes; nothing if it has none.
    pub(crate) volumes: Option<Box<Pod>>,
    pub(crate) object_ref: ObjectRef,
    pub(crate) source: SourcePosition,
}

impl LivePod {
    pub(crate) fn of(pod: &PodRef<'_>, source: SourcePosition) -> Result<Self, Vec<Finding>> {
        let object = pod.object;
        let owner = controller(object.resource.metadata(), object.namespace());
        let owner = owner.map(|owner| deployment_of(&owner, pod).unwrap_or(owner));
        let object_ref = resources::object_ref(object);
        let intent = manifest::lower(pod, &Cluster::default())?;
        let mut volumes =
            pod_of(&intent, PodKey::new(object_ref.namespace.as_str(), object_ref.name.as_str()));
        volumes.uid.clone_from(&object.resource.metadata().uid);
        let volumes = if volumes.volumes.is_empty() {
            None
        } else {
            volumes.placement = placement(pod, owner.as_ref().map(|o| o.kind.as_str()));
            Some(Box::new(volumes))
        };
        Ok(Self { owner, volumes, object_ref, source })
    }

    /// The workload that it stands for.
    pub(crate) fn owner_or_self(&self) -> &ObjectRef {
        self.owner.as_ref().unwrap_or(&self.object_ref)
    }
}

/// Whether a pod has ended and will not come back.
pub(crate) fn is_finished(pod: &ClusterPod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

/// A ReplicaSet that a Deployment made is named by it and by the hash that its pods carry: the
/// Deployment is known even where the ReplicaSet is not.
fn deployment_of(owner: &ObjectRef, pod: &PodRef<'_>) -> Option<ObjectRef> {
    let hash = pod.metadata?.labels.as_ref()?.get(TEMPLATE_HASH)?;
    let name = owner.name.strip_suffix(hash.as_str())?.strip_suffix('-')?;
    (owner.kind == "ReplicaSet").then(|| ObjectRef {
        kind: "Deployment".to_owned(),
        namespace: owner.namespace.clone(),
        name: name.to_owned(),
    })
}

/// A pod's persistent volumes as the engine takes them: claims, and those that the pod names and that are treated as
/// persistent ones. Others are never mounted with a context, or are the pod's alone.
pub(crate) fn pod_of(intent: &Intent, key: PodKey) -> Pod {
    let persistent = |volume: &plan::Volume| {
        let source = match &volume.source {
            VolumeSource::Claim { name } => PodVolumeSource::Claim(name.clone()),
            VolumeSource::InTree(own) => migrated(own)?,
            _ => return None,
        };
        let mounts = mounts(intent, &volume.name);
        (!mounts.is_empty()).then(|| PodVolume { name: volume.name.clone(), source, mounts })
    };
    let volumes = intent.volumes.iter().filter_map(persistent).collect();
    Pod { life: Life::Alive, change_policy: intent.change_policy, volumes, ..Pod::new(key) }
}

fn migrated(own: &InTreeVolume) -> Option<PodVolumeSource> {
    let PersistentSource::Csi { driver, .. } = &own.volume.source else { return None };
    let (id, access_modes) = (VolumeId::csi(driver, &own.handle), own.volume.access_modes.clone());
    Some(PodVolumeSource::Migrated { id, driver: driver.clone(), access_modes })
}

fn mounts(intent: &Intent, volume: &str) -> Vec<Mount> {
    let all = intent.containers.iter().flat_map(|c| c.mounts.iter().map(move |m| (c, m)));
    let of_volume = all.filter(|(_, mount)| mount.volume == volume);
    of_volume
        .map(|(container, mount)| Mount {
            options: effective(intent.selinux.as_ref(), container.selinux.as_ref()).cloned(),
            privileged: container.privileged,
            sub_path: mount.sub_path.is_some(),
            read_only: mount.read_only,
        })
        .collect()
}

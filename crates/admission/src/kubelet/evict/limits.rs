//! Limits of local storage: of emptyDir volumes, of pods, and of containers.

use manifest::k8s_openapi::api::core::v1::{Container, Pod, PodSpec};
use types::Quantity;

use super::super::requests::{self, EPHEMERAL_STORAGE};
use super::message::as_written;
use super::{DiskParts, DiskUse, PodUse};

/// A limit that a pod exceeds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExceededLimit {
    /// What was observed, as the kubelet's metric names it.
    pub signal: &'static str,
    /// The message for the pod's status and its event.
    pub message: String,
}

impl ExceededLimit {
    fn of_volume(name: &str, limit: &str) -> Self {
        let message = format!("Usage of EmptyDir volume {name:?} exceeds the limit {limit:?}. ");
        Self { signal: "emptydirfs.limit", message }
    }

    fn of_pod(limit: &str) -> Self {
        let message =
            format!("Pod ephemeral local storage usage exceeds the total limit of containers {limit}. ");
        Self { signal: "ephemeralpodfs.limit", message }
    }

    fn of_container(name: &str, limit: &str) -> Self {
        let message = format!("Container {name} exceeded its local ephemeral storage limit {limit:?}. ");
        Self { signal: "ephemeralcontainerfs.limit", message }
    }
}

/// Whether a pod has a limit of local storage: only then what it uses must be known.
#[must_use]
pub fn has_storage_limits(pod: &Pod) -> bool {
    let Some(spec) = &pod.spec else { return false };
    let has_limited_volume = || volume_limits(spec).next().is_some();
    has_limited_volume() || requests::limits_of_pod(spec).0.contains_key(EPHEMERAL_STORAGE)
}

/// The first limit of local storage that a pod exceeds: of its volumes, of the pod as a whole, of its containers.
/// `on_node` is what of a container's is on the disk of the node: its writable layer may be on that of images.
#[must_use]
pub fn exceeded_limit(pod: &Pod, used: &PodUse, on_node: DiskParts) -> Option<ExceededLimit> {
    let spec = pod.spec.as_ref()?;
    of_volumes(spec, used).or_else(|| of_pod(spec, used)).or_else(|| of_containers(spec, used, on_node))
}

/// The limited emptyDir volumes: name, limit as written, limit in bytes.
fn volume_limits(spec: &PodSpec) -> impl Iterator<Item = (&str, &str, u64)> {
    spec.volumes.iter().flatten().filter_map(|volume| {
        let limit = volume.empty_dir.as_ref()?.size_limit.as_ref()?;
        Some((volume.name.as_str(), limit.0.as_str(), bytes(&limit.0)?))
    })
}

fn of_volumes(spec: &PodSpec, used: &PodUse) -> Option<ExceededLimit> {
    let is_exceeded =
        |name: &str, limit: u64| used.volumes.get(name).is_some_and(|volume| volume.used.exceeds(limit));
    let exceeded = volume_limits(spec).find(|(name, _, limit)| is_exceeded(name, *limit));
    exceeded.map(|(name, text, _)| ExceededLimit::of_volume(name, text))
}

fn of_pod(spec: &PodSpec, used: &PodUse) -> Option<ExceededLimit> {
    let limits = requests::limits_of_pod(spec);
    let limit = u64::try_from(*limits.0.get(EPHEMERAL_STORAGE)?).ok()?;
    used.ephemeral_storage().exceeds(limit).then(|| ExceededLimit::of_pod(&as_written(limit)))
}

fn of_containers(spec: &PodSpec, used: &PodUse, on_node: DiskParts) -> Option<ExceededLimit> {
    let limit = |container: &Container| {
        let limit = container.resources.as_ref()?.limits.as_ref()?.get(EPHEMERAL_STORAGE)?;
        Some((limit.0.clone(), bytes(&limit.0)?))
    };
    used.containers.iter().find_map(|found| {
        let container = spec.containers.iter().find(|container| container.name == found.name)?;
        let (text, limit) = limit(container)?;
        let layer = found.layer.filter(|_| on_node == DiskParts::All);
        let parts = found.logs.into_iter().chain(layer);
        let written = parts.fold(DiskUse::default(), DiskUse::and);
        written.exceeds(limit).then(|| ExceededLimit::of_container(&found.name, &text))
    })
}

/// A positive amount of bytes.
fn bytes(text: &str) -> Option<u64> {
    let amount: Quantity = text.parse().ok()?;
    u64::try_from(amount.units()).ok().filter(|bytes| *bytes > 0)
}

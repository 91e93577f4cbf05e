//! The steps of a pod that take time, each as a task.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use admission::PodOrigin;
use admission::kubelet::NodeFacts;
use agent::ports::PodRef;
use agent::{Handle, PodStatus, PodUpdate, Synced};
use devices::PodRequest;
use k8s_openapi::api::core::v1::{Node, Pod, PodSpec, VolumeProjection};
use manifest::{Finding, Object, Resource};
use serde_json::Value;
use tracing::{error, warn};
use types::{PodUid, reason};

use super::admitted::pod_of;
use super::{Ports, StartError};
use crate::node::NotReady;
use crate::objects::{ObjectKey, references};
use crate::pods::{ApiPod, Definition};
use crate::runtime_classes::{class_of, with_handler};
use crate::status::status_in_api;

/// The pause before a removal is tried again.
const PAUSE: Duration = Duration::from_secs(10);
/// How often a pod that has ended is asked to give its host IDs back, before that waits for its deletion.
const RELEASES: u32 = 6;

/// The most ConfigMaps and Secrets that a pod may name: each is watched by a connection of its own.
const MOST_OBJECTS: usize = 256;

/// The most sources of its projected volumes that the API server or a signer issues: each is requested, and again before it
/// expires.
const MOST_SOURCES: usize = 64;

/// The claim that the scheduler has made for extended resources of a pod.
const CLAIM_STATUS: &str = "extendedResourceClaimStatus";

/// What a task has done.
pub(super) enum Done {
    /// The pod runs, or an ended pod is held for its removal.
    Started { pod: PodRef, applied: Option<Arc<ApiPod>>, handle: Box<Handle> },
    /// The pod could not be started.
    NotStarted { pod: PodRef, error: StartError },
    /// The Node was read from the API server, for a pod whose labels it did not have; `None` if it could not be.
    NodeRead { wanted: Arc<ApiPod>, node: Option<Box<Node>> },
    /// A new pod has its devices, or does not get them: then `outcome` says why. `node` is the node if it was just read.
    Allocated { wanted: Arc<ApiPod>, node: Option<NodeFacts>, outcome: Result<(), String> },
    /// A change was applied to the running pod, or was not.
    Updated { pod: PodRef, outcome: Result<(), StartError> },
    /// No container of the pod runs, and none will.
    Ended { pod: PodRef, handle: Box<Handle> },
    /// The pod that has ended has no containers, volumes and host IDs.
    Released { pod: PodRef, handle: Box<Handle> },
    /// Nothing of the pod is left.
    Removed { pod: PodRef },
}

/// Admits a pod and starts it, or adopts it from an earlier process.
pub(super) async fn start(ports: Arc<Ports>, wanted: Arc<ApiPod>) -> Done {
    let pod = wanted.pod.clone();
    match apply(&ports, &wanted).await {
        Ok(Synced::Started(handle)) => Done::Started { pod, applied: Some(wanted), handle: Box::new(handle) },
        Ok(_) => {
            let message = "a pod of the same name is still being stopped on this node".to_owned();
            Done::NotStarted { pod, error: StartError::other("name in use", message) }
        }
        Err(error) => Done::NotStarted { pod, error },
    }
}

/// Reads the Node, for a pod that requires labels which were not seen on it.
pub(super) async fn read_node(ports: Arc<Ports>, wanted: Arc<ApiPod>) -> Done {
    let node = ports.node.read().await.map(Box::new);
    Done::NodeRead { wanted, node }
}

/// Gives a new pod its devices. Pods that have ended have none any more, also if this is not noted yet: others are sent here
/// as soon as the API says that they have ended.
pub(super) async fn allocate(
    ports: Arc<Ports>,
    wanted: Arc<ApiPod>,
    request: PodRequest,
    node: Option<NodeFacts>,
) -> Done {
    let (devices, state) = (ports.devices.clone(), ports.state.clone());
    let release = move || {
        for uid in devices.pods() {
            let stored = agent::stored_one(&state, &uid).ok().flatten();
            if stored.and_then(|stored| stored.status).is_some_and(|status| PodStatus::is_terminated(&status))
            {
                devices.release(&uid);
            }
        }
    };
    if let Err(cause) = tokio::task::spawn_blocking(release).await {
        error!("looking for pods that have ended ended early: {cause}");
    }
    let outcome = ports.devices.allocate(&request).await.map_err(|error| error.to_string());
    Done::Allocated { wanted, node, outcome }
}

/// Takes their devices from pods that no source has, once nothing of them runs.
pub(super) async fn release_devices(ports: &Ports, uids: Vec<String>) {
    for uid in uids {
        match has_ended(ports, &uid).await {
            Ok(true) => ports.devices.release(&uid),
            Ok(false) => warn!("pod {uid}, which no source has, keeps its devices: the runtime has it"),
            Err(cause) => warn!("pod {uid}, which no source has, keeps its devices: {cause}"),
        }
    }
}

/// Ends a pod that no source has and that has no record. Whether nothing of it is in the runtime.
async fn has_ended(ports: &Ports, uid: &str) -> agent::Result<bool> {
    // What is no UID was never a pod.
    let Ok(uid) = PodUid::new(uid) else { return Ok(true) };
    let ended = ports.agent.end_unrecorded(&uid).await;
    // A volume of another driver may be left: without a sandbox nothing uses a device.
    if ports.agent.has_sandbox(&uid).await? { ended.map(|()| false) } else { Ok(true) }
}

/// Applies a changed definition to a running pod.
pub(super) async fn update(ports: Arc<Ports>, wanted: Arc<ApiPod>) -> Done {
    let outcome = apply(&ports, &wanted).await.map(drop);
    Done::Updated { pod: wanted.pod.clone(), outcome }
}

/// Why the pod has to wait for the network of the node. A pod in the host's network and one that an earlier process has
/// started do not.
fn network_not_ready(ports: &Ports, pod: &PodRef, spec: Option<&PodSpec>) -> Option<StartError> {
    let state = ports.node.state.borrow();
    let is_network = |cause: &&NotReady| matches!(cause, NotReady::NetworkNotReady(_));
    let cause = state.conditions.not_ready.iter().find(is_network)?;
    let is_host_network = spec.is_some_and(|spec| spec.host_network == Some(true));
    if is_host_network || matches!(agent::stored_one(&ports.state, pod.uid.as_str()), Ok(Some(_))) {
        return None;
    }
    let message = format!("network is not ready: {cause}");
    Some(StartError { reason: reason::NETWORK_NOT_READY, message, cause: "network".to_owned() })
}

async fn apply(ports: &Ports, wanted: &ApiPod) -> Result<Synced, StartError> {
    let object = match &wanted.definition {
        Definition::Read(object) => object,
        Definition::Refused(findings) => return Err(StartError::other("unreadable", unreadable(findings))),
    };
    if let Some(error) = claimed_devices(&wanted.status) {
        return Err(error);
    }
    if let (Resource::Pod(pod), Some(cluster)) = (&object.resource, &ports.cluster) {
        let objects = bounded(references(pod), sources(pod))?;
        cluster.objects.register(&wanted.pod.uid, &objects);
        cluster.objects.await_answers(&objects).await;
    }
    let origin = if wanted.is_static { PodOrigin::Static } else { PodOrigin::ApiServer };
    let spec = object.pod().map(|pod| pod.spec);
    if let Some(error) = network_not_ready(ports, &wanted.pod, spec) {
        return Err(error);
    }
    let admitted = match handler(ports, &wanted.pod, object).await? {
        None => ports.admission.admit(object, origin).await?,
        Some(handler) => {
            let object = with_handler(object, handler);
            let mut admitted = ports.admission.admit(&object, origin).await?;
            if let (Some(admitted), Some(spec)) = (&mut admitted.pod.spec, spec) {
                admitted.runtime_class_name.clone_from(&spec.runtime_class_name);
            }
            admitted
        }
    };
    Ok(ports.agent.sync(PodUpdate::Apply(admitted)).await?)
}

/// Why a pod cannot run whose extended resources the scheduler has allocated by a claim of its own: they are no device plugin's,
/// and it would run without them.
fn claimed_devices(status: &Value) -> Option<StartError> {
    let claim = status.get(CLAIM_STATUS).filter(|claim| !claim.is_null())?;
    let name = claim.get("resourceClaimName").and_then(Value::as_str).unwrap_or_default();
    let message = format!(
        "status.{CLAIM_STATUS}: the devices of resource claim {name:?} are those of dynamic resource allocation, which is not run \
         here; give the node no ResourceSlices, or run the pod on a node with a kubelet"
    );
    let reason = reason::FAILED_PREPARE_DYNAMIC_RESOURCES;
    Some(StartError { reason, message, cause: format!("status.{CLAIM_STATUS}") })
}

/// How many tokens, certificates and trust bundles the projected volumes of a pod have.
fn sources(pod: &Pod) -> usize {
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    let projected = volumes.filter_map(|volume| volume.projected.as_ref()?.sources.as_ref()).flatten();
    let of_cluster = |source: &&VolumeProjection| {
        source.service_account_token.is_some()
            || source.pod_certificate.is_some()
            || source.cluster_trust_bundle.is_some()
    };
    projected.filter(of_cluster).count()
}

/// These objects of a pod, if neither they nor the sources of its projected volumes are too many.
fn bounded(objects: BTreeSet<ObjectKey>, sources: usize) -> Result<BTreeSet<ObjectKey>, StartError> {
    let count = objects.len();
    let message = if count > MOST_OBJECTS {
        format!(
            "the pod names {count} ConfigMaps and Secrets, and a pod of this node can have {MOST_OBJECTS}: put their keys into fewer objects"
        )
    } else if sources > MOST_SOURCES {
        format!(
            "the projected volumes of the pod have {sources} sources of tokens, certificates and trust bundles, and a pod of this node can have {MOST_SOURCES}: mount one source in several containers"
        )
    } else {
        return Ok(objects);
    };
    Err(StartError { reason: reason::FAILED_MOUNT, message, cause: "objects".to_owned() })
}

/// The runtime handler of a pod with a RuntimeClass. A pod that was started keeps its own, whatever became of the class.
async fn handler(ports: &Ports, pod: &PodRef, object: &Object) -> Result<Option<String>, StartError> {
    let (Some(class), Some(cluster)) = (class_of(object), &ports.cluster) else { return Ok(None) };
    if let Ok(Some(stored)) = agent::stored_one(&ports.state, pod.uid.as_str()) {
        return Ok(Some(stored.record.handler));
    }
    cluster.runtime_classes.handler(&class).await.map(Some).map_err(|cause| StartError::no_sandbox(&cause))
}

fn unreadable(findings: &[Finding]) -> String {
    let texts: Vec<String> = findings.iter().map(ToString::to_string).collect();
    texts.join("; ")
}

/// Ends the rest of a pod that is over in the API and not deleted. One that a kubelet has run is recorded with its
/// status, so that its logs stay until it is deleted.
pub(super) async fn retire(ports: Arc<Ports>, wanted: Arc<ApiPod>) -> Done {
    let pod = wanted.pod.clone();
    let has_no_record = || matches!(agent::stored_one(&ports.state, pod.uid.as_str()), Ok(None));
    if let (Some(definition), Some(status)) = (pod_of(&wanted), status_in_api(&wanted.status))
        && status.is_terminated()
        && has_no_record()
        && let Err(error) = ports.agent.record_ended(definition, status).await
    {
        return Done::NotStarted { pod, error: error.into() };
    }
    end(ports, pod, None).await
}

/// Stops a pod that an earlier process has started, also one whose record is lost.
pub(super) async fn end(ports: Arc<Ports>, pod: PodRef, grace: Option<Duration>) -> Done {
    let (state, uid) = (ports.state.clone(), pod.uid.clone());
    let stored = tokio::task::spawn_blocking(move || agent::stored_one(&state, uid.as_str())).await;
    let stored = match stored {
        Ok(Ok(Some(stored))) => stored,
        Ok(Ok(None)) => {
            return match ports.agent.end_unrecorded(&pod.uid).await {
                Ok(()) => Done::Removed { pod },
                Err(error) => {
                    // The pod's directory stays for as long as another driver has a volume there. Its devices need not.
                    if matches!(ports.agent.has_sandbox(&pod.uid).await, Ok(false)) {
                        ports.devices.release(pod.uid.as_str());
                    }
                    Done::NotStarted { pod, error: error.into() }
                }
            };
        }
        Ok(Err(error)) => return Done::NotStarted { pod, error: error.into() },
        Err(cause) => {
            let error = StartError::other("record", format!("reading its record ended early: {cause}"));
            return Done::NotStarted { pod, error };
        }
    };
    match ports.agent.end(&stored, grace).await {
        Ok(handle) => Done::Started { pod, applied: None, handle: Box::new(handle) },
        Err(error) => Done::NotStarted { pod, error: error.into() },
    }
}

/// Waits for the end of a pod.
pub(super) async fn ended(pod: PodRef, mut handle: Box<Handle>) -> Done {
    if let Err(cause) = handle.ended().await {
        error!("pod {}/{}: {cause}", pod.namespace, pod.name);
    }
    Done::Ended { pod, handle }
}

/// Has a pod that has ended give its host IDs back. What cannot be removed now is removed with the rest of the pod.
pub(super) async fn release(pod: PodRef, mut handle: Box<Handle>) -> Done {
    for _ in 0..RELEASES {
        match handle.release().await {
            Ok(()) => break,
            Err(cause) => {
                warn!("pod {}/{} has ended and keeps its host IDs: {cause}", pod.namespace, pod.name)
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
    Done::Released { pod, handle }
}

/// Removes the rest of a pod that has ended, however often it takes.
pub(super) async fn remove(pod: PodRef, mut handle: Box<Handle>) -> Done {
    while let Err(cause) = handle.remove().await {
        warn!("pod {}/{} cannot be removed completely: {cause}", pod.namespace, pod.name);
        tokio::time::sleep(PAUSE).await;
    }
    Done::Removed { pod }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::objects::ObjectKind;

    #[test]
    fn a_pod_with_devices_of_a_claim_of_the_schedulers_waits() {
        assert!(claimed_devices(&Value::Null).is_none());
        assert!(claimed_devices(&json!({"phase": "Pending", CLAIM_STATUS: null})).is_none());
        let error = claimed_devices(&json!({CLAIM_STATUS: {"resourceClaimName": "web-x"}})).unwrap();
        assert_eq!(error.reason, "FailedPrepareDynamicResources");
        assert!(error.message.contains("\"web-x\""), "{}", error.message);
    }

    #[test]
    fn a_pod_that_names_too_many_objects_is_refused() {
        let named = |count: usize| -> BTreeSet<ObjectKey> {
            let key = |number| ObjectKey {
                kind: ObjectKind::Secret,
                namespace: "shop".to_owned(),
                name: format!("s{number}"),
            };
            (0..count).map(key).collect()
        };
        assert_eq!(bounded(named(256), 64).unwrap().len(), 256);
        let error = bounded(named(257), 0).unwrap_err();
        assert_eq!(error.reason, "FailedMount");
        assert!(error.message.contains("257 ConfigMaps and Secrets"), "{}", error.message);
    }

    #[test]
    fn a_pod_with_too_many_certificates_tokens_and_bundles_is_refused() {
        let source = |number: usize| match number % 4 {
            0 => json!({"podCertificate": {"signerName": "shop.example/none", "keyType": "RSA4096"}}),
            1 => json!({"serviceAccountToken": {"path": "t", "audience": number.to_string()}}),
            2 => json!({"clusterTrustBundle": {"path": "b", "name": "roots"}}),
            _ => json!({"downwardAPI": {}}),
        };
        let pod = |count: usize| -> Pod {
            let sources: Vec<Value> = (0..count).map(source).collect();
            let (first, second) = sources.split_at(count / 2);
            let volumes = [first, second].map(|part| json!({"name": "v", "projected": {"sources": part}}));
            serde_json::from_value(json!({"metadata": {}, "spec": {"containers": [], "volumes": volumes}}))
                .unwrap()
        };
        assert_eq!(sources(&pod(85)), 64);
        bounded(BTreeSet::new(), sources(&pod(85))).unwrap();
        let error = bounded(BTreeSet::new(), sources(&pod(86))).unwrap_err();
        assert_eq!(error.reason, "FailedMount");
        assert!(error.message.contains("65 sources of tokens, certificates"), "{}", error.message);
    }
}

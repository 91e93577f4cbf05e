//! The steps of a pod that take time, each as a task.

use std::sync::Arc;
use std::time::Duration;

use admission::PodOrigin;
use agent::ports::PodRef;
use agent::{Error, Handle, PodUpdate, Synced};
use k8s_openapi::api::core::v1::{Node, PodSpec};
use manifest::{Finding, Object, Resource};
use tracing::{error, warn};
use types::reason;

use super::Ports;
use crate::node::NotReady;
use crate::objects::references;
use crate::pods::{ApiPod, Definition};
use crate::runtime_classes::{class_of, with_handler};

/// Event: a change of the pod cannot be applied while it runs.
const FAILED_SYNC: &str = "FailedSync";
/// What to do about a pod whose UID has a lease, for instance because a process of an earlier attempt still uses its host IDs.
const UID_IN_USE: &str = "`wardlet ids list` shows the lease, and `wardlet ids audit` what uses its host IDs; the pod starts when they are free";
/// The pause before a removal is tried again.
const PAUSE: Duration = Duration::from_secs(10);
/// How often a pod that has ended is asked to give its host IDs back, before that waits for its deletion.
const RELEASES: u32 = 6;

/// What a task has done.
pub(super) enum Done {
    /// The pod runs, or an ended pod is held for its removal.
    Started { pod: PodRef, applied: Option<Arc<ApiPod>>, handle: Box<Handle> },
    /// The pod could not be started.
    NotStarted { pod: PodRef, error: StartError },
    /// The Node was read from the API server, for a pod whose labels it did not have; `None` if it could not be.
    NodeRead { wanted: Arc<ApiPod>, node: Option<Box<Node>> },
    /// A change was applied to the running pod, or was not.
    Updated { pod: PodRef, outcome: Result<(), StartError> },
    /// No container of the pod runs, and none will.
    Ended { pod: PodRef, handle: Box<Handle> },
    /// The pod that has ended has no containers, volumes and host IDs.
    Released { pod: PodRef, handle: Box<Handle> },
    /// Nothing of the pod is left.
    Removed { pod: PodRef },
}

/// Why a pod could not be started or changed, as in its event. It is tried again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartError {
    /// The reason of the event.
    pub reason: &'static str,
    /// Its message, with what to do.
    pub message: String,
    /// The cause in a word, for metrics: the field of the pod that cannot be honoured, or what failed.
    pub cause: String,
}

impl StartError {
    /// Another error than a refusal; `cause` in a word, for metrics.
    pub(crate) fn other(cause: &str, message: String) -> Self {
        Self { reason: reason::FAILED_CREATE_POD_SANDBOX, message, cause: cause.to_owned() }
    }

    /// The refusals of a pod, of which there is at least one.
    #[must_use]
    pub fn refused(refusals: &[admission::Refused]) -> Self {
        let text = |one: &admission::Refused| {
            let hint = Some(&one.hint).filter(|hint| !hint.is_empty());
            let hint = hint.map(|hint| format!("; {hint}")).unwrap_or_default();
            format!("{}: {}{hint}", one.field, one.cause)
        };
        let field = refusals.first().map_or("", |first| first.field.as_str());
        // As a kubelet reports it: volumes are set up before the sandbox is made.
        let is_volume = field.starts_with("spec.volumes[");
        let reason = if is_volume { reason::FAILED_MOUNT } else { reason::FAILED_CREATE_POD_SANDBOX };
        let message = refusals.iter().map(text).collect::<Vec<_>>().join("; ");
        Self { reason, message, cause: without_indices(field) }
    }

    fn no_sandbox(cause: &str) -> Self {
        Self::other("runtime class", format!("Failed to create pod sandbox: {cause}"))
    }
}

/// A field without the indices of lists: one cause has one name.
fn without_indices(field: &str) -> String {
    let mut parts = field.split('[');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |all, part| all + part.split_once(']').map_or("", |(_, rest)| rest))
}

impl From<Error> for StartError {
    fn from(error: Error) -> Self {
        let (reason, cause) = match error {
            Error::Volumes(_) | Error::Payload(_) | Error::Config { .. } | Error::Token { .. } => {
                (reason::FAILED_MOUNT, "volumes")
            }
            Error::Immutable { .. } => (FAILED_SYNC, "update"),
            Error::Cgroups(_) => (reason::FAILED_CREATE_POD_CONTAINER, "cgroups"),
            Error::Ledger(_) => (reason::FAILED_CREATE_POD_SANDBOX, "host IDs"),
            Error::NotAdmitted { .. } | Error::Admission(_) => {
                (reason::FAILED_CREATE_POD_SANDBOX, "not admitted")
            }
            _ => (reason::FAILED_CREATE_POD_SANDBOX, "other"),
        };
        let (message, hint) = match &error {
            Error::Payload(cause) => {
                let what = format!("{}: {}", cause.source_name, cause.problem);
                let message = format!("MountVolume.SetUp failed for volume {:?} : {what}", cause.volume);
                (message, Some(cause.hint().to_owned()))
            }
            // Their hints are about manifests.
            Error::Config { .. } => (error.to_string(), None),
            Error::UidTaken { .. } => (error.to_string(), Some(UID_IN_USE.to_owned())),
            _ => (error.to_string(), error.hint()),
        };
        let hint = hint.map(|hint| format!("; {hint}")).unwrap_or_default();
        Self { reason, message: format!("{message}{hint}"), cause: cause.to_owned() }
    }
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
    if let (Resource::Pod(pod), Some(cluster)) = (&object.resource, &ports.cluster) {
        cluster.objects.register(&wanted.pod.uid, &references(pod));
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

/// Stops a pod that an earlier process has started. A pod without a record has nothing here.
pub(super) async fn end(ports: Arc<Ports>, pod: PodRef, grace: Option<Duration>) -> Done {
    let (state, uid) = (ports.state.clone(), pod.uid.clone());
    let stored = tokio::task::spawn_blocking(move || agent::stored_one(&state, uid.as_str())).await;
    let stored = match stored {
        Ok(Ok(Some(stored))) => stored,
        Ok(Ok(None)) => return Done::Removed { pod },
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
    use super::*;

    fn refused(field: &str, cause: &str, hint: &str) -> admission::Refused {
        admission::Refused { field: field.into(), cause: cause.into(), hint: hint.into(), at: None }
    }

    #[test]
    fn the_uid_of_a_pod_of_the_api_is_not_the_way_out() {
        let uid = types::PodUid::new("0aa7a1ce-0000-4000-8000-000000000001").unwrap();
        let owner = "another holder of a lease in the ledger (host IDs 65536-131071, draining)".to_owned();
        let error = StartError::from(Error::UidTaken { pod: "shop/web".to_owned(), uid, owner });
        assert!(
            error.message.contains("65536-131071") && error.message.contains("ids list"),
            "{}",
            error.message
        );
        assert!(!error.message.contains("manifest"), "{}", error.message);
    }

    #[test]
    fn a_refusal_is_reported_as_a_kubelet_reports_what_failed_with_what_to_do() {
        let volume = refused("spec.volumes[3].nfs", "not run here", "use emptyDir");
        let users = refused("spec.hostUsers", "the handler has no user namespaces", "");
        let error = StartError::refused(&[volume.clone(), users.clone()]);
        assert_eq!((error.reason, error.cause.as_str()), ("FailedMount", "spec.volumes.nfs"));
        assert_eq!(
            error.message,
            "spec.volumes[3].nfs: not run here; use emptyDir; spec.hostUsers: the handler has no user namespaces"
        );
        let error = StartError::refused(&[users, volume]);
        assert_eq!((error.reason, error.cause.as_str()), ("FailedCreatePodSandBox", "spec.hostUsers"));
        assert_eq!(without_indices("spec.containers[0].env[12].valueFrom"), "spec.containers.env.valueFrom");
    }
}

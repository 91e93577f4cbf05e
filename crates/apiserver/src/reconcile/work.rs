//! The steps of a pod that take time, each as a task.

use std::sync::Arc;
use std::time::Duration;

use agent::ports::PodRef;
use agent::{Error, Handle, PodUpdate, Synced};
use manifest::k8s_openapi::api::core::v1::PodSpec;
use manifest::{Finding, Object, Resource};
use tracing::{error, warn};
use types::reason;

use super::Ports;
use crate::node::NotReady;
use crate::objects::references;
use crate::pods::{ApiPod, Definition};
use crate::runtime_classes::{class_of, with_handler};

/// The pause before a removal is tried again.
const PAUSE: Duration = Duration::from_secs(10);

/// What a task has done.
pub(super) enum Done {
    /// The pod runs, or an ended pod is held for its removal.
    Started { pod: PodRef, applied: Option<Arc<ApiPod>>, handle: Box<Handle> },
    /// The pod could not be started.
    NotStarted { pod: PodRef, error: StartError },
    /// A change was applied to the running pod, or was not.
    Updated { pod: PodRef, outcome: Result<(), StartError> },
    /// No container of the pod runs, and none will.
    Ended { pod: PodRef, handle: Box<Handle> },
    /// Nothing of the pod is left.
    Removed { pod: PodRef },
}

/// Why a pod could not be started or changed, as in its event.
pub(super) struct StartError {
    pub(super) reason: &'static str,
    pub(super) message: String,
}

impl StartError {
    fn refused(message: String) -> Self {
        Self { reason: reason::FAILED_CREATE_POD_SANDBOX, message }
    }

    /// The pause before the pod is tried again, as the kubelet's; shorter for the network, which is ready at once when it is.
    pub(super) fn pause(&self) -> Duration {
        Duration::from_secs(if self.reason == reason::NETWORK_NOT_READY { 2 } else { 10 })
    }

    fn no_sandbox(cause: String) -> Self {
        Self::refused(format!("Failed to create pod sandbox: {cause}"))
    }
}

impl From<Error> for StartError {
    fn from(error: Error) -> Self {
        let reason = match error {
            Error::Volumes(_) | Error::Payload(_) | Error::Config { .. } | Error::Token { .. } => {
                reason::FAILED_MOUNT
            }
            _ => reason::FAILED_CREATE_POD_SANDBOX,
        };
        let hint = error.hint().map(|hint| format!("; {hint}")).unwrap_or_default();
        Self { reason, message: format!("{error}{hint}") }
    }
}

/// Admits a pod and starts it, or adopts it from an earlier process.
pub(super) async fn start(ports: Arc<Ports>, wanted: Arc<ApiPod>) -> Done {
    let pod = wanted.pod.clone();
    match apply(&ports, &wanted).await {
        Ok(Synced::Started(handle)) => Done::Started { pod, applied: Some(wanted), handle: Box::new(handle) },
        Ok(_) => {
            let message = "a pod of the same name is still being stopped on this node".to_owned();
            Done::NotStarted { pod, error: StartError::refused(message) }
        }
        Err(error) => Done::NotStarted { pod, error },
    }
}

/// Applies a changed definition to a running pod.
pub(super) async fn update(ports: Arc<Ports>, wanted: Arc<ApiPod>) -> Done {
    let outcome = apply(&ports, &wanted).await.map(drop);
    Done::Updated { pod: wanted.pod.clone(), outcome }
}

/// Why the pod has to wait for the network of the node. A pod in the host's network and one that an earlier process has
/// started do not.
fn network_not_ready(ports: &Ports, pod: &PodRef, spec: Option<&PodSpec>) -> Option<StartError> {
    let state = ports.node.borrow();
    let is_network = |cause: &&NotReady| matches!(cause, NotReady::NetworkNotReady(_));
    let cause = state.conditions.not_ready.iter().find(is_network)?;
    let is_host_network = spec.is_some_and(|spec| spec.host_network == Some(true));
    if is_host_network || matches!(agent::stored_one(&ports.state, pod.uid.as_str()), Ok(Some(_))) {
        return None;
    }
    Some(StartError { reason: reason::NETWORK_NOT_READY, message: format!("network is not ready: {cause}") })
}

async fn apply(ports: &Ports, wanted: &ApiPod) -> Result<Synced, StartError> {
    let object = match &wanted.definition {
        Definition::Read(object) => object,
        Definition::Refused(findings) => return Err(StartError::refused(unreadable(findings))),
    };
    if let (Resource::Pod(pod), Some(cluster)) = (&object.resource, &ports.cluster) {
        cluster.objects.register(&wanted.pod.uid, &references(pod));
    }
    let spec = object.pod().map(|pod| pod.spec);
    if let Some(error) = network_not_ready(ports, &wanted.pod, spec) {
        return Err(error);
    }
    let admitted = match handler(ports, &wanted.pod, object).await? {
        None => ports.admission.admit(object).await.map_err(StartError::refused)?,
        Some(handler) => {
            let object = with_handler(object, handler);
            let mut admitted = ports.admission.admit(&object).await.map_err(StartError::refused)?;
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
    cluster.runtime_classes.handler(&class).await.map(Some).map_err(StartError::no_sandbox)
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
            let error = StartError::refused(format!("reading its record ended early: {cause}"));
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

/// Removes the rest of a pod that has ended, however often it takes.
pub(super) async fn remove(pod: PodRef, mut handle: Box<Handle>) -> Done {
    while let Err(cause) = handle.remove().await {
        warn!("pod {}/{} cannot be removed completely: {cause}", pod.namespace, pod.name);
        tokio::time::sleep(PAUSE).await;
    }
    Done::Removed { pod }
}

//! The state of the container runtime, as a Node tells it.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use admission::kubelet::NodeCondition;
use cri::client::Client;
use cri::{ListImagesRequest, RuntimeCondition, StatusResponse, VersionRequest};
use devices::{DeviceCount, DeviceManager};
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::conditions::{Cause, NodeConditions, NotReady};
use super::facts::{
    DeviceFacts, MachineFacts, NodeFacts, NodeImage, NodeState, RuntimeFacts, RuntimeHandler,
};

/// How often the runtime is asked.
const PERIOD: Duration = Duration::from_secs(5);
/// How often the images are listed.
const IMAGES: Duration = Duration::from_secs(30);
/// How long an answer may take.
const DEADLINE: Duration = Duration::from_secs(10);
/// A runtime that has not answered for so long is down.
const DOWN: Duration = Duration::from_secs(30);

/// How many devices each resource has.
type DeviceCounts = BTreeMap<String, DeviceCount>;

/// The state of the node: asks the runtime every few seconds, and follows the devices of plugins. The tasks end when this value
/// is dropped.
#[derive(Debug)]
pub struct RuntimeProbe {
    sender: Arc<watch::Sender<NodeState>>,
    again: Arc<Notify>,
    tasks: [AbortHandle; 2],
}

impl RuntimeProbe {
    /// Starts to ask. Must be called within a tokio runtime.
    #[must_use]
    pub fn start(
        client: Client,
        machine: MachineFacts,
        addresses: Vec<IpAddr>,
        devices: &DeviceManager,
    ) -> Self {
        let counts = devices.counts();
        let known = DeviceFacts { counts: counts.borrow().clone(), is_new: devices.is_new() };
        let facts = NodeFacts { machine, addresses, devices: known, ..NodeFacts::default() };
        let sender = Arc::new(watch::Sender::new(NodeState { facts, ..NodeState::default() }));
        let again = Arc::new(Notify::new());
        let following = tokio::spawn(follow(counts, Arc::clone(&sender))).abort_handle();
        let probing = tokio::spawn(probe(client, Arc::clone(&sender), Arc::clone(&again))).abort_handle();
        Self { sender, again, tasks: [following, probing] }
    }

    /// Asks the runtime at once, after a request that changes its answer.
    pub(crate) fn refresher(&self) -> impl Fn() + Send + use<> {
        let again = Arc::clone(&self.again);
        move || again.notify_one()
    }

    /// The state of the node, as of the last answer.
    #[must_use]
    pub fn state(&self) -> watch::Receiver<NodeState> {
        self.sender.subscribe()
    }

    /// Sets whether the machine shuts down.
    pub(crate) fn shutdown(&self) -> ShutdownSetter {
        ShutdownSetter(Arc::clone(&self.sender))
    }

    /// Sets what the node runs short of. The state tells it from the next status of the node on.
    pub(crate) fn pressure(&self) -> PressureSetter {
        PressureSetter(Arc::clone(&self.sender))
    }
}

/// Sets whether the machine shuts down.
#[derive(Debug, Clone)]
pub(crate) struct ShutdownSetter(Arc<watch::Sender<NodeState>>);

impl ShutdownSetter {
    /// It does, so that the node is not ready, or does no more.
    pub(crate) fn set(&self, shutdown: Shutdown) {
        self.0.send_if_modified(|state| {
            let causes = &mut state.conditions.not_ready;
            let is_known = causes.contains(&NotReady::ShuttingDown);
            match shutdown {
                Shutdown::Begun if !is_known => causes.push(NotReady::ShuttingDown),
                Shutdown::Cancelled if is_known => causes.retain(|cause| *cause != NotReady::ShuttingDown),
                _ => return false,
            }
            true
        });
    }
}

/// What becomes of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shutdown {
    /// It shuts down.
    Begun,
    /// It does not.
    Cancelled,
}

/// What the runtime says, and that the machine shuts down if that is known.
fn beside_shutdown(known: &[NotReady], mut causes: Vec<NotReady>) -> Vec<NotReady> {
    causes.extend(known.iter().filter(|cause| **cause == NotReady::ShuttingDown).cloned());
    causes
}

/// Sets what a node runs short of.
#[derive(Debug, Clone)]
pub(crate) struct PressureSetter(Arc<watch::Sender<NodeState>>);

impl PressureSetter {
    /// These conditions are true, and the other ones are not.
    pub(crate) fn set(&self, pressure: &[NodeCondition]) {
        self.0.send_if_modified(|state| {
            let has = |condition| pressure.contains(&condition);
            let conditions = NodeConditions {
                memory_pressure: has(NodeCondition::MemoryPressure),
                disk_pressure: has(NodeCondition::DiskPressure),
                pid_pressure: has(NodeCondition::PidPressure),
                not_ready: state.conditions.not_ready.clone(),
            };
            let is_new = state.conditions != conditions;
            state.conditions = conditions;
            is_new
        });
    }
}

impl Drop for RuntimeProbe {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

/// Follows the devices of plugins.
async fn follow(mut counts: watch::Receiver<DeviceCounts>, sender: Arc<watch::Sender<NodeState>>) {
    while counts.changed().await.is_ok() {
        let now = counts.borrow_and_update().clone();
        sender.send_if_modified(|state| {
            let is_new = state.facts.devices.counts != now;
            state.facts.devices.counts = now;
            is_new
        });
    }
}

async fn probe(client: Client, sender: Arc<watch::Sender<NodeState>>, again: Arc<Notify>) {
    let (mut answered, mut listed): (Option<Instant>, Option<Instant>) = (None, None);
    let began = Instant::now();
    loop {
        if let Some(runtime) = runtime(&client).await {
            answered = Some(Instant::now());
            sender.send_if_modified(|state| {
                let not_ready = beside_shutdown(&state.conditions.not_ready, runtime.not_ready.clone());
                let conditions = NodeConditions { not_ready, ..state.conditions.clone() };
                let is_new =
                    state.facts.runtime.as_ref() != Some(&runtime.facts) || state.conditions != conditions;
                state.facts.runtime = Some(runtime.facts.clone());
                state.conditions = conditions;
                is_new
            });
        } else if answered.unwrap_or(began).elapsed() > DOWN {
            sender.send_if_modified(|state| {
                let not_ready = beside_shutdown(&state.conditions.not_ready, vec![NotReady::RuntimeDown]);
                let is_new = state.conditions.not_ready != not_ready;
                state.conditions.not_ready = not_ready;
                is_new
            });
        }
        if listed.is_none_or(|at| at.elapsed() > IMAGES)
            && let Some(images) = images(&client).await
        {
            listed = Some(Instant::now());
            sender.send_if_modified(|state| {
                let is_new = state.facts.images != images;
                state.facts.images = images;
                is_new
            });
        }
        let _ = tokio::time::timeout(PERIOD, again.notified()).await;
    }
}

/// What the runtime answered.
struct Answer {
    facts: RuntimeFacts,
    not_ready: Vec<NotReady>,
}

async fn runtime(client: &Client) -> Option<Answer> {
    let mut service = client.runtime();
    let version = service.version(VersionRequest { version: "v1".to_owned() });
    let version = tokio::time::timeout(DEADLINE, version).await.ok()?.ok()?.into_inner();
    let status = client.status(DEADLINE).await.ok()?;
    let handlers = status.runtime_handlers.iter().map(|handler| {
        let features = handler.features.unwrap_or_default();
        RuntimeHandler {
            name: handler.name.clone(),
            recursive_read_only_mounts: features.recursive_read_only_mounts,
            user_namespaces: features.user_namespaces,
        }
    });
    let features = status.features.unwrap_or_default();
    let facts = RuntimeFacts {
        name: version.runtime_name,
        version: version.runtime_version,
        handlers: handlers.collect(),
        supplemental_groups_policy: features.supplemental_groups_policy,
    };
    Some(Answer { facts, not_ready: not_ready(&status) })
}

fn not_ready(status: &StatusResponse) -> Vec<NotReady> {
    let conditions = status.status.iter().flat_map(|status| &status.conditions);
    let cause = |condition: &RuntimeCondition| Cause {
        reason: condition.reason.clone(),
        message: condition.message.clone(),
    };
    let lacking = conditions.filter(|condition| !condition.status);
    let reason = lacking.filter_map(|condition| match condition.r#type.as_str() {
        "RuntimeReady" => Some(NotReady::RuntimeNotReady(cause(condition))),
        "NetworkReady" => Some(NotReady::NetworkNotReady(cause(condition))),
        _ => None,
    });
    reason.collect()
}

async fn images(client: &Client) -> Option<Vec<NodeImage>> {
    let (mut service, request) = (client.images(), ListImagesRequest::default());
    let listed = tokio::time::timeout(DEADLINE, service.list_images(request)).await.ok()?.ok()?;
    let image = |image: cri::Image| NodeImage {
        repo_digests: image.repo_digests,
        repo_tags: image.repo_tags,
        size: image.size,
    };
    Some(listed.into_inner().images.into_iter().map(image).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shutdown_is_told_beside_what_the_runtime_says_until_it_is_cancelled() {
        let sender = Arc::new(watch::Sender::new(NodeState::default()));
        let mut state = sender.subscribe();
        let setter = ShutdownSetter(Arc::clone(&sender));
        setter.set(Shutdown::Cancelled);
        assert!(!state.has_changed().unwrap());
        setter.set(Shutdown::Begun);
        setter.set(Shutdown::Begun);
        let causes = state.borrow_and_update().conditions.not_ready.clone();
        assert_eq!(causes, [NotReady::RuntimeStatusUnknown, NotReady::ShuttingDown]);
        assert_eq!(beside_shutdown(&causes, vec![]), [NotReady::ShuttingDown]);
        assert_eq!(beside_shutdown(&[], vec![NotReady::RuntimeDown]), [NotReady::RuntimeDown]);
        setter.set(Shutdown::Cancelled);
        assert_eq!(state.borrow().conditions.not_ready, [NotReady::RuntimeStatusUnknown]);
    }

    #[test]
    fn what_the_node_runs_short_of_is_set_beside_what_its_runtime_says() {
        let sender = Arc::new(watch::Sender::new(NodeState::default()));
        let mut state = sender.subscribe();
        let setter = PressureSetter(sender);
        setter.set(&[]);
        assert!(!state.has_changed().unwrap());
        setter.set(&[NodeCondition::DiskPressure]);
        let conditions = state.borrow_and_update().conditions.clone();
        assert!(conditions.disk_pressure && !conditions.memory_pressure && !conditions.pid_pressure);
        assert_eq!(conditions.not_ready, [NotReady::RuntimeStatusUnknown]);
        setter.set(&[NodeCondition::MemoryPressure, NodeCondition::PidPressure]);
        let conditions = state.borrow_and_update().conditions.clone();
        assert!(!conditions.disk_pressure && conditions.memory_pressure && conditions.pid_pressure);
    }
}

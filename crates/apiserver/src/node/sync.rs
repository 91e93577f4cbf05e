//! Keeping the Node at the API server as it should be.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::facts::{DeviceFacts, NodeState};
use super::object::{adopted_node, new_node, updated_node};
use super::patch::{status_patch, without_heartbeats};
use super::seen::Seen;
use super::settings::NodeSettings;
use crate::backoff::{Backoff, jittered, spread};
use crate::client::{ApiClient, ApiError, Clients, ErrorKind};
use crate::problem::{Problem, Problems};

const FIELD_MANAGER: &str = "wardlet";
/// Several changes at once are one patch.
const SETTLE: Duration = Duration::from_millis(100);

/// How often the status is computed and sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeTiming {
    /// `nodeStatusUpdateFrequency`: how often the status is computed. A change is sent.
    pub update: Duration,
    /// `nodeStatusReportFrequency`: how often the status is sent without a change.
    pub report: Duration,
}

impl Default for NodeTiming {
    /// The kubelet's defaults.
    fn default() -> Self {
        Self { update: Duration::from_secs(10), report: Duration::from_secs(300) }
    }
}

/// The tasks that keep a Node up to date; they end when it is dropped.
#[derive(Debug)]
pub struct NodeHandle {
    node: watch::Receiver<Option<Arc<Node>>>,
    problem: watch::Receiver<Problem>,
    rebooted: watch::Receiver<bool>,
    tasks: JoinSet<()>,
}

impl NodeHandle {
    /// The Node as it was last seen; `None` before it was seen, and after it was deleted.
    #[must_use]
    pub fn node(&self) -> watch::Receiver<Option<Arc<Node>>> {
        self.node.clone()
    }

    /// Why the Node cannot be registered or updated at the moment.
    #[must_use]
    pub fn problem(&self) -> watch::Receiver<Problem> {
        self.problem.clone()
    }

    /// Whether the Node that was adopted is of another boot of this machine.
    #[must_use]
    pub fn rebooted(&self) -> watch::Receiver<bool> {
        self.rebooted.clone()
    }

    /// Ends the tasks. The Node stays as it is.
    pub async fn stop(mut self) {
        self.tasks.shutdown().await;
    }
}

/// Registers the Node, keeps its status up to date with `state`, and watches it.
///
/// The status is sent when it has changed, at once if the node becomes ready or stops to be, else at the next update.
/// The API server need not be reachable. A Node that is deleted meanwhile is not created again: an administrator has
/// removed it.
#[must_use]
pub fn spawn(
    clients: &Clients,
    settings: NodeSettings,
    timing: NodeTiming,
    state: watch::Receiver<NodeState>,
) -> NodeHandle {
    let seen = Seen::new();
    let problems = Problems::new("node status");
    let (node, problem) = (seen.subscribe(), problems.subscribe());
    let (reboot, rebooted) = watch::channel(false);
    let mut tasks = JoinSet::new();
    tasks.spawn(super::watch::watch(clients.main.clone(), settings.name.clone(), seen.clone()));
    let client = clients.heartbeat.clone();
    let sync = Sync {
        api: Api::all(client.kube()),
        client,
        settings,
        timing,
        state,
        seen,
        problems,
        reboot,
        last: Last {
            ready: None,
            devices: DeviceFacts::default(),
            report_at: Instant::now(),
            not_taken: None,
            failed: false,
        },
    };
    tasks.spawn(sync.run());
    NodeHandle { node, problem, rebooted, tasks }
}

struct Sync {
    client: ApiClient,
    api: Api<Node>,
    settings: NodeSettings,
    timing: NodeTiming,
    state: watch::Receiver<NodeState>,
    seen: Seen,
    problems: Problems,
    reboot: watch::Sender<bool>,
    last: Last,
}

/// What is known from earlier rounds.
struct Last {
    /// Whether the API server has been sent that the node is ready; `None` before anything was sent.
    ready: Option<bool>,
    /// The devices of plugins that it has been sent.
    devices: DeviceFacts,
    /// When the status is sent even without a change.
    report_at: Instant,
    /// A difference that the server did not take: sending it again would change nothing.
    not_taken: Option<Difference>,
    /// Whether the last round failed: the Node is then read before the next.
    failed: bool,
}

#[derive(PartialEq)]
struct Difference {
    seen: Value,
    wanted: Value,
}

impl Difference {
    fn between(seen: &Node, wanted: &Node) -> Option<Self> {
        let found = Self { seen: without_heartbeats(seen), wanted: without_heartbeats(wanted) };
        (found.seen != found.wanted).then_some(found)
    }
}

/// A Node as it is, and as it should be.
struct Change<'a> {
    seen: &'a Node,
    wanted: &'a Node,
    state: &'a NodeState,
}

impl Sync {
    async fn run(mut self) {
        self.register().await;
        let mut backoff = Backoff::new(Duration::from_millis(200), self.timing.update);
        loop {
            let wait = match self.update().await {
                Ok(()) => {
                    self.last.failed = false;
                    self.problems.solved();
                    backoff.reset();
                    jittered(self.timing.update, 4)
                }
                Err(error) => {
                    self.last.failed = true;
                    self.problems.failed(error);
                    backoff.after_failure()
                }
            };
            self.pause(wait).await;
        }
    }

    /// Creates the Node or adopts the one that exists; returns when one of them has succeeded.
    async fn register(&mut self) {
        let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(7));
        while let Err(error) = self.try_register().await {
            self.problems.failed(error);
            tokio::time::sleep(backoff.after_failure()).await;
        }
        self.problems.solved();
    }

    async fn try_register(&mut self) -> Result<(), ApiError> {
        let state = self.state.borrow_and_update().clone();
        let name = &self.settings.name;
        let mut forbidden = None;
        if self.settings.register {
            let node = new_node(&self.settings, &state, Timestamp::now());
            let params =
                PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
            let create = self.api.create(&params, &node);
            match self.client.call(&format!("create Node {name}"), create).await {
                Ok(node) => {
                    tracing::info!(node = name, "registered the node");
                    self.sent(&state, spread(self.timing.report));
                    self.seen.saw(node);
                    return Ok(());
                }
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) if error.kind() == ErrorKind::Forbidden => forbidden = Some(error),
                Err(error) => return Err(error),
            }
        }
        // A node that may not be created can still exist; if not, that it may not be created is the cause.
        let seen = self.get().await.map_err(|error| forbidden.unwrap_or(error))?;
        let adopted = adopted_node(&seen, &self.settings, &state);
        let wanted = updated_node(&adopted, &self.settings, &state, Timestamp::now());
        self.seen.saw(seen.clone());
        let change = Change { seen: &seen, wanted: &wanted, state: &state };
        self.send_if_needed(&change).await?;
        if is_of_another_boot(&seen, &state) {
            tracing::info!(
                node = self.settings.name,
                "the machine was rebooted since the node was last updated"
            );
            self.reboot.send_replace(true);
        }
        tracing::info!(node = self.settings.name, "adopted the node that exists");
        Ok(())
    }

    /// One round: computes the status, and sends it if it has changed or is due.
    async fn update(&mut self) -> Result<(), ApiError> {
        let seen = match self.seen.current().filter(|_| !self.last.failed) {
            Some(known) => known,
            None => self.seen.saw(self.get().await?),
        };
        let state = self.state.borrow_and_update().clone();
        let wanted = updated_node(&seen, &self.settings, &state, Timestamp::now());
        let change = Change { seen: &seen, wanted: &wanted, state: &state };
        self.send_if_needed(&change).await
    }

    async fn send_if_needed(&mut self, change: &Change<'_>) -> Result<(), ApiError> {
        let difference = Difference::between(change.seen, change.wanted);
        let changed = difference.is_some() && difference != self.last.not_taken;
        if !changed && Instant::now() < self.last.report_at {
            self.is_as_in(change.state);
            return Ok(());
        }
        let patch = status_patch(change.seen, change.wanted);
        tracing::debug!(node = self.settings.name, changed, %patch, "updating the status of the node");
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        let patch = Patch::Strategic(patch);
        let request = self.api.patch_status(&self.settings.name, &params, &patch);
        let action = format!("update the status of Node {}", self.settings.name);
        let answer = self.client.call(&action, request).await.map_err(deleted)?;
        let period = self.timing.report;
        self.sent(change.state, if changed { spread(period) } else { period });
        let again = updated_node(&answer, &self.settings, change.state, Timestamp::now());
        self.last.not_taken = Difference::between(&answer, &again);
        self.seen.saw(answer);
        Ok(())
    }

    /// The API server has this state; it is sent again after `period` even without a change.
    fn sent(&mut self, state: &NodeState, period: Duration) {
        self.is_as_in(state);
        self.last.report_at = Instant::now() + period;
    }

    /// The API server has what of this state is sent at once.
    fn is_as_in(&mut self, state: &NodeState) {
        self.last.ready = Some(state.conditions.not_ready.is_empty());
        self.last.devices.clone_from(&state.facts.devices);
    }

    async fn get(&self) -> Result<Node, ApiError> {
        let name = &self.settings.name;
        self.client.call(&format!("get Node {name}"), self.api.get(name)).await.map_err(deleted)
    }

    /// Waits for the next round: until `wait` is over, the node becomes ready or stops to be, or a plugin has other devices:
    /// pods are not to be sent to those that are lost.
    async fn pause(&mut self, wait: Duration) {
        let end = Instant::now() + wait;
        loop {
            tokio::select! {
                () = tokio::time::sleep_until(end) => return,
                changed = self.state.changed() => {
                    if changed.is_err() {
                        // No more changes: the last state is reported on.
                        return tokio::time::sleep_until(end).await;
                    }
                    let is_other = {
                        let state = self.state.borrow_and_update();
                        self.last.ready != Some(state.conditions.not_ready.is_empty())
                            || self.last.devices != state.facts.devices
                    };
                    if is_other {
                        return tokio::time::sleep(SETTLE.min(wait)).await;
                    }
                }
            }
        }
    }
}

/// Whether the status of a Node names another boot than this one.
fn is_of_another_boot(node: &Node, state: &NodeState) -> bool {
    let info = node.status.as_ref().and_then(|status| status.node_info.as_ref());
    let boot = &state.facts.machine.boot_id;
    info.is_some_and(|info| !info.boot_id.is_empty() && !boot.is_empty() && info.boot_id != *boot)
}

/// A Node that is missing was deleted, or, with `registerNode: false`, has yet to be created.
fn deleted(error: ApiError) -> ApiError {
    if error.kind() != ErrorKind::NotFound {
        return error;
    }
    error.with_hint(
        "the Node was deleted, or has yet to be created where the agent may not register it; restart the agent to \
         register the node again",
    )
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{NodeStatus, NodeSystemInfo};

    use super::*;

    #[test]
    fn a_node_is_of_another_boot_only_if_both_boots_are_known() {
        let mut state = NodeState::default();
        state.facts.machine.boot_id = "second".to_owned();
        let of = |boot: &str| {
            let info = NodeSystemInfo { boot_id: boot.to_owned(), ..NodeSystemInfo::default() };
            let status = NodeStatus { node_info: Some(info), ..NodeStatus::default() };
            Node { status: Some(status), ..Node::default() }
        };
        assert!(is_of_another_boot(&of("first"), &state));
        assert!(!is_of_another_boot(&of("second"), &state));
        assert!(!is_of_another_boot(&of(""), &state));
        assert!(!is_of_another_boot(&Node::default(), &state));
        assert!(!is_of_another_boot(&of("first"), &NodeState::default()));
    }
}

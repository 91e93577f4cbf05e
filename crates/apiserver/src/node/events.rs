//! Events of the Node, with the kubelet's reasons and messages.

use std::sync::Arc;

use agent::ports::EventType;
use k8s_openapi::api::core::v1::Node;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::conditions::NodeConditions;
use super::facts::NodeState;
use super::recorder::NodeRecorder;
use super::sync::NodeHandle;

/// Records the events of a node. The task ends when this value is dropped.
#[derive(Debug)]
pub struct NodeEvents {
    task: AbortHandle,
}

impl NodeEvents {
    /// Records that the agent starts, and from then on that the machine was rebooted, each change of the node's
    /// conditions, and whether pods may be scheduled onto it. Must be called within a tokio runtime.
    #[must_use]
    pub(crate) fn start(
        recorder: NodeRecorder,
        name: &str,
        state: watch::Receiver<NodeState>,
        handle: &NodeHandle,
    ) -> Self {
        let events = StateEvents { recorder, name: name.to_owned() };
        let watched = Watched { state, node: handle.node(), rebooted: handle.rebooted() };
        Self { task: tokio::spawn(events.run(watched)).abort_handle() }
    }
}

impl Drop for NodeEvents {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct StateEvents {
    recorder: NodeRecorder,
    name: String,
}

/// What is recorded when it changes.
struct Watched {
    state: watch::Receiver<NodeState>,
    node: watch::Receiver<Option<Arc<Node>>>,
    rebooted: watch::Receiver<bool>,
}

impl StateEvents {
    async fn run(self, watched: Watched) {
        let Watched { mut state, mut node, mut rebooted } = watched;
        self.recorder.record(EventType::Normal, "Starting", "Starting kubelet.".to_owned());
        let (mut conditions, mut is_cordoned, mut is_reboot_recorded) = (None, None, false);
        loop {
            let seen = node.borrow_and_update().clone();
            let now = state.borrow_and_update().conditions.clone();
            let is_rebooted = *rebooted.borrow_and_update();
            let mut reasons = flips(conditions.as_ref(), &now);
            conditions = Some(now);
            if let Some(node) = seen {
                let spec = node.spec.as_ref();
                let cordoned = spec.and_then(|spec| spec.unschedulable).unwrap_or(false);
                reasons.extend(cordon(is_cordoned.replace(cordoned), cordoned));
            }
            for reason in reasons {
                let message = format!("Node {} status is now: {reason}", self.name);
                self.recorder.record(EventType::Normal, reason, message);
            }
            if is_rebooted && !std::mem::replace(&mut is_reboot_recorded, true) {
                let boot = state.borrow().facts.machine.boot_id.clone();
                let message = format!("Node {} has been rebooted, boot id: {boot}", self.name);
                self.recorder.record(EventType::Warning, "Rebooted", message);
            }
            let is_open = tokio::select! {
                changed = rebooted.changed(), if !is_rebooted => changed.is_ok(),
                changed = state.changed() => changed.is_ok(),
                changed = node.changed() => changed.is_ok(),
            };
            if !is_open {
                return;
            }
        }
    }
}

/// The reasons of the conditions that have changed. At first the pressures are reported, and whether the node is ready is
/// not: its runtime has not been asked yet.
fn flips(before: Option<&NodeConditions>, now: &NodeConditions) -> Vec<&'static str> {
    let mut reasons = Vec::new();
    let mut pressure = |of: fn(&NodeConditions) -> bool, scarce, enough| {
        if before.is_none_or(|before| of(before) != of(now)) {
            reasons.push(if of(now) { scarce } else { enough });
        }
    };
    pressure(|one| one.memory_pressure, "NodeHasInsufficientMemory", "NodeHasSufficientMemory");
    pressure(|one| one.disk_pressure, "NodeHasDiskPressure", "NodeHasNoDiskPressure");
    pressure(|one| one.pid_pressure, "NodeHasInsufficientPID", "NodeHasSufficientPID");
    let is_ready = |one: &NodeConditions| one.not_ready.is_empty();
    if before.is_some_and(|before| is_ready(before) != is_ready(now)) {
        reasons.push(if is_ready(now) { "NodeReady" } else { "NodeNotReady" });
    }
    reasons
}

/// The reason, if it has changed whether pods may be scheduled.
fn cordon(was: Option<bool>, is: bool) -> Option<&'static str> {
    let reason = if is { "NodeNotSchedulable" } else { "NodeSchedulable" };
    was.is_some_and(|was| was != is).then_some(reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::NotReady;

    #[test]
    fn pressures_are_reported_at_first_and_everything_when_it_changes() {
        let start = NodeConditions::default();
        let expected = ["NodeHasSufficientMemory", "NodeHasNoDiskPressure", "NodeHasSufficientPID"];
        assert_eq!(flips(None, &start), expected);
        let ready = NodeConditions { not_ready: vec![], ..start.clone() };
        assert_eq!(flips(Some(&start), &ready), ["NodeReady"]);
        assert!(flips(Some(&ready), &ready).is_empty());
        let worse =
            NodeConditions { not_ready: vec![NotReady::RuntimeDown], disk_pressure: true, ..ready.clone() };
        assert_eq!(flips(Some(&ready), &worse), ["NodeHasDiskPressure", "NodeNotReady"]);
        // Another cause is no change of the condition.
        let other = NodeConditions { not_ready: vec![NotReady::ShuttingDown], ..worse.clone() };
        assert!(flips(Some(&worse), &other).is_empty());
    }

    #[test]
    fn a_cordon_is_reported_when_it_changes() {
        assert_eq!((cordon(None, true), cordon(Some(true), true)), (None, None));
        assert_eq!(cordon(Some(false), true), Some("NodeNotSchedulable"));
        assert_eq!(cordon(Some(true), false), Some("NodeSchedulable"));
    }
}

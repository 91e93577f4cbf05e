//! Pods that the node ends: their phase is `Failed`, however their containers end.

use agent::ports::{Clock, SystemClock};
use agent::{ConditionView, PodStatus};
use serde::{Deserialize, Serialize};

/// The condition of a pod that is ended for another one, or for the node.
const DISRUPTION_TARGET: &str = "DisruptionTarget";
const TERMINATION_BY_KUBELET: &str = "TerminationByKubelet";
const FAILED: &str = "Failed";

/// Why the node ends a pod, as the pod's status says it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EndedByNode {
    /// The reason: `Evicted`, `Preempting`.
    pub reason: String,
    /// A message for people.
    pub message: String,
    /// Whether the pod gets the condition `DisruptionTarget`: the cause is not the pod itself.
    pub is_disruption: bool,
}

impl EndedByNode {
    /// The status of a pod that has ended.
    pub(super) fn of_ended(&self, mut status: PodStatus) -> PodStatus {
        status.conditions.retain(|condition| condition.kind != DISRUPTION_TARGET);
        status.conditions.extend(self.condition());
        status.phase = FAILED.to_owned();
        (status.reason, status.message) = (Some(self.reason.clone()), Some(self.message.clone()));
        status
    }

    /// The status of a pod of which no container was ever made.
    pub(super) fn of_never_started(&self) -> PodStatus {
        let now = SystemClock.now().millis();
        let mut status = ended(FAILED, Some(&self.reason), Some(&self.message), now);
        status.conditions.extend(self.condition());
        status
    }

    fn condition(&self) -> Option<ConditionView> {
        self.is_disruption.then(|| ConditionView {
            kind: DISRUPTION_TARGET.to_owned(),
            status: "True".to_owned(),
            reason: TERMINATION_BY_KUBELET.to_owned(),
            message: self.message.clone(),
            since: SystemClock.now().millis(),
        })
    }
}

/// The status of a pod of which no container was ever made.
pub(super) fn ended(phase: &str, reason: Option<&str>, message: Option<&str>, started: u64) -> PodStatus {
    PodStatus {
        phase: phase.to_owned(),
        stage: "Terminated".to_owned(),
        reason: reason.map(str::to_owned),
        message: message.map(str::to_owned),
        started,
        ips: Vec::new(),
        conditions: Vec::new(),
        init: Vec::new(),
        containers: Vec::new(),
        ephemeral: Vec::new(),
        generation: None,
        resources: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_that_the_node_ends_has_failed_for_the_nodes_reason() {
        let end = |is_disruption| EndedByNode {
            reason: "Evicted".to_owned(),
            message: "The node was low on resource: memory. ".to_owned(),
            is_disruption,
        };
        let succeeded = ended("Succeeded", None, None, 7);
        let evicted = end(true).of_ended(succeeded.clone());
        assert_eq!((evicted.phase.as_str(), evicted.reason.as_deref()), ("Failed", Some("Evicted")));
        let [condition] = evicted.conditions.as_slice() else { panic!("{evicted:?}") };
        let words = [&condition.kind, &condition.status, &condition.reason, &condition.message];
        assert_eq!(
            words,
            ["DisruptionTarget", "True", "TerminationByKubelet", "The node was low on resource: memory. "]
        );
        assert_eq!(end(true).of_ended(evicted).conditions.len(), 1);
        // A pod that exceeds its own limits is no victim.
        assert!(end(false).of_ended(succeeded).conditions.is_empty());
        let never = end(true).of_never_started();
        assert_eq!((never.phase.as_str(), never.conditions.len()), ("Failed", 1));
    }
}

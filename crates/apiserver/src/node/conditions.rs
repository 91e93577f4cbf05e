//! The conditions of a Node, with the kubelet's reasons and messages: controllers and users know them.

use std::fmt;
use std::time::Duration;

use k8s_openapi::api::core::v1::NodeCondition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;

/// The state of a node that its conditions tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeConditions {
    /// Why the node is not ready; empty if it is.
    pub not_ready: Vec<NotReady>,
    /// Whether memory is scarce.
    pub memory_pressure: bool,
    /// Whether disk space or inodes are scarce.
    pub disk_pressure: bool,
    /// Whether process IDs are scarce.
    pub pid_pressure: bool,
}

impl Default for NodeConditions {
    /// Those of a node whose container runtime has not answered yet.
    fn default() -> Self {
        let not_ready = vec![NotReady::RuntimeStatusUnknown];
        Self { not_ready, memory_pressure: false, disk_pressure: false, pid_pressure: false }
    }
}

/// Why a node is not ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotReady {
    /// The runtime has not been asked yet.
    RuntimeStatusUnknown,
    /// The runtime has not answered for 30 seconds.
    RuntimeDown,
    /// The containers have not been listed for too long; `None`: never.
    ListStale(Option<Duration>),
    /// The runtime says that it is not ready.
    RuntimeNotReady(Cause),
    /// The runtime says that its network is not ready.
    NetworkNotReady(Cause),
    /// The `CSINode` object does not exist yet.
    CsiNodeMissing,
    /// The machine shuts down.
    ShuttingDown,
    /// Anything else.
    Other(String),
}

/// Reason and message of a runtime condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    /// A word.
    pub reason: String,
    /// A sentence.
    pub message: String,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "reason:{} message:{}", self.reason, self.message)
    }
}

impl fmt::Display for NotReady {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RuntimeStatusUnknown => {
                f.write_str("container runtime status check may not have completed yet")
            }
            Self::RuntimeDown => f.write_str("container runtime is down"),
            Self::ListStale(Some(age)) => write!(
                f,
                "PLEG is not healthy: pleg was last seen active {}m{}s ago; threshold is 3m0s",
                age.as_secs() / 60,
                age.as_secs() % 60
            ),
            Self::ListStale(None) => f.write_str("PLEG is not healthy: pleg has yet to be successful"),
            Self::RuntimeNotReady(cause) => {
                write!(f, "container runtime not ready: RuntimeReady=false {cause}")
            }
            Self::NetworkNotReady(cause) => {
                write!(f, "container runtime network not ready: NetworkReady=false {cause}")
            }
            Self::CsiNodeMissing => f.write_str("CSINode is not yet initialized"),
            Self::ShuttingDown => f.write_str("node is shutting down"),
            Self::Other(text) => f.write_str(text),
        }
    }
}

/// The words of a condition for one status.
struct Words {
    reason: &'static str,
    message: &'static str,
}

struct Pressure {
    name: &'static str,
    high: Words,
    low: Words,
}

const MEMORY: Pressure = Pressure {
    name: "MemoryPressure",
    high: Words {
        reason: "KubeletHasInsufficientMemory",
        message: "kubelet has insufficient memory available",
    },
    low: Words { reason: "KubeletHasSufficientMemory", message: "kubelet has sufficient memory available" },
};
const DISK: Pressure = Pressure {
    name: "DiskPressure",
    high: Words { reason: "KubeletHasDiskPressure", message: "kubelet has disk pressure" },
    low: Words { reason: "KubeletHasNoDiskPressure", message: "kubelet has no disk pressure" },
};
const PID: Pressure = Pressure {
    name: "PIDPressure",
    high: Words { reason: "KubeletHasInsufficientPID", message: "kubelet has insufficient PID available" },
    low: Words { reason: "KubeletHasSufficientPID", message: "kubelet has sufficient PID available" },
};

/// The moment, and the conditions of the Node as it is.
pub(super) struct Before<'a> {
    pub(super) now: Timestamp,
    pub(super) seen: &'a [NodeCondition],
}

impl NodeConditions {
    /// The four conditions that a node owns, in the kubelet's order: Ready is the last.
    pub(super) fn compute(&self, missing: &[&str], before: &Before<'_>) -> Vec<NodeCondition> {
        vec![
            before.pressure(&MEMORY, self.memory_pressure),
            before.pressure(&DISK, self.disk_pressure),
            before.pressure(&PID, self.pid_pressure),
            before.ready(self, missing),
        ]
    }
}

impl Before<'_> {
    fn pressure(&self, pressure: &Pressure, is_high: bool) -> NodeCondition {
        let words = if is_high { &pressure.high } else { &pressure.low };
        let next = self.condition(pressure.name, is_high, words.reason, words.message.to_owned());
        match self.unchanged(&next) {
            // Words of another writer stay until the status changes.
            Some(seen) => NodeCondition { last_heartbeat_time: next.last_heartbeat_time, ..seen.clone() },
            None => next,
        }
    }

    fn ready(&self, conditions: &NodeConditions, missing: &[&str]) -> NodeCondition {
        let mut causes: Vec<String> = conditions.not_ready.iter().map(ToString::to_string).collect();
        if !missing.is_empty() {
            causes.push(format!("missing node capacity for resources: {}", missing.join(", ")));
        }
        let mut next = match causes.as_slice() {
            [] => self.condition("Ready", true, "KubeletReady", "kubelet is posting ready status".to_owned()),
            [one] => self.condition("Ready", false, "KubeletNotReady", one.clone()),
            all => self.condition("Ready", false, "KubeletNotReady", format!("[{}]", all.join(", "))),
        };
        if let Some(seen) = self.unchanged(&next) {
            next.last_transition_time = seen.last_transition_time.clone();
        }
        next
    }

    fn condition(&self, name: &str, status: bool, reason: &str, message: String) -> NodeCondition {
        NodeCondition {
            type_: name.to_owned(),
            status: if status { "True" } else { "False" }.to_owned(),
            reason: Some(reason.to_owned()),
            message: Some(message),
            last_heartbeat_time: Some(Time(self.now)),
            last_transition_time: Some(Time(self.now)),
        }
    }

    /// The condition as the Node has it, if its status is the same.
    fn unchanged(&self, next: &NodeCondition) -> Option<&NodeCondition> {
        self.seen.iter().find(|seen| seen.type_ == next.type_ && seen.status == next.status)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn ready() -> NodeConditions {
        NodeConditions { not_ready: Vec::new(), ..NodeConditions::default() }
    }

    fn words(condition: &NodeCondition) -> [&str; 4] {
        let [reason, message] = [&condition.reason, &condition.message].map(|text| text.as_deref().unwrap());
        [&condition.type_, &condition.status, reason, message]
    }

    #[test]
    fn a_healthy_node_has_the_kubelets_words_and_ready_is_last() {
        let all = ready().compute(&[], &Before { now: at(1), seen: &[] });
        assert_eq!(
            all.iter().map(words).collect::<Vec<_>>(),
            [
                [
                    "MemoryPressure",
                    "False",
                    "KubeletHasSufficientMemory",
                    "kubelet has sufficient memory available"
                ],
                ["DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"],
                ["PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"],
                ["Ready", "True", "KubeletReady", "kubelet is posting ready status"],
            ]
        );
    }

    #[test]
    fn several_causes_are_listed_in_brackets() {
        let cause =
            Cause { reason: "NetworkPluginNotReady".to_owned(), message: "no CNI configuration".to_owned() };
        let not_ready = vec![NotReady::RuntimeDown, NotReady::NetworkNotReady(cause)];
        let conditions = NodeConditions { not_ready, ..ready() };
        let all = conditions.compute(&["pods"], &Before { now: at(1), seen: &[] });
        assert_eq!(
            words(&all[3]),
            [
                "Ready",
                "False",
                "KubeletNotReady",
                "[container runtime is down, container runtime network not ready: NetworkReady=false \
                 reason:NetworkPluginNotReady message:no CNI configuration, missing node capacity for resources: pods]"
            ]
        );
        let one = NodeConditions::default().compute(&[], &Before { now: at(1), seen: &[] });
        assert_eq!(words(&one[3])[3], "container runtime status check may not have completed yet");
    }

    #[test]
    fn transition_times_move_only_when_the_status_does() {
        let first = ready().compute(&[], &Before { now: at(1), seen: &[] });
        let second = ready().compute(&[], &Before { now: at(2), seen: &first });
        assert!(second.iter().all(|c| c.last_transition_time == Some(Time(at(1)))));
        assert!(second.iter().all(|c| c.last_heartbeat_time == Some(Time(at(2)))));
        let pressed = NodeConditions { memory_pressure: true, ..NodeConditions::default() };
        let third = pressed.compute(&[], &Before { now: at(3), seen: &second });
        let moved: Vec<&str> = third
            .iter()
            .filter(|c| c.last_transition_time == Some(Time(at(3))))
            .map(|c| c.type_.as_str())
            .collect();
        assert_eq!(moved, ["MemoryPressure", "Ready"]);
    }

    #[test]
    fn a_new_cause_of_the_same_status_changes_the_message_of_ready_only() {
        let first = NodeConditions::default().compute(&[], &Before { now: at(1), seen: &[] });
        let down = NodeConditions { not_ready: vec![NotReady::RuntimeDown], ..ready() };
        let second = down.compute(&[], &Before { now: at(2), seen: &first });
        assert_eq!(words(&second[3])[3], "container runtime is down");
        assert_eq!(second[3].last_transition_time, Some(Time(at(1))));
    }
}

//! Feature gates as the kubelet's configuration sets them.

use super::gate_names::{
    CLUSTER_LOCKED_OFF, CLUSTER_LOCKED_ON, CLUSTER_OFF, CLUSTER_ON, NODE_LOCKED_OFF, NODE_LOCKED_ON,
    NODE_OFF, NODE_ON,
};
use super::tree::{Node, Value};
use super::{Notice, Problem, ProblemKind};

/// A feature gate of Kubernetes 1.37.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FeatureGate {
    /// Its name.
    pub name: &'static str,
    /// Whether it is on by default.
    pub default: bool,
    /// Whether it cannot be changed.
    pub is_locked: bool,
    /// Whether it changes what a node does; others are of the API server and the controllers.
    pub is_of_nodes: bool,
}

/// Gates that the agent goes by, beside those that [`plan::Gate`] has.
pub const HONOURED_GATES: &[&str] = &[
    "CustomCPUCFSQuotaPeriod",
    "ExtendWebSocketsToKubelet",
    "GracefulNodeShutdown",
    "GracefulNodeShutdownBasedOnPodPriority",
    "KubeletCrashLoopBackOffMax",
    "KubeletEnsureSecretPulledImages",
    "KubeletServiceAccountTokenForCredentialProviders",
    "RotateKubeletServerCertificate",
];

/// Gates that stand for all of a stage.
const STAGES: [&str; 2] = ["AllAlpha", "AllBeta"];

/// Every feature gate of Kubernetes 1.37.
pub fn feature_gates() -> impl Iterator<Item = FeatureGate> {
    let lists = [
        (NODE_ON, true, false, true),
        (NODE_OFF, false, false, true),
        (NODE_LOCKED_ON, true, true, true),
        (NODE_LOCKED_OFF, false, true, true),
        (CLUSTER_ON, true, false, false),
        (CLUSTER_OFF, false, false, false),
        (CLUSTER_LOCKED_ON, true, true, false),
        (CLUSTER_LOCKED_OFF, false, true, false),
    ];
    lists.into_iter().flat_map(|(names, default, is_locked, is_of_nodes)| {
        names.iter().map(move |name| FeatureGate { name, default, is_locked, is_of_nodes })
    })
}

/// Whether a gate is on in this configuration.
pub(super) fn is_on(tree: &Node, name: &str) -> bool {
    let set =
        tree.get("featureGates").and_then(|gates| gates.entries().iter().find(|entry| entry.name == name));
    match set.map(|entry| &entry.node.value) {
        Some(Value::Bool(on)) => *on,
        _ => feature_gates().any(|gate| gate.name == name && gate.default),
    }
}

/// Whether the agent goes by a gate.
#[must_use]
pub fn is_honoured_gate(name: &str) -> bool {
    HONOURED_GATES.contains(&name) || plan::Gate::ALL.into_iter().any(|gate| gate.name() == name)
}

/// What becomes of each gate that is set.
pub(super) fn check(tree: &Node, problems: &mut Vec<Problem>, notices: &mut Vec<Notice>) {
    let Some(set) = tree.get("featureGates") else { return };
    for entry in set.entries() {
        let Value::Bool(on) = entry.node.value else { continue };
        match verdict(&entry.name, on) {
            Verdict::Fine => {}
            Verdict::NoEffect(reason) => notices.push(Notice {
                at: entry.at.clone(),
                field: format!("featureGates.{}", entry.name),
                reason: reason.to_owned(),
            }),
            Verdict::Problem { kind, cause, hint } => problems.push(Problem {
                at: entry.at.clone(),
                field: format!("featureGates.{}", entry.name),
                kind,
                cause,
                hint,
            }),
        }
    }
}

enum Verdict {
    Fine,
    NoEffect(&'static str),
    Problem { kind: ProblemKind, cause: String, hint: String },
}

fn verdict(name: &str, on: bool) -> Verdict {
    if STAGES.contains(&name) {
        return stage(name, on);
    }
    let Some(gate) = feature_gates().find(|gate| gate.name == name) else {
        let hint =
            nearest(name).map_or_else(|| "remove it".to_owned(), |gate| format!("did you mean {gate}?"));
        let cause = "Kubernetes 1.37 has no such feature gate".to_owned();
        return Verdict::Problem { kind: ProblemKind::Unknown, cause, hint };
    };
    if gate.default == on || (is_honoured_gate(name) && !gate.is_locked) {
        return Verdict::Fine;
    }
    if gate.is_locked {
        let cause = format!("the gate is locked to {} in Kubernetes 1.37", gate.default);
        return Verdict::Problem { kind: ProblemKind::Invalid, cause, hint: "remove it".to_owned() };
    }
    match (gate.is_of_nodes, on) {
        (false, _) => Verdict::NoEffect("the gate is not one of nodes"),
        (true, false) => Verdict::NoEffect("the agent has no switch for this feature"),
        (true, true) => Verdict::Problem {
            kind: ProblemKind::Refused,
            cause: "the agent does not have this feature".to_owned(),
            hint: "remove it, or run the pods that need it on a node with a kubelet".to_owned(),
        },
    }
}

fn stage(name: &str, on: bool) -> Verdict {
    if name == "AllAlpha" && !on {
        return Verdict::Fine;
    }
    Verdict::Problem {
        kind: ProblemKind::Refused,
        cause: "the agent cannot change all features of a stage at once".to_owned(),
        hint: "set the gates one by one".to_owned(),
    }
}

fn nearest(name: &str) -> Option<&'static str> {
    let score = |gate: &FeatureGate| strsim::normalized_damerau_levenshtein(gate.name, name);
    let best = feature_gates().filter(|gate| score(gate) >= 0.7).max_by(|a, b| score(a).total_cmp(&score(b)));
    best.map(|gate| gate.name)
}

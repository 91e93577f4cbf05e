//! The feature gates of this node: the defaults of its Kubernetes version, with what its configuration sets.

use node::{GateFlags, Node};
use plan::GateOrigin;

use crate::check::{Check, Desk, Evidence, Group};

const DESK: Desk = Desk::new(Group::FeatureGates, Evidence::Files);

pub(crate) fn checks(node: &Node) -> Vec<Check> {
    let settings = &node.config.settings;
    let version = settings.kubernetes_version;
    // A configuration whose gates cannot be was refused when it was read.
    let Ok(resolved) = settings.gates(GateFlags::default()) else { return Vec::new() };
    let shown = resolved.gates.iter().map(|(gate, state)| {
        let on = if state.on { "on" } else { "off" };
        let by = match state.by {
            GateOrigin::Default => format!("by default in Kubernetes {version}"),
            GateOrigin::Operator => "by featureGates of the configuration".to_owned(),
            by @ (GateOrigin::Disabled | GateOrigin::Without(_)) => by.to_string(),
        };
        DESK.shows(gate.name(), format!("{on} {by}"))
    });
    shown.collect()
}

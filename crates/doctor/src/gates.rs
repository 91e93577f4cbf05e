//! Feature gates with the defaults of the newest Kubernetes that is known here.

use plan::{Gates, KubernetesVersion};

use crate::check::{Check, Desk, Evidence, Group};

const DESK: Desk = Desk::new(Group::FeatureGates, Evidence::Files);

pub(crate) fn checks() -> Vec<Check> {
    let version = KubernetesVersion::NEWEST;
    let gates = Gates::defaults(version);
    let shown = gates.iter().map(|(gate, state)| {
        let state = if state.on { "on" } else { "off" };
        DESK.shows(gate.name(), format!("{state} by default in Kubernetes {version}"))
    });
    shown.collect()
}

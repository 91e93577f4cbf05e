use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use crate::gate::{Gate, KubernetesVersion};

/// Which gates are open, and where each setting comes from. A gate is never on while one that it needs is off.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Gates(BTreeMap<Gate, GateState>);

/// Whether a gate is on, and where that comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GateState {
    /// Whether it is on.
    pub on: bool,
    /// Where it comes from.
    pub by: GateOrigin,
}

/// Where the setting of a gate comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum GateOrigin {
    /// The version's default.
    Default,
    /// The operator.
    Operator,
    /// The version's default, but off because this gate, which it needs, is off.
    Without(Gate),
}

/// Gates that the operator sets, `A=true,B=false`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GateRequests(BTreeMap<Gate, bool>);

/// Why gates cannot be set that way.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GateError {
    /// No gate of this name is known.
    #[error("there is no feature gate {name:?}")]
    Unknown {
        /// The name.
        name: String,
        /// What may have been meant.
        nearest: Option<Gate>,
    },
    /// No value, or none that is a boolean.
    #[error("feature gate {gate} takes true or false, not {value:?}")]
    NotABoolean {
        /// The gate.
        gate: Gate,
        /// The value that was given.
        value: String,
    },
    /// On and off at once.
    #[error("feature gate {0} is set both on and off")]
    Both(Gate),
    /// On, while one that it needs is off.
    #[error("feature gate {gate} is set on, but {prerequisite}, which it needs, is off")]
    Prerequisite {
        /// The one that was set on.
        gate: Gate,
        /// The one that is off.
        prerequisite: Gate,
    },
}

impl GateError {
    /// What the user can do about it.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::Unknown { nearest: Some(gate), .. } => format!("did you mean {gate}?"),
            Self::Unknown { nearest: None, .. } => {
                format!("the gates known here are {}", Gate::ALL.map(Gate::name).join(", "))
            }
            Self::NotABoolean { gate, .. } => format!("write {gate}=true or {gate}=false"),
            Self::Both(gate) => format!("name {gate} once"),
            Self::Prerequisite { gate, prerequisite } => {
                format!("set {prerequisite}=true too, or {gate}=false")
            }
        }
    }
}

/// The resulting gates, and warnings for the operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolvedGates {
    /// The gates.
    pub gates: Gates,
    /// At most one line for each prerequisite that switched others off.
    pub warnings: Vec<String>,
}

impl Gates {
    /// The defaults of this version with the operator's settings over them.
    ///
    /// A gate that is on by default goes off with what it needs; one that the operator set on
    /// does not, that is an error.
    pub fn resolve(
        version: KubernetesVersion,
        requests: &GateRequests,
    ) -> Result<ResolvedGates, Vec<GateError>> {
        let mut gates: BTreeMap<Gate, GateState> = BTreeMap::new();
        let mut errors = Vec::new();
        for gate in Gate::ALL {
            let missing = gate.prerequisites().iter().find(|&p| !gates.get(p).is_some_and(|s| s.on)).copied();
            let state = match (requests.0.get(&gate), missing) {
                (Some(true), Some(prerequisite)) => {
                    errors.push(GateError::Prerequisite { gate, prerequisite });
                    GateState { on: false, by: GateOrigin::Without(prerequisite) }
                }
                (Some(&on), _) => GateState { on, by: GateOrigin::Operator },
                (None, Some(prerequisite)) if gate.default_in(version) => {
                    GateState { on: false, by: GateOrigin::Without(prerequisite) }
                }
                (None, _) => GateState { on: gate.default_in(version), by: GateOrigin::Default },
            };
            gates.insert(gate, state);
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        let gates = Self(gates);
        Ok(ResolvedGates { warnings: gates.warnings(), gates })
    }

    /// The defaults of this version.
    #[must_use]
    pub fn defaults(version: KubernetesVersion) -> Self {
        let state = |g: Gate| GateState { on: g.default_in(version), by: GateOrigin::Default };
        Self(Gate::ALL.into_iter().map(|g| (g, state(g))).collect())
    }

    fn warnings(&self) -> Vec<String> {
        let mut taken: BTreeMap<Gate, Vec<&str>> = BTreeMap::new();
        for (gate, state) in &self.0 {
            if let GateOrigin::Without(prerequisite) = state.by {
                taken.entry(prerequisite).or_default().push(gate.name());
            }
        }
        let line = |(p, gates): (Gate, Vec<&str>)| format!("{p} is off: {} off with it", are(&gates));
        taken.into_iter().map(line).collect()
    }

    /// Whether it is on.
    #[must_use]
    pub fn on(&self, gate: Gate) -> bool {
        self.0.get(&gate).is_some_and(|state| state.on)
    }

    /// Every gate with its state.
    pub fn iter(&self) -> impl Iterator<Item = (Gate, GateState)> {
        self.0.iter().map(|(&gate, &state)| (gate, state))
    }
}

fn are(gates: &[&str]) -> String {
    let verb = if gates.len() == 1 { "goes" } else { "go" };
    format!("{} {verb}", gates.join(" and "))
}

impl Default for Gates {
    fn default() -> Self {
        Self::defaults(KubernetesVersion::NEWEST)
    }
}

impl FromStr for Gate {
    type Err = GateError;

    fn from_str(name: &str) -> Result<Self, GateError> {
        let known = Self::ALL.into_iter().find(|g| g.name() == name);
        known.ok_or_else(|| GateError::Unknown { name: name.to_owned(), nearest: nearest(name) })
    }
}

/// What Kubernetes 1.25 to 1.27 called [`Gate::UserNamespacesSupport`].
const FORMER_NAME: &str = "UserNamespacesStatelessPodsSupport";

/// The gate whose name is most like this one, if any is like it at all.
fn nearest(name: &str) -> Option<Gate> {
    if name == FORMER_NAME {
        return Some(Gate::UserNamespacesSupport);
    }
    let name = name.to_lowercase();
    let likeness = |g: Gate| strsim::normalized_levenshtein(&name, &g.name().to_lowercase());
    let best = Gate::ALL.into_iter().max_by(|&a, &b| likeness(a).total_cmp(&likeness(b)))?;
    (likeness(best) >= 0.6).then_some(best)
}

/// What Go's and so Kubernetes' flags take for a boolean.
fn boolean(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

impl GateRequests {
    /// With this gate set too.
    pub fn set(&mut self, gate: Gate, on: bool) -> Result<(), GateError> {
        match self.0.insert(gate, on) {
            Some(before) if before != on => Err(GateError::Both(gate)),
            _ => Ok(()),
        }
    }

    fn read(&mut self, item: &str) -> Result<(), GateError> {
        let (name, value) = item.split_once('=').unwrap_or((item, ""));
        let (gate, value) = (name.trim().parse::<Gate>()?, value.trim());
        let on = boolean(value).ok_or_else(|| GateError::NotABoolean { gate, value: value.to_owned() })?;
        self.set(gate, on)
    }

    /// Reads `A=true,B=false`; every fault in it is named, not just the first.
    pub fn parse(text: &str) -> Result<Self, Vec<GateError>> {
        let mut requests = Self::default();
        let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
        let errors: Vec<_> = items.filter_map(|item| requests.read(item).err()).collect();
        if errors.is_empty() { Ok(requests) } else { Err(errors) }
    }
}

impl fmt::Display for GateOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("by default"),
            Self::Operator => f.write_str("set by the operator"),
            Self::Without(gate) => write!(f, "because {gate} is off"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(text: &str) -> Result<ResolvedGates, Vec<GateError>> {
        Gates::resolve(KubernetesVersion::NEWEST, &GateRequests::parse(text).unwrap())
    }

    #[test]
    fn a_gate_on_by_default_goes_off_with_its_prerequisite_and_one_warning() {
        let resolved = resolve("SELinuxMountReadWriteOncePod=false").unwrap();
        assert!(!resolved.gates.on(Gate::SelinuxChangePolicy) && !resolved.gates.on(Gate::SelinuxMount));
        let line = "SELinuxMountReadWriteOncePod is off: SELinuxChangePolicy and SELinuxMount go off with it";
        assert_eq!(resolved.warnings, [line]);
        let resolved = resolve("SELinuxChangePolicy=false").unwrap();
        assert_eq!(resolved.warnings, ["SELinuxChangePolicy is off: SELinuxMount goes off with it"]);
        assert!(resolve("UserNamespacesSupport=false").unwrap().warnings.is_empty());
    }

    #[test]
    fn a_gate_set_on_without_its_prerequisite_is_refused_naming_both() {
        let [error] =
            <[_; 1]>::try_from(resolve("SELinuxMount=true,SELinuxChangePolicy=false").unwrap_err()).unwrap();
        assert_eq!(
            error.to_string(),
            "feature gate SELinuxMount is set on, but SELinuxChangePolicy, which it needs, is off"
        );
        assert_eq!(error.hint(), "set SELinuxChangePolicy=true too, or SELinuxMount=false");
        let old = Gates::resolve("1.30".parse().unwrap(), &GateRequests::parse("SELinuxMount=true").unwrap());
        assert_eq!(
            old.unwrap_err(),
            [GateError::Prerequisite { gate: Gate::SelinuxMount, prerequisite: Gate::SelinuxChangePolicy }]
        );
    }

    #[test]
    fn every_combination_of_settings_is_either_sound_or_refused() {
        for version in KubernetesVersion::all() {
            for code in 0..3_u32.pow(5) {
                let mut requests = GateRequests::default();
                for (gate, place) in Gate::ALL.into_iter().zip(0..) {
                    match code / 3_u32.pow(place) % 3 {
                        0 => {}
                        digit => requests.set(gate, digit == 1).unwrap(),
                    }
                }
                let asked_on = |g: Gate| requests.0.get(&g) == Some(&true);
                match Gates::resolve(version, &requests) {
                    Ok(ResolvedGates { gates, .. }) => {
                        for gate in Gate::ALL {
                            assert!(!gates.on(gate) || gate.prerequisites().iter().all(|&p| gates.on(p)));
                            assert!(requests.0.get(&gate).is_none_or(|&on| on == gates.on(gate)));
                        }
                    }
                    Err(errors) => assert!(errors.iter().all(|e| {
                        matches!(e, GateError::Prerequisite { gate, prerequisite }
                            if asked_on(*gate) && gate.prerequisites().contains(prerequisite) && !(asked_on(*prerequisite) && prerequisite.prerequisites().is_empty()))
                    })),
                }
            }
        }
    }

    #[test]
    fn settings_are_read_as_kubernetes_reads_them() {
        let requests = GateRequests::parse(" SELinuxMount=false , UserNamespacesSupport = 1,,").unwrap();
        assert_eq!(
            requests.0.into_iter().collect::<Vec<_>>(),
            [(Gate::UserNamespacesSupport, true), (Gate::SelinuxMount, false)]
        );
        assert_eq!(GateRequests::parse("").unwrap(), GateRequests::default());
    }

    #[test]
    fn every_fault_is_named_with_what_may_have_been_meant() {
        let errors = GateRequests::parse("SELinuxMonut=true,Nonsense=1,SELinuxMount=yes,SELinuxChangePolicy")
            .unwrap_err();
        let said: Vec<_> = errors.iter().map(|e| (e.to_string(), e.hint())).collect();
        assert_eq!(
            said[0],
            ("there is no feature gate \"SELinuxMonut\"".into(), "did you mean SELinuxMount?".into())
        );
        assert!(said[1].1.starts_with("the gates known here are UserNamespacesSupport, "));
        assert_eq!(said[2].0, "feature gate SELinuxMount takes true or false, not \"yes\"");
        assert_eq!(said[3].0, "feature gate SELinuxChangePolicy takes true or false, not \"\"");
        let old_name = "UserNamespacesStatelessPodsSupport".parse::<Gate>().unwrap_err();
        assert_eq!(old_name.hint(), "did you mean UserNamespacesSupport?");
        assert!(GateRequests::parse("SELinuxMount=true,SELinuxMount=false").is_err());
    }
}

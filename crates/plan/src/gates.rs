use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use crate::gate::{FORMER_NAME, Gate, KubernetesVersion};

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
    /// The operator's switch, `policy.disabledFeatures`, which holds on every version.
    Disabled,
    /// The version's default, but off because this gate, which it needs, is off.
    Without(Gate),
}

/// Gates that the operator sets, `A=true,B=false`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GateRequests(BTreeMap<Gate, GateRequest>);

/// How the operator sets a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct GateRequest {
    on: bool,
    /// The name that it was set by.
    name: &'static str,
}

/// What the operator decides about gates.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GateSettings {
    /// The version whose gates there are.
    pub version: KubernetesVersion,
    /// Gates that are set, as far as the version allows.
    pub requests: GateRequests,
    /// Gates that are off, whatever the version: what a version locks on can be switched off here.
    pub disabled: Vec<Gate>,
}

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
    /// On as a gate, and switched off by the node's own configuration.
    #[error("feature gate {0} is set on, and policy.disabledFeatures has it off")]
    Disabled(Gate),
    /// A gate that this version does not have, or not by this name.
    #[error("Kubernetes {version} has no feature gate {name}")]
    NotInVersion {
        /// The gate.
        gate: Gate,
        /// The name that it was set by.
        name: &'static str,
        /// The version.
        version: KubernetesVersion,
    },
    /// Set to another value than the one that this version has locked.
    #[error("cannot set feature gate {gate} to {}: Kubernetes {version} has it locked to {}", !.locked, .locked)]
    Locked {
        /// The gate.
        gate: Gate,
        /// The version.
        version: KubernetesVersion,
        /// The only value that it has there.
        locked: bool,
    },
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
            Self::Disabled(gate) => format!("remove {gate} from one of the two"),
            Self::NotInVersion { gate, version, .. } => match gate.name_in(*version) {
                Some(name) => format!("its name there is {name}"),
                None => format!("it came with Kubernetes {}: remove it, or name that version", gate.since()),
            },
            Self::Locked { gate, .. } => format!(
                "remove it; to have it off on this node all the same, add {gate} to policy.disabledFeatures in the \
                 node's configuration"
            ),
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
    /// The defaults of the version with the operator's settings over them.
    ///
    /// A gate that is on by default goes off with what it needs; one that the operator set on
    /// does not, that is an error.
    pub fn resolve(settings: &GateSettings) -> Result<ResolvedGates, Vec<GateError>> {
        let GateSettings { version, requests, disabled } = settings;
        let version = *version;
        let mut gates: BTreeMap<Gate, GateState> = BTreeMap::new();
        let mut errors = Vec::new();
        for gate in Gate::ALL {
            let missing = gate.prerequisites().iter().find(|&p| !gates.get(p).is_some_and(|s| s.on)).copied();
            let request = requests.0.get(&gate);
            errors.extend(request.and_then(|request| request.fault(gate, version)));
            let state = match (request.map(|request| request.on), missing) {
                (Some(true), _) if disabled.contains(&gate) => {
                    errors.push(GateError::Disabled(gate));
                    GateState { on: false, by: GateOrigin::Disabled }
                }
                _ if disabled.contains(&gate) => GateState { on: false, by: GateOrigin::Disabled },
                (Some(true), Some(prerequisite)) => {
                    errors.push(GateError::Prerequisite { gate, prerequisite });
                    GateState { on: false, by: GateOrigin::Without(prerequisite) }
                }
                (Some(on), _) => GateState { on, by: GateOrigin::Operator },
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

    /// The same gates, but for pods in user namespaces that run: they keep them when the gate is switched off.
    #[must_use]
    pub fn for_running_user_namespaces(&self) -> Self {
        let mut gates = self.clone();
        gates.0.entry(Gate::UserNamespacesSupport).and_modify(|state| state.on = true);
        gates
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

    /// Where a gate's setting comes from.
    #[must_use]
    pub fn origin(&self, gate: Gate) -> GateOrigin {
        self.0.get(&gate).map_or(GateOrigin::Default, |state| state.by)
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

/// The gate whose name is most like this one, if any is like it at all.
fn nearest(name: &str) -> Option<Gate> {
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

impl GateRequest {
    /// Why this version does not take it.
    fn fault(self, gate: Gate, version: KubernetesVersion) -> Option<GateError> {
        let Self { on, name } = self;
        let locked = gate.default_in(version);
        if gate.name_in(version) != Some(name) {
            Some(GateError::NotInVersion { gate, name, version })
        } else if gate.is_locked_in(version) && on != locked {
            Some(GateError::Locked { gate, version, locked })
        } else {
            None
        }
    }
}

impl GateRequests {
    /// With the gate of this name set too.
    ///
    /// # Errors
    /// If there is no gate of this name, or if it has been set to the other value.
    pub fn set(&mut self, name: &str, on: bool) -> Result<(), GateError> {
        let (gate, name) = match name {
            FORMER_NAME => (Gate::UserNamespacesSupport, FORMER_NAME),
            name => name.parse::<Gate>().map(|gate| (gate, gate.name()))?,
        };
        match self.0.insert(gate, GateRequest { on, name }) {
            Some(before) if before.on != on => Err(GateError::Both(gate)),
            _ => Ok(()),
        }
    }

    /// These requests, with others over them.
    #[must_use]
    pub fn overridden_by(mut self, others: Self) -> Self {
        self.0.extend(others.0);
        self
    }

    fn read(&mut self, item: &str) -> Result<(), GateError> {
        let (name, value) = item.split_once('=').unwrap_or((item, ""));
        let (name, value) = (name.trim(), value.trim());
        let wrong = |gate| GateError::NotABoolean { gate, value: value.to_owned() };
        match boolean(value) {
            Some(on) => self.set(name, on),
            None => Err(name.parse().map_or_else(|unknown| unknown, wrong)),
        }
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
            Self::Disabled => f.write_str("by policy.disabledFeatures"),
            Self::Without(gate) => write!(f, "because {gate} is off"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(version: &str, text: &str, disabled: &[Gate]) -> Result<ResolvedGates, Vec<GateError>> {
        Gates::resolve(&GateSettings {
            version: version.parse().unwrap(),
            requests: GateRequests::parse(text).unwrap(),
            disabled: disabled.to_vec(),
        })
    }

    #[test]
    fn a_gate_on_by_default_goes_off_with_its_prerequisite_and_one_warning() {
        let resolved = resolve("1.37", "", &[Gate::SelinuxMountReadWriteOncePod]).unwrap();
        assert!(!resolved.gates.on(Gate::SelinuxChangePolicy) && !resolved.gates.on(Gate::SelinuxMount));
        let line = "SELinuxMountReadWriteOncePod is off: SELinuxChangePolicy and SELinuxMount go off with it";
        assert_eq!(resolved.warnings, [line]);
        let resolved = resolve("1.37", "", &[Gate::SelinuxChangePolicy]).unwrap();
        assert_eq!(resolved.warnings, ["SELinuxChangePolicy is off: SELinuxMount goes off with it"]);
        assert!(resolve("1.35", "UserNamespacesSupport=false", &[]).unwrap().warnings.is_empty());
    }

    #[test]
    fn a_gate_set_on_without_its_prerequisite_is_refused_naming_both() {
        let refused = resolve("1.35", "SELinuxMount=true,SELinuxChangePolicy=false", &[]).unwrap_err();
        let [error] = <[_; 1]>::try_from(refused).unwrap();
        assert_eq!(
            error.to_string(),
            "feature gate SELinuxMount is set on, but SELinuxChangePolicy, which it needs, is off"
        );
        assert_eq!(error.hint(), "set SELinuxChangePolicy=true too, or SELinuxMount=false");
        let without =
            [GateError::Prerequisite { gate: Gate::SelinuxMount, prerequisite: Gate::SelinuxChangePolicy }];
        assert_eq!(resolve("1.30", "SELinuxMount=true", &[]).unwrap_err(), without);
        let switched_off = resolve("1.37", "SELinuxMount=true", &[Gate::SelinuxChangePolicy]);
        assert_eq!(switched_off.unwrap_err(), without);
    }

    #[test]
    fn a_gate_that_the_version_locks_or_does_not_have_is_refused_by_name() {
        let said = |version: &str, text: &str| {
            let errors = resolve(version, text, &[]).unwrap_err();
            errors.iter().map(|e| format!("{e}; {}", e.hint())).collect::<Vec<_>>()
        };
        let locked = "cannot set feature gate UserNamespacesSupport to false: Kubernetes 1.37 has it locked to true; \
                      remove it; to have it off on this node all the same, add UserNamespacesSupport to \
                      policy.disabledFeatures in the node's configuration";
        assert_eq!(said("1.37", "UserNamespacesSupport=false"), [locked]);
        assert!(resolve("1.37", "UserNamespacesSupport=true,SELinuxMount=false", &[]).is_ok());
        assert!(resolve("1.35", "UserNamespacesSupport=false", &[]).is_ok());
        assert_eq!(
            said("1.31", "SELinuxChangePolicy=true"),
            [
                "Kubernetes 1.31 has no feature gate SELinuxChangePolicy; it came with Kubernetes 1.32: remove it, or name that version"
            ]
        );
        let renamed = "its name there is UserNamespacesStatelessPodsSupport";
        assert!(said("1.27", "UserNamespacesSupport=true")[0].ends_with(renamed));
        assert!(resolve("1.27", "UserNamespacesStatelessPodsSupport=true", &[]).is_ok());
        let renamed = "its name there is UserNamespacesSupport";
        assert!(said("1.37", "UserNamespacesStatelessPodsSupport=true")[0].ends_with(renamed));
    }

    #[test]
    fn a_switched_off_gate_is_off_on_every_version_and_cannot_be_set_on() {
        for version in KubernetesVersion::all() {
            let gates = resolve(&version.to_string(), "", &Gate::ALL).unwrap().gates;
            assert!(gates.iter().all(|(_, state)| !state.on && state.by == GateOrigin::Disabled));
        }
        let both = resolve("1.37", "SELinuxMount=true", &[Gate::SelinuxMount]).unwrap_err();
        assert_eq!(both, [GateError::Disabled(Gate::SelinuxMount)]);
    }

    #[test]
    fn every_combination_of_settings_is_either_sound_or_refused() {
        for version in KubernetesVersion::all() {
            for code in 0..3_u32.pow(5) {
                let mut requests = GateRequests::default();
                for (gate, place) in Gate::ALL.into_iter().zip(0..) {
                    match (code / 3_u32.pow(place) % 3, gate.name_in(version)) {
                        (0, _) | (_, None) => {}
                        (digit, Some(name)) => requests.set(name, digit == 1).unwrap(),
                    }
                }
                let asked = |g: Gate| requests.0.get(&g).map(|request| request.on);
                let settings = GateSettings { version, requests: requests.clone(), disabled: Vec::new() };
                match Gates::resolve(&settings) {
                    Ok(ResolvedGates { gates, .. }) => {
                        for gate in Gate::ALL {
                            assert!(!gates.on(gate) || gate.prerequisites().iter().all(|&p| gates.on(p)));
                            assert!(asked(gate).is_none_or(|on| on == gates.on(gate)));
                        }
                    }
                    Err(errors) => assert!(errors.iter().all(|e| match e {
                        GateError::Prerequisite { gate, prerequisite } => {
                            asked(*gate) == Some(true)
                                && gate.prerequisites().contains(prerequisite)
                                && !(asked(*prerequisite) == Some(true)
                                    && prerequisite.prerequisites().is_empty())
                        }
                        GateError::Locked { gate, .. } => {
                            gate.is_locked_in(version) && asked(*gate) == Some(false)
                        }
                        _ => false,
                    })),
                }
            }
        }
    }

    #[test]
    fn settings_are_read_as_kubernetes_reads_them() {
        let requests = GateRequests::parse(" SELinuxMount=false , UserNamespacesSupport = 1,,").unwrap();
        let set: Vec<_> = requests.0.into_iter().map(|(gate, request)| (gate, request.on)).collect();
        assert_eq!(set, [(Gate::UserNamespacesSupport, true), (Gate::SelinuxMount, false)]);
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
        assert!(GateRequests::parse("SELinuxMount=true,SELinuxMount=false").is_err());
    }
}

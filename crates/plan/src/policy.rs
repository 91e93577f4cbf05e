use serde::{Deserialize, Serialize};

use types::ChangePolicy;

use crate::gate::Gate;
use crate::gates::Gates;
use crate::intent::VolumeChoice;
use crate::volume::VolumeKind;

/// The operator's choices.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Policy {
    /// The feature gates.
    pub gates: Gates,
    /// Everything else.
    pub rules: Rules,
}

/// The operator's choices except the gates, as in the configuration file.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Rules {
    /// How volumes are presented to pods with a user namespace.
    pub volumes: VolumePolicy,
    /// Features that are off on this node, by their gates' names, also where the Kubernetes version has them locked on.
    /// Pods that run in a user namespace keep it.
    pub disabled_features: Vec<Gate>,
    /// What happens to a pod that asks for what a closed gate withholds.
    pub on_closed_gate: OnClosedGate,
    /// What happens to a pod that leaves `hostUsers` unset.
    pub isolate: Isolate,
    /// The policy of pods without a `seLinuxChangePolicy` of their own.
    pub default_change_policy: Option<ChangePolicy>,
    /// Sysctls that pods may set besides the safe ones: names, or beginnings of names that end with `*`.
    pub allowed_unsafe_sysctls: Vec<String>,
}

/// How volumes are presented to pods with a user namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct VolumePolicy {
    /// The first one that matches a volume applies.
    pub rules: Vec<VolumeRuleFor>,
    /// Applies to volumes that none matches.
    pub otherwise: VolumeRule,
    /// What happens to a volume under the rule `own` that cannot be idmapped.
    pub cannot_idmap: CannotIdmap,
    /// What happens to an isolated pod that could leave a set-user-ID program of the host's root on the host.
    pub host_setuid: HostSetuid,
    /// What a pod may choose for itself by annotation.
    pub pods_may_choose: Vec<VolumeChoice>,
}

/// What happens to an isolated pod that can write to a path of the host where set-user-ID bits count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum HostSetuid {
    /// It starts, with a warning.
    #[default]
    Warn,
    /// It does not start.
    Refuse,
}

/// A rule for some volumes: of these kinds (any, where none is named) on these filesystems (any,
/// where none is named).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct VolumeRuleFor {
    /// The kinds, by their field's name in a pod: `hostPath`.
    #[serde(default)]
    pub kinds: Vec<VolumeKind>,
    /// The filesystems, by the kernel's name: `nfs`.
    #[serde(default)]
    pub filesystems: Vec<String>,
    /// The rule.
    pub rule: VolumeRule,
}

/// How a volume is presented.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum VolumeRule {
    /// Idmapped to the pod's own block.
    #[default]
    Own,
    /// The pod gets the block that all such pods have in common, and the files are that block's.
    SharedBlock,
    /// Idmapped to the pod's own block if the node makes it for the pod; refused otherwise.
    EphemeralOnly,
    /// Its files are given to the pod's block, once, with a journal.
    ChownOnce,
    /// A pod with such a volume gets no user namespace, so it does not start.
    Refuse,
}

/// What happens to a volume that cannot be idmapped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum CannotIdmap {
    /// The pod does not start.
    #[default]
    Refuse,
    /// As the rule `sharedBlock`.
    SharedBlock,
    /// As the rule `chownOnce`.
    ChownOnce,
}

/// What happens to a pod that asks for what a closed gate withholds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum OnClosedGate {
    /// It runs as it did before there was the gate, and is reported.
    #[default]
    AsBefore,
    /// It does not start.
    Refuse,
}

/// What happens to a pod that leaves `hostUsers` unset.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Isolate {
    /// It has none.
    #[default]
    #[serde(rename = "whenAsked")]
    WhenAsked,
    /// It has one where it loses nothing by it.
    #[serde(rename = "whenSafe", alias = "isolateWhenSafe")]
    WhenSafe,
}

impl Default for VolumePolicy {
    /// A pod may only choose to be stricter.
    fn default() -> Self {
        Self {
            rules: Vec::new(),
            otherwise: VolumeRule::Own,
            cannot_idmap: CannotIdmap::Refuse,
            host_setuid: HostSetuid::Warn,
            pods_may_choose: vec![VolumeChoice::Refuse, VolumeChoice::EphemeralOnly],
        }
    }
}

impl VolumePolicy {
    /// The rule that the operator wrote for such a volume.
    pub(crate) fn rule_for(&self, kind: &VolumeKind, filesystem: Option<&str>) -> Option<VolumeRule> {
        let on =
            |named: &[String]| named.is_empty() || filesystem.is_some_and(|f| named.iter().any(|n| n == f));
        let matches =
            |r: &&VolumeRuleFor| (r.kinds.is_empty() || r.kinds.contains(kind)) && on(&r.filesystems);
        self.rules.iter().find(matches).map(|r| r.rule)
    }

    /// The rule where no other matches, with the pod's own choice. A choice never opens what the operator closed for
    /// volumes of all kinds.
    pub(crate) fn fallback(&self, choice: Option<VolumeChoice>) -> (VolumeRule, CannotIdmap) {
        let closed = matches!(self.otherwise, VolumeRule::EphemeralOnly | VolumeRule::Refuse);
        let rule = if closed { self.otherwise } else { VolumeRule::Own };
        match choice {
            None => (self.otherwise, self.cannot_idmap),
            Some(VolumeChoice::Refuse) => (rule, CannotIdmap::Refuse),
            Some(VolumeChoice::SharedBlock) => (rule, CannotIdmap::SharedBlock),
            Some(VolumeChoice::ChownOnce) => (rule, CannotIdmap::ChownOnce),
            Some(VolumeChoice::EphemeralOnly) if self.otherwise == VolumeRule::Refuse => {
                (rule, CannotIdmap::Refuse)
            }
            Some(VolumeChoice::EphemeralOnly) => (VolumeRule::EphemeralOnly, CannotIdmap::Refuse),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_rule_that_matches_holds() {
        let text = r#"{"rules":[
            {"kinds":["hostPath"],"filesystems":["nfs"],"rule":"refuse"},
            {"kinds":["hostPath"],"rule":"sharedBlock"},
            {"filesystems":["nfs"],"rule":"chownOnce"}]}"#;
        let policy: VolumePolicy = serde_json::from_str(text).unwrap();
        let rule = |kind: &str, fs| policy.rule_for(&VolumeKind(kind.into()), fs);
        assert_eq!(rule("hostPath", Some("nfs")), Some(VolumeRule::Refuse));
        assert_eq!(rule("hostPath", None), Some(VolumeRule::SharedBlock));
        assert_eq!(rule("persistentVolumeClaim", Some("nfs")), Some(VolumeRule::ChownOnce));
        assert_eq!(rule("persistentVolumeClaim", None), None);
    }

    #[test]
    fn a_misspelt_rule_is_refused() {
        assert!(serde_json::from_str::<Rules>(r#"{"onClosedGates":"refuse"}"#).is_err());
        assert!(serde_json::from_str::<Rules>(r#"{"onClosedGate":"refuse"}"#).is_ok());
    }
}

//! Whether a pod's volume is mounted with the pod's label: the kubelet's rules, for the planner and the conflict engine
//! alike.

use serde::Serialize;

/// The gates that matter here. By default as in Kubernetes 1.37: all on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MountGates {
    /// `SELinuxMountReadWriteOncePod`. Without it no volume is mounted with a label, whatever the others.
    pub read_write_once_pod: bool,
    /// `SELinuxChangePolicy`. Without it no pod's policy counts.
    pub change_policy: bool,
    /// `SELinuxMount`. Without it only ReadWriteOncePod volumes are mounted with a label; what it would change on
    /// others is [`Counted`](Reach::Counted).
    pub mount: bool,
}

impl Default for MountGates {
    fn default() -> Self {
        Self { read_write_once_pod: true, change_policy: true, mount: true }
    }
}

/// How a pod has a volume, as far as the gates look at it; under the same gates a later one reaches as far as an earlier
/// one, or further.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// The pod itself names it, and no CSI driver provides it.
    InPod,
    /// A persistent volume, or one that the pod names and that Kubernetes hands to a CSI driver as a persistent one.
    Persistent,
    /// A persistent volume whose only access mode is ReadWriteOncePod.
    OnePod,
}

/// The labels that the containers of a pod ask for on one volume. Options that say nothing ask for the empty label; a
/// container without options asks for nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LabelCount {
    /// None, or the empty one only.
    None,
    /// One.
    One,
    /// Several, of which one may be empty.
    Several,
}

/// Whether a pod waits, or does not start, under the gates as they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Reach {
    /// It starts, and the kubelet counts a warning. On a persistent volume it will not under `SELinuxMount`.
    Counted,
    /// It does: of two pods the second, of a pod with several labels the pod itself.
    Enforced,
}

/// All that the decision depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MountCase {
    /// The gates.
    pub gates: MountGates,
    /// How the pod has the volume.
    pub scope: Scope,
    /// Whether what provides the volume can mount it with a label.
    pub driver_mounts: bool,
    /// Whether the policy that holds for the pod is `Recursive`.
    pub is_recursive: bool,
    /// What its containers ask for.
    pub labels: LabelCount,
}

/// What a pod asks of a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MountDecision {
    /// Nothing that concerns other pods: the gate is off, or the driver mounts without labels.
    Unlabelled,
    /// No label. A pod that asks for one conflicts with it.
    NoLabel(Reach),
    /// Its label. If enforced, the volume is mounted with it. A pod that asks for another, or for none, conflicts.
    Label(Reach),
    /// Several labels at once. No policy and no driver changes that: if enforced, the pod does not start.
    Several(Reach),
}

impl Reach {
    /// How far the gates reach on a volume, while `SELinuxMountReadWriteOncePod` is on.
    #[must_use]
    pub fn of(gates: MountGates, scope: Scope) -> Self {
        match scope {
            Scope::OnePod => Self::Enforced,
            Scope::Persistent if gates.mount => Self::Enforced,
            Scope::Persistent | Scope::InPod => Self::Counted,
        }
    }
}

impl MountDecision {
    /// Decides as the kubelet does. It compares the containers' labels before it looks at the policy and the driver.
    #[must_use]
    pub fn of(case: MountCase) -> Self {
        if !case.gates.read_write_once_pod {
            return Self::Unlabelled;
        }
        let reach = Reach::of(case.gates, case.scope);
        match case.labels {
            LabelCount::Several => Self::Several(reach),
            _ if !case.driver_mounts => Self::Unlabelled,
            LabelCount::One if !case.is_recursive => Self::Label(reach),
            LabelCount::One | LabelCount::None => Self::NoLabel(reach),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEWEST: MountGates = MountGates { read_write_once_pod: true, change_policy: true, mount: true };
    const BEFORE: MountGates = MountGates { mount: false, ..NEWEST };
    const OFF: MountGates = MountGates { read_write_once_pod: false, ..NEWEST };
    const CASE: MountCase = MountCase {
        gates: NEWEST,
        scope: Scope::Persistent,
        driver_mounts: true,
        is_recursive: false,
        labels: LabelCount::One,
    };

    #[test]
    fn each_case_is_decided_as_the_kubelet_decides_it() {
        use {LabelCount as L, MountDecision as D, Reach as R};
        let several = MountCase { labels: L::Several, ..CASE };
        let cases = [
            ("a label", CASE, D::Label(R::Enforced)),
            ("no label", MountCase { labels: L::None, ..CASE }, D::NoLabel(R::Enforced)),
            ("Recursive", MountCase { is_recursive: true, ..CASE }, D::NoLabel(R::Enforced)),
            ("a driver that cannot", MountCase { driver_mounts: false, ..CASE }, D::Unlabelled),
            ("the gate is off", MountCase { gates: OFF, ..CASE }, D::Unlabelled),
            ("before SELinuxMount", MountCase { gates: BEFORE, ..CASE }, D::Label(R::Counted)),
            (
                "before SELinuxMount, ReadWriteOncePod",
                MountCase { gates: BEFORE, scope: Scope::OnePod, ..CASE },
                D::Label(R::Enforced),
            ),
            ("named in the pod", MountCase { scope: Scope::InPod, ..CASE }, D::Label(R::Counted)),
            ("several labels", several, D::Several(R::Enforced)),
            ("several, Recursive", MountCase { is_recursive: true, ..several }, D::Several(R::Enforced)),
            (
                "several, a driver that cannot",
                MountCase { driver_mounts: false, ..several },
                D::Several(R::Enforced),
            ),
            (
                "several, named in the pod",
                MountCase { scope: Scope::InPod, ..several },
                D::Several(R::Counted),
            ),
            ("several, before SELinuxMount", MountCase { gates: BEFORE, ..several }, D::Several(R::Counted)),
            ("several, the gate is off", MountCase { gates: OFF, ..several }, D::Unlabelled),
        ];
        for (name, case, decision) in cases {
            assert_eq!(MountDecision::of(case), decision, "{name}");
        }
    }
}

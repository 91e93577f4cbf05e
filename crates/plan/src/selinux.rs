//! The decision how a volume gets its label, and why.

use selinux::{self as mounting, Label, LabelCount, MountCase, MountDecision, MountGates, Scope};
use serde::{Deserialize, Serialize};

use types::{AccessMode, ChangePolicy};

use crate::gate::Gate;
use crate::gates::Gates;
use crate::volume::{PersistentSource, VolumeSource};

/// All that the decision depends on. Whether a part of the volume is mounted (`subPath`) is not
/// among it: a context holds for the whole volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Case<'a> {
    /// Whether SELinux is on here.
    pub selinux: Enabled,
    /// The feature gates.
    pub gates: &'a Gates,
    /// The pod's policy.
    pub pod_policy: Option<ChangePolicy>,
    /// The operator's policy for pods without one.
    pub node_policy: Option<ChangePolicy>,
    /// The volume.
    pub volume: &'a VolumeSource,
    /// The file labels of the containers that mount it. A container without a level has none, nor
    /// has a privileged one, whatever its options say.
    pub labels: Vec<Label>,
    /// Whether one of them has options that say nothing: it asks for the empty label, which is a label of its own.
    pub empty_options: bool,
}

/// Whether SELinux is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Enabled {
    /// It is, enforcing or not.
    Yes,
    /// It is not.
    No,
}

/// How a volume gets its label.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Labelling {
    /// It is mounted with this context.
    Mount(Label),
    /// The runtime relabels what it hands to each container, if the filesystem keeps labels.
    Relabel,
    /// Not at all.
    None,
    /// Its containers have all of these, and a persistent volume takes one: the pod does not start.
    Impossible(Vec<Label>),
}

/// Whether pods that want another label have to wait for each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Reach {
    /// They have to.
    Enforced,
    /// They would have to under the gate `SELinuxMount`; until then they are counted.
    Counted,
    /// They never have to wait.
    None,
}

/// What was decided for a volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VolumeLabel {
    /// How it gets its label.
    pub how: Labelling,
    /// The context it would be mounted with if its access mode did not matter.
    pub wanted: Option<Label>,
    /// Whether other pods have to wait.
    pub reach: Reach,
    /// The row of the table that decided.
    pub why: String,
}

/// Why a volume gets no context. The first row that matches says it.
struct Row {
    holds: fn(&Case<'_>) -> bool,
    why: &'static str,
}

const WHY: [Row; 9] = [
    Row { holds: |c| c.selinux == Enabled::No, why: "SELinux is off on this node" },
    Row {
        holds: |c| !c.gates.on(Gate::SelinuxMountReadWriteOncePod),
        why: "feature gate SELinuxMountReadWriteOncePod is off",
    },
    Row {
        holds: |c| matches!(c.decision(), MountDecision::Several(mounting::Reach::Enforced)),
        why: "its containers have several labels, and a persistent volume takes one",
    },
    Row {
        holds: |c| matches!(c.volume, VolumeSource::Claim { .. }),
        why: "what the claim is bound to is not known here",
    },
    Row { holds: |c| c.scope() == Scope::InPod, why: "only persistent volumes are mounted with a context" },
    Row { holds: |c| !driver_can(c.volume), why: "its driver does not say that it can mount with a context" },
    Row {
        holds: |c| mounting::Reach::of(c.mount_gates(), c.scope()) == mounting::Reach::Counted,
        why: "feature gate SELinuxMount is off and its access mode is not ReadWriteOncePod alone",
    },
    Row { holds: |c| c.policy() == ChangePolicy::Recursive, why: "the change policy is Recursive" },
    Row { holds: |c| c.labels.is_empty(), why: "no unprivileged container that mounts it has a level" },
];

const MOUNTED: &str = "its driver can mount it with the pod's own label";

/// How this volume gets its label. Whether it is mounted with one is [`MountDecision`]'s answer, which the conflict
/// engine asks for too.
#[must_use]
pub fn decide(case: &Case<'_>) -> VolumeLabel {
    let why = WHY.iter().find(|row| (row.holds)(case)).map_or(MOUNTED, |row| row.why).to_owned();
    if case.selinux == Enabled::No {
        return VolumeLabel { how: Labelling::None, wanted: None, reach: Reach::None, why };
    }
    let as_before = if relabelled(case.volume) { Labelling::Relabel } else { Labelling::None };
    let labels = distinct(&case.labels);
    let first = labels.first().cloned();
    let (how, wanted, reach) = match case.decision() {
        MountDecision::Several(mounting::Reach::Enforced) => {
            (Labelling::Impossible(labels), None, Reach::Enforced)
        }
        MountDecision::Label(reach @ mounting::Reach::Enforced) => {
            (first.clone().map_or(as_before, Labelling::Mount), first, reach.into())
        }
        MountDecision::Label(reach) => (as_before, first, reach.into()),
        MountDecision::NoLabel(reach) => (as_before, None, reach.into()),
        MountDecision::Several(_) if driver_can(case.volume) => (as_before, None, Reach::Counted),
        MountDecision::Several(_) | MountDecision::Unlabelled => (as_before, None, Reach::None),
    };
    VolumeLabel { how, wanted, reach, why }
}

impl From<mounting::Reach> for Reach {
    fn from(reach: mounting::Reach) -> Self {
        match reach {
            mounting::Reach::Enforced => Self::Enforced,
            mounting::Reach::Counted => Self::Counted,
        }
    }
}

fn distinct(labels: &[Label]) -> Vec<Label> {
    let mut labels = labels.to_vec();
    labels.sort();
    labels.dedup();
    labels
}

impl Case<'_> {
    /// The effective policy. The pod's own counts only under its gate; the operator's always.
    fn policy(&self) -> ChangePolicy {
        let pod = self.pod_policy.filter(|_| self.gates.on(Gate::SelinuxChangePolicy));
        pod.or(self.node_policy).unwrap_or(ChangePolicy::MountOption)
    }

    fn mount_gates(&self) -> MountGates {
        MountGates {
            read_write_once_pod: self.gates.on(Gate::SelinuxMountReadWriteOncePod),
            change_policy: self.gates.on(Gate::SelinuxChangePolicy),
            mount: self.gates.on(Gate::SelinuxMount),
        }
    }

    /// A claim has a persistent volume, whichever it is.
    fn scope(&self) -> Scope {
        match (self.volume, self.volume.persistent()) {
            (_, Some(pv)) if pv.access_modes == [AccessMode::ReadWriteOncePod] => Scope::OnePod,
            (_, Some(_)) | (VolumeSource::Claim { .. }, _) => Scope::Persistent,
            _ => Scope::InPod,
        }
    }

    fn decision(&self) -> MountDecision {
        let labels = match distinct(&self.labels).as_slice() {
            [] => LabelCount::None,
            [_] if !self.empty_options => LabelCount::One,
            _ => LabelCount::Several,
        };
        MountDecision::of(MountCase {
            gates: self.mount_gates(),
            scope: self.scope(),
            driver_mounts: driver_can(self.volume),
            is_recursive: self.policy() == ChangePolicy::Recursive,
            labels,
        })
    }
}

/// Whether what provides the volume can mount it with a context.
fn driver_can(volume: &VolumeSource) -> bool {
    let Some(pv) = volume.persistent() else { return false };
    match &pv.source {
        PersistentSource::Iscsi | PersistentSource::FibreChannel => true,
        PersistentSource::Csi { selinux_mount, .. } => *selinux_mount == Some(true),
        _ => false,
    }
}

/// Whether the runtime is asked to relabel such a volume. Never what is not the pod's own: paths of
/// the host, servers' trees, images.
fn relabelled(volume: &VolumeSource) -> bool {
    match volume {
        VolumeSource::HostPath { .. } | VolumeSource::Nfs | VolumeSource::Image => false,
        VolumeSource::Persistent(pv) => {
            !matches!(pv.source, PersistentSource::HostPath { .. } | PersistentSource::Nfs)
        }
        _ => true,
    }
}

/// What happens to a second pod with a volume that a first one has on the same node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meeting {
    /// It starts.
    Starts,
    /// It waits until the first has gone.
    Waits,
    /// It starts, and is counted as one that would wait under the gate `SELinuxMount`.
    Counted,
}

impl VolumeLabel {
    /// What happens to the `second` pod on this node, while one with this label has the volume.
    #[must_use]
    pub fn meets(&self, second: &Self) -> Meeting {
        match second.reach {
            _ if self.wanted == second.wanted => Meeting::Starts,
            Reach::Enforced => Meeting::Waits,
            Reach::Counted => Meeting::Counted,
            Reach::None => Meeting::Starts,
        }
    }
}

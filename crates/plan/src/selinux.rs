//! The decision how a volume gets its label, as one table.

use selinux::Label;
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
    /// It would have to be mounted with all of these at once.
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

/// The outcome of a row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Nothing,
    /// The behaviour before such mounts existed.
    AsBefore(Reach),
    Mount,
}

struct Row {
    holds: fn(&Case<'_>) -> bool,
    outcome: Outcome,
    why: &'static str,
}

/// The first row that matches decides.
const TABLE: [Row; 9] = [
    Row {
        holds: |c| c.selinux == Enabled::No,
        outcome: Outcome::Nothing,
        why: "SELinux is off on this node",
    },
    Row {
        holds: |c| !c.gates.on(Gate::SelinuxMountReadWriteOncePod),
        outcome: Outcome::AsBefore(Reach::None),
        why: "feature gate SELinuxMountReadWriteOncePod is off",
    },
    Row {
        holds: |c| matches!(c.volume, VolumeSource::Claim { .. }),
        outcome: Outcome::AsBefore(Reach::None),
        why: "what the claim is bound to is not known here",
    },
    Row {
        holds: |c| !matches!(c.volume, VolumeSource::Persistent(_)),
        outcome: Outcome::AsBefore(Reach::None),
        why: "only persistent volumes are mounted with a context",
    },
    Row {
        holds: |c| !driver_can(c.volume),
        outcome: Outcome::AsBefore(Reach::None),
        why: "its driver does not say that it can mount with a context",
    },
    Row {
        holds: |c| !c.eligible(),
        outcome: Outcome::AsBefore(Reach::Counted),
        why: "feature gate SELinuxMount is off and its access mode is not ReadWriteOncePod alone",
    },
    Row {
        holds: |c| c.policy() == ChangePolicy::Recursive,
        outcome: Outcome::AsBefore(Reach::Enforced),
        why: "the change policy is Recursive",
    },
    Row {
        holds: |c| c.labels.is_empty(),
        outcome: Outcome::AsBefore(Reach::Enforced),
        why: "no unprivileged container that mounts it has a level",
    },
    Row { holds: |_| true, outcome: Outcome::Mount, why: "its driver can mount it with the pod's own label" },
];

/// How this volume gets its label.
#[must_use]
pub fn decide(case: &Case<'_>) -> VolumeLabel {
    let (outcome, why) = TABLE
        .iter()
        .find(|row| (row.holds)(case))
        .map_or((Outcome::Nothing, ""), |row| (row.outcome, row.why));
    let (how, reach) = match outcome {
        Outcome::Nothing => (Labelling::None, Reach::None),
        Outcome::AsBefore(reach) if relabelled(case.volume) => (Labelling::Relabel, reach),
        Outcome::AsBefore(reach) => (Labelling::None, reach),
        Outcome::Mount => (mount(&case.labels), Reach::Enforced),
    };
    VolumeLabel { how, wanted: case.wanted(reach), reach, why: why.to_owned() }
}

fn distinct(labels: &[Label]) -> Vec<Label> {
    let mut labels = labels.to_vec();
    labels.sort();
    labels.dedup();
    labels
}

fn mount(labels: &[Label]) -> Labelling {
    let labels = distinct(labels);
    match labels.as_slice() {
        [one] => Labelling::Mount(one.clone()),
        _ => Labelling::Impossible(labels),
    }
}

impl Case<'_> {
    /// The effective policy. The pod's own counts only under its gate; the operator's always.
    fn policy(&self) -> ChangePolicy {
        let pod = self.pod_policy.filter(|_| self.gates.on(Gate::SelinuxChangePolicy));
        pod.or(self.node_policy).unwrap_or(ChangePolicy::MountOption)
    }

    /// Whether the gates allow a context for a volume with such access modes.
    fn eligible(&self) -> bool {
        let once_pod = |modes: &[AccessMode]| modes == [AccessMode::ReadWriteOncePod];
        self.gates.on(Gate::SelinuxMount)
            || matches!(self.volume, VolumeSource::Persistent(pv) if once_pod(&pv.access_modes))
    }

    fn wanted(&self, reach: Reach) -> Option<Label> {
        if reach == Reach::None || self.policy() == ChangePolicy::Recursive {
            return None;
        }
        match mount(&self.labels) {
            Labelling::Mount(label) => Some(label),
            _ => None,
        }
    }
}

/// Whether what provides the volume can mount it with a context.
fn driver_can(volume: &VolumeSource) -> bool {
    let VolumeSource::Persistent(pv) = volume else { return false };
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

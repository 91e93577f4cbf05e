//! What there is to say about one pod and a volume, without another pod.

use selinux::{MountDecision, PartialLabel, Reach};

use types::ChangePolicy;

use crate::ask::Labels;
use crate::engine::Engine;
use crate::keys::{PodKey, VolumeId};
use crate::row::Row;
use crate::rules::PrivilegedOptions;
use crate::wishes::{Used, used};

/// Something about one pod and one of its volumes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remark<'e> {
    /// The pod.
    pub pod: &'e PodKey,
    /// What the pod calls the volume; the first of its names.
    pub name: &'e str,
    /// The volume.
    pub volume: &'e VolumeId,
    /// What there is to say.
    pub says: Says,
}

/// What there is to say about a pod's volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Says {
    /// Its containers ask for several labels on one volume, whatever its policy and driver: upstream's
    /// `MultipleSELinuxLabels`. Conflicts with others are not looked for.
    MultipleLabels {
        /// The labels, in their order.
        labels: Vec<PartialLabel>,
        /// Whether the pod does not start because of it.
        reach: Reach,
    },
    /// One container's label will be the volume's, and another container that mounts it has none of
    /// its own: the runtime picks one for it that may not reach the files.
    Unlabelled {
        /// The volume's label.
        label: PartialLabel,
    },
    /// A container has options but no level: the kubelet picks categories at random for the volume, the
    /// runtime picks others for the process.
    WithoutLevel,
    /// A privileged container has options that do not label its process; the kubelet mounts the volume
    /// with them.
    PrivilegedOptions,
}

impl Says {
    /// The reason of an event about it, where upstream has one. Such an event is of type `Warning`.
    #[must_use]
    pub fn reason(&self) -> Option<&'static str> {
        matches!(self, Self::MultipleLabels { .. }).then_some("MultipleSELinuxLabels")
    }
}

impl Engine {
    /// What there is to say about pods alone, in the order of their names.
    pub fn remarks(&self) -> impl Iterator<Item = Remark<'_>> {
        let rows = self.notable.values().filter_map(|&pod| self.rows.get(pod));
        rows.flat_map(|row| self.remarks_on(row))
    }

    /// What there is to say about one pod alone.
    pub fn remarks_of(&self, pod: &PodKey) -> impl Iterator<Item = Remark<'_>> {
        self.row(pod).into_iter().flat_map(|row| self.remarks_on(row))
    }

    pub(crate) fn remarks_on<'e>(&'e self, row: &'e Row) -> impl Iterator<Item = Remark<'e>> {
        used(&self.links, &self.rules, row).into_iter().flat_map(move |used| {
            let (name, volume) = (used.name, used.located.id);
            let says = self.says(row, &used);
            says.into_iter().map(move |says| Remark { pod: &row.key, name, volume, says })
        })
    }

    fn says(&self, row: &Row, used: &Used<'_>) -> Vec<Says> {
        let mut says = Vec::new();
        let traits = used.manner.traits;
        if let (MountDecision::Several(reach), Labels::Several(labels)) = (used.decision, &used.labels) {
            says.push(Says::MultipleLabels { labels: labels.iter().cloned().collect(), reach });
        }
        // The rest is about mounts with a label.
        if !used.located.mountable || row.policy == ChangePolicy::Recursive {
            return says;
        }
        if let Labels::One(label) = &used.labels
            && !label.is_empty()
            && traits.unlabelled
        {
            says.push(Says::Unlabelled { label: (**label).clone() });
        }
        if traits.without_level {
            says.push(Says::WithoutLevel);
        }
        if traits.privileged_options && self.rules.privileged == PrivilegedOptions::Counted {
            says.push(Says::PrivilegedOptions);
        }
        says
    }
}

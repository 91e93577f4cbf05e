use std::collections::HashSet;

use conflicts::{Engine, Meeting, PodKey, Property, Says, VolumeId};

/// So many conflicts of a volume are examined for two pods that can meet. Beyond that they count as able to.
const EXAMINED: usize = 10_000;

/// The conflicts of a cluster in numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Summary {
    /// Pairs of pods on a volume that differ in the policy.
    pub(crate) policy_conflicts: u64,
    /// Pairs of pods on a volume that differ in the label.
    pub(crate) label_conflicts: u64,
    /// Volumes with conflicts.
    pub(crate) volumes: u64,
    /// Those of them with two conflicting pods that can meet on one node.
    pub(crate) meeting_volumes: u64,
    /// Pods with conflicts.
    pub(crate) pods: u64,
    /// Pods that need one volume with several labels.
    pub(crate) multiple_labels: u64,
}

impl Summary {
    /// It costs the pods of volumes with conflicts, not their pairs.
    pub(super) fn of(engine: &Engine) -> Self {
        let mut summary = Self::default();
        let mut pods: HashSet<&PodKey> = HashSet::new();
        for (volume, _) in engine.contested() {
            summary.volumes += 1;
            summary.meeting_volumes += u64::from(may_meet(engine, volume));
            summary.policy_conflicts += pairs(engine, volume, Property::SELinuxChangePolicy);
            summary.label_conflicts += pairs(engine, volume, Property::SELinuxLabel);
            pods.extend(engine.in_conflict(volume).into_iter().flat_map(|(_, users)| users.pods()));
        }
        summary.pods = count(pods.len());
        let several = engine.remarks().filter(|remark| matches!(remark.says, Says::MultipleLabels { .. }));
        let several: HashSet<&PodKey> = several.map(|remark| remark.pod).collect();
        summary.multiple_labels = count(several.len());
        summary
    }

    /// All conflicts.
    pub(crate) fn conflicts(&self) -> u64 {
        self.policy_conflicts + self.label_conflicts
    }
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

/// How many pairs of pods on a volume differ in a property.
fn pairs(engine: &Engine, volume: &VolumeId, property: Property) -> u64 {
    let groups: Vec<_> = engine.users(volume).collect();
    let mut pairs = 0;
    for (place, one) in groups.iter().enumerate() {
        let others = groups.iter().skip(place + 1).filter(|other| one.ask.conflicts(other.ask, property));
        pairs += others.map(|other| count(one.count()) * count(other.count())).sum::<u64>();
    }
    pairs
}

/// Whether two conflicting pods can meet on one node.
fn may_meet(engine: &Engine, volume: &VolumeId) -> bool {
    let mut examined = 0;
    for conflict in engine.conflicts_on(volume) {
        examined += 1;
        if examined > EXAMINED || !matches!(conflict.meeting(), Meeting::CannotMeet(_)) {
            return true;
        }
    }
    false
}

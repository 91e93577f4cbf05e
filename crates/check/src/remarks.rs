//! What the engine says of one workload's own use of a volume.

use std::collections::{BTreeMap, BTreeSet};

use conflicts::{Engine, PodKey, Reach, Remark, Says, VolumeId};
use inventory::{ClusterSnapshot, KnownWorkload};

use crate::pairs::when;
use crate::report::{ObjectRef, SelinuxFinding, SelinuxRule};
use crate::shared::{UpgradeGates, is_eligible};

pub(crate) struct Remarks<'a> {
    /// What was enforced before the upgrade.
    pub(crate) was: BTreeSet<(PodKey, VolumeId)>,
    pub(crate) after: &'a Engine,
    pub(crate) gates: UpgradeGates<'a>,
    pub(crate) snapshot: &'a ClusterSnapshot,
}

impl Remarks<'_> {
    /// What there is to say, by workload; what holds for many of its pods is said once.
    pub(crate) fn by_workload(
        &self,
        workloads: &BTreeMap<ObjectRef, KnownWorkload<'_>>,
    ) -> BTreeMap<ObjectRef, BTreeSet<SelinuxFinding>> {
        let mut found: BTreeMap<ObjectRef, BTreeSet<SelinuxFinding>> = BTreeMap::new();
        for remark in self.after.remarks() {
            let Some(equivalent) = self.snapshot.equivalents.get(remark.pod) else { continue };
            let Some(workload) = workloads.get(&equivalent.workload) else { continue };
            let was = self.was.contains(&(remark.pod.clone(), remark.volume.clone()));
            let finding = self.finding(&remark, was, workload);
            found.entry(equivalent.workload.clone()).or_default().insert(finding);
        }
        found
    }

    fn finding(&self, remark: &Remark<'_>, was: bool, workload: &KnownWorkload<'_>) -> SelinuxFinding {
        let volume = workload.template.intent.volume(remark.name);
        let field = volume.map_or_else(|| remark.name.to_owned(), |volume| volume.field.clone());
        let eligible = |gates| self.snapshot.facts.get(remark.volume).is_some_and(|f| is_eligible(gates, f));
        let UpgradeGates { before, after } = self.gates;
        let when = match &remark.says {
            Says::MultipleLabels { .. } => when(was, is_enforced(&remark.says)),
            _ => when(eligible(before), eligible(after)),
        };
        let (what, cause, hint) = words(&remark.says, remark.name);
        SelinuxFinding { what, volume: remark.volume.to_string(), field, cause, hint: hint.to_owned(), when }
    }
}

/// The pods that do not start, each with its volume.
pub(crate) fn enforced(engine: &Engine) -> BTreeSet<(PodKey, VolumeId)> {
    let strict = engine.remarks().filter(|remark| is_enforced(&remark.says));
    strict.map(|remark| (remark.pod.clone(), remark.volume.clone())).collect()
}

fn is_enforced(says: &Says) -> bool {
    matches!(says, Says::MultipleLabels { reach: Reach::Enforced, .. })
}

fn words(says: &Says, name: &str) -> (SelinuxRule, String, &'static str) {
    match says {
        Says::MultipleLabels { labels, .. } => {
            let list = labels.iter().map(|l| format!("{:?}", l.to_string())).collect::<Vec<_>>();
            let cause = format!("its containers need volume {name} with the labels {}", list.join(" and "));
            (SelinuxRule::MultipleLabels, cause, "give the containers one level")
        }
        Says::Unlabelled { label } => {
            let label = label.to_string();
            let cause =
                format!("volume {name} gets the label {label:?}, and a container that mounts it has none");
            let hint = "set seLinuxOptions for the pod as a whole";
            (SelinuxRule::LabelledAndUnlabelled, cause, hint)
        }
        Says::WithoutLevel => {
            let cause = format!("a container that mounts volume {name} has seLinuxOptions without a level");
            let hint = "name a level: without one, volume and process get different ones at random";
            (SelinuxRule::WithoutLevel, cause, hint)
        }
        Says::PrivilegedOptions => {
            let cause =
                format!("a privileged container's seLinuxOptions label volume {name}, not its process");
            (SelinuxRule::PrivilegedWithOptions, cause, "remove seLinuxOptions from the privileged container")
        }
    }
}

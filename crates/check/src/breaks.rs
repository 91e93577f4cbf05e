//! What runs before the upgrade and does not after it.

use std::collections::BTreeMap;

use plan::Gate;

use crate::report::{
    Break, BreakRule, Conflict, Driver, Now, ObjectRef, SelinuxRule, Severity, User, Verdict, Volume, When,
    Workload,
};
use crate::shared::UpgradeGates;

/// What the breaks follow from.
pub(crate) struct Findings<'a> {
    pub(crate) workloads: &'a [Workload],
    pub(crate) conflicts: &'a [Conflict],
    pub(crate) volumes: &'a [Volume],
    pub(crate) drivers: &'a [Driver],
    pub(crate) gates: UpgradeGates<'a>,
}

impl Findings<'_> {
    pub(crate) fn breaks(&self) -> Vec<Break> {
        let mut breaks = self.of_conflicts();
        breaks.extend(self.of_labels());
        breaks.extend(self.of_drivers());
        breaks.extend(self.of_user_namespaces());
        breaks
    }

    /// Two workloads on a volume once, however many properties they differ in.
    fn of_conflicts(&self) -> Vec<Break> {
        let near = self.conflicts.iter().filter(|c| c.severity != Severity::CannotMeet);
        let new = near.filter(|c| c.when == When::AfterUpgrade);
        let mut pairs: BTreeMap<(&str, &ObjectRef, &ObjectRef), Vec<&Conflict>> = BTreeMap::new();
        for conflict in new {
            pairs
                .entry((&conflict.volume, &conflict.a.workload, &conflict.b.workload))
                .or_default()
                .push(conflict);
        }
        let volumes: BTreeMap<&str, &Volume> = self.volumes.iter().map(|v| (v.id.as_str(), v)).collect();
        let of_pair = |((volume, _, _), all): (_, Vec<&Conflict>)| {
            let users = volumes.get(volume).map(|known| known.users.as_slice()).unwrap_or_default();
            of_pair(volume, users, &all)
        };
        pairs.into_iter().map(of_pair).collect()
    }

    fn of_labels(&self) -> impl Iterator<Item = Break> {
        let each = self.workloads.iter().flat_map(|w| w.selinux.findings.iter().map(move |f| (w, f)));
        let new = each.filter(|(_, f)| f.what == SelinuxRule::MultipleLabels && f.when == When::AfterUpgrade);
        new.map(|(workload, finding)| Break {
            what: BreakRule::MultipleLabels,
            workloads: vec![workload.object.clone()],
            volume: Some(finding.volume.clone()),
            text: format!("{} no longer starts: {}", workload.object, finding.cause),
        })
    }

    /// A driver that drops the context breaks those whose volumes were not mounted with one before.
    fn of_drivers(&self) -> impl Iterator<Item = Break> {
        self.drivers.iter().filter_map(|driver| {
            let of_driver = self.volumes.iter().filter(|v| v.driver.as_ref() == Some(&driver.name));
            let new: Vec<&Volume> = of_driver
                .filter(|v| v.mounted_with_context.after && !v.mounted_with_context.before)
                .collect();
            let mut workloads: Vec<ObjectRef> =
                new.iter().flat_map(|volume| volume.users.iter().map(|user| user.workload.clone())).collect();
            workloads.sort();
            workloads.dedup();
            (!new.is_empty()).then(|| Break {
                what: BreakRule::Driver,
                workloads,
                volume: None,
                text: format!("volumes of {} may be left without a label: {}", driver.name, driver.cause),
            })
        })
    }

    fn of_user_namespaces(&self) -> impl Iterator<Item = Break> {
        let UpgradeGates { before, after } = self.gates;
        let gate = Gate::UserNamespacesSupport;
        let opens = !before.on(gate) && after.on(gate);
        let asking = self.workloads.iter().filter(move |_| opens);
        let asking = asking.filter(|w| w.user_namespace.now == Now::Own);
        let blocked = asking.filter(|w| w.user_namespace.verdict == Verdict::Blocked);
        blocked.map(|workload| {
            let cause = workload.user_namespace.reasons.first().map_or("", |reason| &reason.cause);
            Break {
                what: BreakRule::UserNamespace,
                workloads: vec![workload.object.clone()],
                volume: None,
                text: format!(
                    "{} gets the user namespace it asks for, and does not start: {cause}",
                    workload.object
                ),
            }
        })
    }
}

fn of_pair(volume: &str, users: &[User], all: &[&Conflict]) -> Break {
    let said = |value: &str| if value.is_empty() { "none".to_owned() } else { value.to_owned() };
    let differ: Vec<String> =
        all.iter().map(|c| format!("{} {} and {}", c.property, said(&c.a.value), said(&c.b.value))).collect();
    let (why, [a, b]) = all.first().map_or_else(Default::default, |c| {
        (c.why.as_str(), [c.a.workload.to_string(), c.b.workload.to_string()])
    });
    let text = format!("{a} and {b} share volume {volume} with {}: {why}", differ.join(", "));
    Break { what: BreakRule::Conflict, workloads: broken(users, all), volume: Some(volume.to_owned()), text }
}

/// Whose pods these conflicts are of; of a crowd, every one.
fn broken(users: &[User], all: &[&Conflict]) -> Vec<ObjectRef> {
    let mut workloads: Vec<ObjectRef> = Vec::new();
    for side in all.iter().flat_map(|conflict| [&conflict.a, &conflict.b]) {
        if side.workload.is_crowd() {
            workloads.extend(users.iter().filter(|user| side.has(user)).map(|user| user.workload.clone()));
        } else {
            workloads.push(side.workload.clone());
        }
    }
    workloads.sort();
    workloads.dedup();
    workloads
}

//! Pods without a controller, when they are many.
//!
//! Each such pod is a workload of its own, and pairs of workloads are named one by one: a thousand of two
//! labels on one volume would be a quarter of a million conflicts. So those of one namespace that ask the same
//! of a volume are one side, once they are more than a reader would want to see by name.

use std::borrow::Cow;
use std::collections::BTreeMap;

use inventory::EquivalentPods;

use crate::report::{ConflictSide, ObjectRef, User};

/// So many pods without a controller are named one by one.
const NAMED: usize = 8;

/// The equivalent pods of one ask by workload, or by crowd.
pub(crate) fn crowds<'a>(
    equivalents: impl Iterator<Item = &'a EquivalentPods>,
) -> Vec<(Cow<'a, ObjectRef>, Vec<&'a EquivalentPods>)> {
    let mut by_workload: BTreeMap<&ObjectRef, Vec<&EquivalentPods>> = BTreeMap::new();
    let mut bare: BTreeMap<&str, usize> = BTreeMap::new();
    for equivalent in equivalents {
        by_workload.entry(&equivalent.workload).or_default().push(equivalent);
    }
    for workload in by_workload.keys().filter(|workload| workload.is_pod()) {
        *bare.entry(&workload.namespace).or_default() += 1;
    }
    let is_many = |workload: &ObjectRef| {
        workload.is_pod() && bare.get(workload.namespace.as_str()).is_some_and(|&n| n > NAMED)
    };
    let mut sides: BTreeMap<Cow<'a, ObjectRef>, Vec<&EquivalentPods>> = BTreeMap::new();
    for (workload, equivalents) in by_workload {
        let side = if is_many(workload) {
            Cow::Owned(ObjectRef::crowd(&workload.namespace))
        } else {
            Cow::Borrowed(workload)
        };
        sides.entry(side).or_default().extend(equivalents);
    }
    sides.into_iter().collect()
}

impl ConflictSide {
    /// A workload that this side has: itself, or a pod of a crowd.
    #[must_use]
    pub fn one(&self) -> Cow<'_, ObjectRef> {
        match &self.pod {
            Some(pod) if self.workload.is_crowd() => {
                Cow::Owned(ObjectRef { name: pod.clone(), ..self.workload.clone() })
            }
            _ => Cow::Borrowed(&self.workload),
        }
    }

    /// Whether this user of the volume is in the crowd.
    #[must_use]
    pub fn has(&self, user: &User) -> bool {
        let is_of_it = user.workload.is_pod() && user.workload.namespace == self.workload.namespace;
        is_of_it && [&user.label, &user.policy].contains(&&self.value)
    }

    /// Its name for messages; of a crowd, with the number of its pods.
    #[must_use]
    pub fn named(&self) -> String {
        if self.workload.is_crowd() {
            format!("{} ({} pods)", self.workload, self.pods)
        } else {
            self.workload.to_string()
        }
    }
}

/// The first of many names, and how many more there are.
pub(crate) fn first_of(names: &[String]) -> String {
    let shown = names.get(..NAMED).unwrap_or(names).join(", ");
    match names.len().saturating_sub(NAMED) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

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
    let mut by_who: BTreeMap<&ObjectRef, Vec<&EquivalentPods>> = BTreeMap::new();
    let mut bare: BTreeMap<&str, usize> = BTreeMap::new();
    for equivalent in equivalents {
        by_who.entry(&equivalent.who).or_default().push(equivalent);
    }
    for who in by_who.keys().filter(|who| who.is_pod()) {
        *bare.entry(&who.namespace).or_default() += 1;
    }
    let is_many =
        |who: &ObjectRef| who.is_pod() && bare.get(who.namespace.as_str()).is_some_and(|&n| n > NAMED);
    let mut sides: BTreeMap<Cow<'a, ObjectRef>, Vec<&EquivalentPods>> = BTreeMap::new();
    for (who, equivalents) in by_who {
        let side =
            if is_many(who) { Cow::Owned(ObjectRef::crowd(&who.namespace)) } else { Cow::Borrowed(who) };
        sides.entry(side).or_default().extend(equivalents);
    }
    sides.into_iter().collect()
}

impl ConflictSide {
    /// A workload that this side has: itself, or a pod of a crowd.
    #[must_use]
    pub fn one(&self) -> Cow<'_, ObjectRef> {
        match &self.pod {
            Some(pod) if self.who.is_crowd() => {
                Cow::Owned(ObjectRef { name: pod.clone(), ..self.who.clone() })
            }
            _ => Cow::Borrowed(&self.who),
        }
    }

    /// Whether this user of the volume is in the crowd.
    #[must_use]
    pub fn has(&self, user: &User) -> bool {
        let is_of_it = user.who.is_pod() && user.who.namespace == self.who.namespace;
        is_of_it && [&user.label, &user.policy].contains(&&self.value)
    }

    /// Its name for messages; of a crowd, with the number of its pods.
    #[must_use]
    pub fn named(&self) -> String {
        if self.who.is_crowd() { format!("{} ({} pods)", self.who, self.pods) } else { self.who.to_string() }
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

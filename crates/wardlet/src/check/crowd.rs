//! Pods of nobody's, when they are many.
//!
//! Each such pod is a workload of its own, and pairs of workloads are named one by one: a thousand of two
//! labels on one volume would be a quarter of a million conflicts. So those of one namespace that ask the same
//! of a volume are one side, once they are more than a reader would want to see by name.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::report::{Side, User, Who};
use super::scene::Actor;

/// So many pods of nobody's are named one by one.
const NAMED: usize = 8;

/// The kind of a pod of nobody's.
const POD: &str = "Pod";
/// The name of a crowd. No object can be called so.
const ALL: &str = "*";

/// The actors of one ask by workload, or by crowd.
pub(super) fn crowds<'a>(actors: impl Iterator<Item = &'a Actor>) -> Vec<(Cow<'a, Who>, Vec<&'a Actor>)> {
    let mut by_who: BTreeMap<&Who, Vec<&Actor>> = BTreeMap::new();
    let mut bare: BTreeMap<&str, usize> = BTreeMap::new();
    for actor in actors {
        by_who.entry(&actor.who).or_default().push(actor);
    }
    for who in by_who.keys().filter(|who| who.kind == POD) {
        *bare.entry(&who.namespace).or_default() += 1;
    }
    let is_many = |who: &Who| who.kind == POD && bare.get(who.namespace.as_str()).is_some_and(|&n| n > NAMED);
    let mut sides: BTreeMap<Cow<'a, Who>, Vec<&Actor>> = BTreeMap::new();
    for (who, actors) in by_who {
        let side = if is_many(who) { Cow::Owned(crowd(&who.namespace)) } else { Cow::Borrowed(who) };
        sides.entry(side).or_default().extend(actors);
    }
    sides.into_iter().collect()
}

fn crowd(namespace: &str) -> Who {
    Who { kind: POD.to_owned(), namespace: namespace.to_owned(), name: ALL.to_owned() }
}

impl Who {
    /// Whether this stands for many pods of nobody's.
    pub(super) fn is_crowd(&self) -> bool {
        self.kind == POD && self.name == ALL
    }
}

impl Side {
    /// A workload that this side has: itself, or a pod of a crowd.
    pub(super) fn one(&self) -> Cow<'_, Who> {
        match &self.pod {
            Some(pod) if self.who.is_crowd() => Cow::Owned(Who { name: pod.clone(), ..self.who.clone() }),
            _ => Cow::Borrowed(&self.who),
        }
    }

    /// Whether this user of the volume is in the crowd.
    pub(super) fn has(&self, user: &User) -> bool {
        let is_of_it = user.who.kind == POD && user.who.namespace == self.who.namespace;
        is_of_it && [&user.label, &user.policy].contains(&&self.value)
    }

    /// Who it is, for a person to read.
    pub(super) fn named(&self) -> String {
        if self.who.is_crowd() { format!("{} ({} pods)", self.who, self.pods) } else { self.who.to_string() }
    }
}

/// The first of many names, and how many more there are.
pub(super) fn first_of(names: &[String]) -> String {
    let shown = names.get(..NAMED).unwrap_or(names).join(", ");
    match names.len().saturating_sub(NAMED) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

//! What a pod asks of which volumes, with all that is known now.

use selinux::{LabelCount, MountCase, MountDecision, Reach, Scope};
use smallvec::SmallVec;

use types::ChangePolicy;

use crate::ask::{Ask, Labels};
use crate::keys::VolumeId;
use crate::links::{Links, Located, Unresolved};
use crate::pools::Pools;
use crate::row::{Manner, Row, Span, Use, UseSource};
use crate::rules::Rules;

/// All that a pod asks for.
pub(crate) type Wishes = SmallVec<[Wish; 1]>;

/// A volume that a pod asks something of.
#[derive(Debug, Clone)]
pub(crate) struct Wish {
    pub(crate) id: VolumeId,
    pub(crate) ask: Ask,
    pub(crate) manner: Manner,
}

/// A volume that a pod uses, under one name or several.
#[derive(Debug)]
pub(crate) struct Used<'e> {
    /// What the pod calls it; the first of its names.
    pub(crate) name: &'e str,
    pub(crate) located: Located<'e>,
    pub(crate) labels: Labels,
    pub(crate) manner: Manner,
    pub(crate) decision: MountDecision,
}

impl<'e> Used<'e> {
    fn of(used: &'e Use, located: Located<'e>, rules: &Rules) -> Self {
        let reach = Reach::of(rules.gates, located.scope);
        let manner = Manner { traits: used.traits, span: located.span, reach };
        let decision = MountDecision::Unlabelled;
        Self { name: &used.name, located, labels: used.labels.clone(), manner, decision }
    }

    /// The same volume under another name.
    fn and(&mut self, other: Self) {
        self.labels = std::mem::take(&mut self.labels).and(other.labels);
        self.manner.traits = self.manner.traits.and(other.manner.traits);
        self.manner.reach = self.manner.reach.max(other.manner.reach);
        self.located.scope = self.located.scope.max(other.located.scope);
        if self.manner.span != other.manner.span {
            self.manner.span = Span::Anywhere;
        }
    }

    /// What the pod asks of the volume, once all its names are known.
    fn decide(&mut self, rules: &Rules, policy: ChangePolicy) {
        let labels = match &self.labels {
            Labels::None => LabelCount::None,
            Labels::One(label) if label.is_empty() => LabelCount::None,
            Labels::One(_) => LabelCount::One,
            Labels::Several(_) => LabelCount::Several,
        };
        self.decision = MountDecision::of(MountCase {
            gates: rules.gates,
            scope: self.located.scope,
            driver_mounts: self.located.mountable,
            is_recursive: policy == ChangePolicy::Recursive,
            labels,
        });
    }
}

/// The volumes that a pod uses and that are known, each once.
pub(crate) fn used<'e>(links: &'e Links, rules: &Rules, row: &'e Row) -> SmallVec<[Used<'e>; 1]> {
    let mut all = SmallVec::<[Used<'_>; 1]>::new();
    if !rules.gates.read_write_once_pod {
        return all;
    }
    for used in &row.uses {
        let Ok(located) = locate(links, used) else { continue };
        let next = Used::of(used, located, rules);
        match all.iter_mut().find(|u| u.located.id == located.id) {
            Some(same) => same.and(next),
            None => all.push(next),
        }
    }
    all.iter_mut().for_each(|used| used.decide(rules, row.policy));
    all
}

fn locate<'e>(links: &'e Links, used: &'e Use) -> Result<Located<'e>, Unresolved> {
    match &used.source {
        UseSource::Claim(None) => Err(Unresolved::NoClaim),
        UseSource::Claim(Some(claim)) => links.locate(*claim),
        UseSource::Inline { id, mountable } => {
            Ok(Located { id, mountable: *mountable, span: Span::Anywhere, scope: Scope::InPod })
        }
        UseSource::Migrated { id, driver, span } => {
            let mountable = driver.is_some_and(|driver| links.driver_mounts(driver));
            Ok(Located { id, mountable, span: *span, scope: span.scope() })
        }
    }
}

/// The volumes that a pod asks something of. One that cannot be mounted with a label is no wish, nor
/// is one that would need several: its pod does not start.
pub(crate) fn wishes(links: &Links, rules: &Rules, pools: &Pools, row: &Row) -> Wishes {
    used(links, rules, row).into_iter().filter_map(|used| wish(pools, used)).collect()
}

fn wish(pools: &Pools, used: Used<'_>) -> Option<Wish> {
    let ask = match (used.decision, used.labels) {
        (MountDecision::Label(_), Labels::One(label)) => Ask::new(label, ChangePolicy::MountOption),
        (MountDecision::NoLabel(_), _) => Ask::new(pools.no_label(), ChangePolicy::Recursive),
        _ => return None,
    };
    Some(Wish { id: used.located.id.clone(), ask, manner: used.manner })
}

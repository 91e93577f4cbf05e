//! What a pod asks of which volumes, with all that is known now.

use selinux::PartialLabel;
use smallvec::SmallVec;

use types::ChangePolicy;

use crate::ask::{Ask, Labels};
use crate::keys::VolumeId;
use crate::links::{Links, Located, Unresolved};
use crate::pools::Pools;
use crate::reach::Reach;
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
}

impl<'e> Used<'e> {
    fn of(used: &'e Use, located: Located<'e>) -> Self {
        let Located { span, reach, .. } = located;
        let manner = Manner { traits: used.traits, span, reach };
        Self { name: &used.name, located, labels: used.labels.clone(), manner }
    }

    /// The same volume under another name.
    fn and(&mut self, other: Self) {
        self.labels = std::mem::take(&mut self.labels).and(other.labels);
        self.manner.traits = self.manner.traits.and(other.manner.traits);
        self.manner.reach = self.manner.reach.max(other.manner.reach);
        if self.manner.span != other.manner.span {
            self.manner.span = Span::Anywhere;
        }
    }
}

/// The volumes that a pod uses and that are known, each once.
pub(crate) fn used<'e>(links: &'e Links, rules: &Rules, row: &'e Row) -> SmallVec<[Used<'e>; 1]> {
    let mut all = SmallVec::<[Used<'_>; 1]>::new();
    if !rules.gates.read_write_once_pod {
        return all;
    }
    for used in &row.uses {
        let Ok(located) = locate(links, rules, used) else { continue };
        let next = Used::of(used, located);
        match all.iter_mut().find(|u| u.located.id == located.id) {
            Some(same) => same.and(next),
            None => all.push(next),
        }
    }
    all
}

fn locate<'e>(links: &'e Links, rules: &Rules, used: &'e Use) -> Result<Located<'e>, Unresolved> {
    match &used.source {
        UseSource::Claim(None) => Err(Unresolved::NoClaim),
        UseSource::Claim(Some(claim)) => links.locate(*claim, rules.gates),
        UseSource::Inline { id, mountable } => {
            let mountable = *mountable;
            Ok(Located { id, mountable, span: Span::Anywhere, reach: Reach::Counted })
        }
    }
}

/// The volumes that a pod asks something of. One that cannot be mounted with a label is no wish, nor
/// is one that would need several: its pod does not start.
pub(crate) fn wishes(links: &Links, rules: &Rules, pools: &Pools, row: &Row) -> Wishes {
    let mountable = used(links, rules, row).into_iter().filter(|u| u.located.mountable);
    mountable.filter_map(|used| wish(pools, used, row.policy)).collect()
}

fn wish(pools: &Pools, used: Used<'_>, policy: ChangePolicy) -> Option<Wish> {
    let ask = match (used.labels, policy) {
        (Labels::Several(_), _) => return None,
        (Labels::One(label), ChangePolicy::MountOption) if !PartialLabel::is_empty(&label) => {
            Ask::new(label, policy)
        }
        _ => Ask::new(pools.no_label(), ChangePolicy::Recursive),
    };
    Some(Wish { id: used.located.id.clone(), ask, manner: used.manner })
}

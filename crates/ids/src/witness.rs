//! Reports on the use of host IDs.
//!
//! The ledger frees a block only on what a [`Witness`] has seen itself; a holder that releases a block cannot vouch
//! for it.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::id::IdKind;
use crate::span::HostSpan;

/// How the IDs are held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Hold {
    /// In use now: a process has the ID, or a reachable user namespace maps it.
    Live,
    /// Claimed in a file: passwd, subuid, another tool's store.
    Claimed,
}

/// A use of, or a claim to, a run of host IDs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Use {
    /// User or group IDs.
    pub kind: IdKind,
    /// Which.
    pub ids: HostSpan,
    /// How firmly.
    pub hold: Hold,
    /// The user, for people to read: `process 4242 (sleep): effective uid`.
    pub by: String,
}

impl fmt::Display for Use {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}s {}: {}", self.kind, self.ids, self.by)
    }
}

/// All that one look at the host has shown, ready to be asked about any span.
#[derive(Debug, Clone, Default)]
pub struct Sighting {
    /// Sorted by kind, then first ID.
    uses: Vec<Use>,
    /// `reach[i]` is the highest last ID of `uses[..=i]` within the kind of `uses[i]`, so that a
    /// search may stop as soon as nothing further left can overlap.
    reach: Vec<u32>,
    blind: Vec<String>,
}

impl Sighting {
    /// Puts `uses` in order. `blind` names what could not be looked into; while there is any,
    /// nothing can be called vacant.
    #[must_use]
    pub fn new(mut uses: Vec<Use>, blind: Vec<String>) -> Self {
        uses.sort_by_key(|u| (u.kind, u.ids));
        let mut reach = Vec::with_capacity(uses.len());
        let mut so_far: Option<(IdKind, u32)> = None;
        for u in &uses {
            let last = match so_far {
                Some((kind, last)) if kind == u.kind => last.max(u.ids.last()),
                _ => u.ids.last(),
            };
            so_far = Some((u.kind, last));
            reach.push(last);
        }
        Self { uses, reach, blind }
    }

    /// Everything seen.
    #[must_use]
    pub fn uses(&self) -> &[Use] {
        &self.uses
    }

    /// What could not be looked into, and why.
    #[must_use]
    pub fn blind(&self) -> &[String] {
        &self.blind
    }

    /// The uses of any ID of `span`, from the highest first ID down.
    pub fn users(&self, kind: IdKind, span: HostSpan) -> impl Iterator<Item = &Use> {
        let end = self.uses.partition_point(|u| (u.kind, u.ids.first()) <= (kind, span.last()));
        let candidates = self.uses.iter().zip(&self.reach).take(end).rev();
        candidates
            .take_while(move |(u, reach)| u.kind == kind && **reach >= span.first())
            .map(|(u, _)| u)
            .filter(move |u| u.ids.overlaps(span))
    }

    /// A use of an ID of `span` by a task or a namespace right now.
    #[must_use]
    pub fn live_user(&self, kind: IdKind, span: HostSpan) -> Option<&Use> {
        self.users(kind, span).find(|u| u.hold == Hold::Live)
    }
}

/// Why a scan of the host failed.
#[derive(Debug, thiserror::Error)]
#[error("cannot scan the host for uses of host IDs: {what}")]
pub struct WitnessError {
    /// The operation that failed, with its object.
    pub what: String,
    /// The operating system's error.
    #[source]
    pub source: std::io::Error,
}

/// Scans the host for uses of host IDs.
pub trait Witness: Send + Sync {
    /// Looks anew, now, at everything: a block may be freed on what is seen.
    fn look(&self) -> Result<Sighting, WitnessError>;

    /// Looks anew, now, to choose a block for a lease. This takes a bounded time: what would take longer is left out, and the
    /// sighting is blind to it, so that nothing is freed on it.
    fn look_to_lease(&self) -> Result<Sighting, WitnessError> {
        self.look()
    }

    /// Which of `places` still exist.
    fn remaining(&self, places: &[PathBuf]) -> Result<Vec<PathBuf>, WitnessError>;
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn a_use() -> impl Strategy<Value = Use> {
        (any::<bool>(), 0u64..200, 1u64..60, any::<bool>()).prop_map(|(uid, first, n, live)| Use {
            kind: if uid { IdKind::Uid } else { IdKind::Gid },
            ids: HostSpan::new(first, n).unwrap(),
            hold: if live { Hold::Live } else { Hold::Claimed },
            by: format!("{first}+{n}"),
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(crate::cases()))]
        #[test]
        fn a_sighting_finds_just_those_that_a_search_of_all_would(
            uses in prop::collection::vec(a_use(), 0..30), first in 0u64..260, n in 1u64..80,
        ) {
            let span = HostSpan::new(first, n).unwrap();
            let s = Sighting::new(uses.clone(), vec![]);
            for kind in [IdKind::Uid, IdKind::Gid] {
                let mut found: Vec<_> = s.users(kind, span).cloned().collect();
                let mut all: Vec<_> = uses.iter().filter(|u| u.kind == kind && u.ids.overlaps(span)).cloned().collect();
                found.sort();
                all.sort();
                prop_assert_eq!(found, all);
            }
        }
    }
}

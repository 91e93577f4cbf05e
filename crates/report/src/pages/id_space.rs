//! The host IDs of a node, as a picture shows them.

use std::collections::BTreeMap;

use census::Report;
use ids::allocator::{Counts, State};
use ids::pool::IdPool;
use ids::{HostSpan, IdKind, UNIT};
use ledger::Lease;
use serde::{Deserialize, Serialize};

/// More uses by others than these are not kept: each process of the host can be one.
const MOST_OTHERS: usize = 500;

/// The pool of a node and what is leased of it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct IdSpace {
    /// Where the pool is configured.
    pub origin: String,
    /// How many IDs a block has.
    pub block_length: u64,
    /// How many blocks are in which state.
    pub counts: BlockCounts,
    /// User IDs; group IDs, too, if `gids` is `None`.
    pub uids: IdRow,
    /// Group IDs, where pool or leases differ from those of user IDs.
    pub gids: Option<IdRow>,
}

/// Blocks of the node's length by state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BlockCounts {
    /// In the pool.
    pub pool: u64,
    /// Free.
    pub free: u64,
    /// With a holder.
    pub leased: u64,
    /// Released, and not yet seen to be vacant.
    pub draining: u64,
    /// Vacant; they rest.
    pub quarantined: u64,
    /// Possibly in use, with no record of it.
    pub pinned: u64,
}

/// The IDs of one kind.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct IdRow {
    /// The pool.
    pub pool: Vec<HostSpan>,
    /// What is not free, by ID; uses by others last.
    pub uses: Vec<IdUse>,
}

/// A run of IDs that are not free.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IdUse {
    /// The IDs.
    pub ids: HostSpan,
    /// How they are used.
    pub state: BlockState,
    /// The holder of the lease, or the user; empty where there is no record of it.
    pub holder: String,
    /// The pod that the holder is, `namespace/name`.
    pub pod: Option<String>,
    /// Since when it is in this state; `None` for uses by others.
    pub since: Option<u64>,
    /// What a reader should know about it.
    pub note: Option<String>,
}

/// How a run of IDs is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum BlockState {
    /// By others than the ledger's holders: processes, or records that claim them.
    Other,
    /// Vacant; it rests.
    Quarantined,
    /// Released, and not yet seen to be vacant.
    Draining,
    /// Possibly in use, with no record of it.
    Pinned,
    /// By its holder.
    Leased,
}

impl From<State> for BlockState {
    fn from(state: State) -> Self {
        match state {
            State::Leased => Self::Leased,
            State::Draining => Self::Draining,
            State::Quarantined { .. } => Self::Quarantined,
            State::Pinned => Self::Pinned,
        }
    }
}

impl From<Counts> for BlockCounts {
    fn from(counts: Counts) -> Self {
        let Counts { leased, draining, quarantined, pinned, free, pool } = counts;
        Self {
            pool: pool.into(),
            free: free.into(),
            leased: leased.into(),
            draining: draining.into(),
            quarantined: quarantined.into(),
            pinned: pinned.into(),
        }
    }
}

impl IdSpace {
    /// The pool with the leases of the ledger. `pods` are the names of pods by UID.
    #[must_use]
    pub fn new(pool: &IdPool, counts: Counts, leases: &[Lease], pods: &BTreeMap<String, String>) -> Self {
        let row = |kind| {
            let span = |lease: &Lease| match kind {
                IdKind::Uid => lease.uids.span(),
                IdKind::Gid => lease.gids.span(),
            };
            let mut uses: Vec<IdUse> = leases.iter().map(|lease| leased(lease, span(lease), pods)).collect();
            uses.sort_by_key(|used| used.ids);
            IdRow { pool: pool.spans(kind), uses }
        };
        let (uids, gids) = (row(IdKind::Uid), row(IdKind::Gid));
        Self {
            origin: pool.origin().to_string(),
            block_length: pool.block().into(),
            counts: counts.into(),
            gids: (gids != uids).then_some(gids),
            uids,
        }
    }

    /// The same with what others use of user and of group IDs.
    #[must_use]
    pub fn with_others(mut self, [uids, gids]: &[Vec<IdUse>; 2]) -> Self {
        add(&mut self.uids, uids);
        // One row shows what others have of either kind.
        add(self.gids.as_mut().unwrap_or(&mut self.uids), gids);
        self
    }
}

/// Adds what no lease has already: pods have the IDs of their leases.
fn add(row: &mut IdRow, others: &[IdUse]) {
    let is_new = |used: &&IdUse| !row.uses.iter().any(|known| known.ids.covers(used.ids));
    let new: Vec<IdUse> = others.iter().filter(is_new).cloned().collect();
    row.uses.extend(new);
}

fn leased(lease: &Lease, ids: HostSpan, pods: &BTreeMap<String, String>) -> IdUse {
    let holder = lease.holder.as_ref().map(ToString::to_string).unwrap_or_default();
    IdUse {
        ids,
        state: lease.state.into(),
        pod: pods.get(&holder).cloned(),
        holder,
        since: Some(lease.since),
        note: lease.note.clone(),
    }
}

/// Other users of host IDs, and claims to them, by a census: of user IDs, then of group IDs. IDs below the first block are left
/// out.
#[must_use]
pub fn uses_of_others(census: &Report) -> [Vec<IdUse>; 2] {
    [IdKind::Uid, IdKind::Gid].map(|kind| {
        let owners = census.owners.iter();
        let all = owners.flat_map(|owner| owner.ids(kind).iter().map(move |ids| (ids, &owner.name)));
        let all = all.filter(|(ids, _)| u64::from(ids.last()) >= UNIT);
        let used = all.map(|(ids, name)| IdUse {
            ids: *ids,
            state: BlockState::Other,
            holder: name.clone(),
            pod: None,
            since: None,
            note: None,
        });
        used.take(MOST_OTHERS).collect()
    })
}

#[cfg(test)]
mod tests {
    use census::{Owner, OwnerKind};
    use ids::allocator::LeaseId;
    use ids::witness::Hold;
    use ids::{BlockLength, IdBlock};
    use ledger::{Holder, Tenure};

    use super::*;

    fn lease(base: u64, holder: &str, state: State) -> Lease {
        let block = IdBlock::new(base, UNIT).unwrap();
        Lease {
            id: LeaseId(base),
            holder: Some(Holder::new(holder).unwrap()),
            state,
            uids: block,
            gids: block,
            members: None,
            tenure: Tenure::Durable,
            since: 5,
            earlier_boot: false,
            places: vec![],
            categories: None,
            note: None,
        }
    }

    fn span(first: u64, length: u64) -> HostSpan {
        HostSpan::new(first, length).unwrap()
    }

    #[test]
    fn leases_are_by_id_with_the_names_of_their_pods_and_one_row_is_enough_if_both_kinds_agree() {
        let pool = IdPool::default_for(BlockLength::DEFAULT, vec![]).unwrap();
        let leases = [lease(UNIT * 5, "u-1", State::Leased), lease(UNIT, "other", State::Draining)];
        let pods = BTreeMap::from([("u-1".to_owned(), "shop/web".to_owned())]);
        let space = IdSpace::new(&pool, Counts::default(), &leases, &pods);
        assert_eq!(space.gids, None);
        let [first, second] = space.uids.uses.as_slice() else { panic!("{space:?}") };
        assert_eq!((first.state, first.pod.as_deref()), (BlockState::Draining, None));
        assert_eq!((second.ids, second.pod.as_deref()), (span(UNIT * 5, UNIT), Some("shop/web")));
    }

    #[test]
    fn others_are_those_with_ids_that_no_lease_has() {
        let owner = |first, length| Owner {
            kind: OwnerKind::Incus { instance: "c1".into() },
            name: "c1".into(),
            hold: Hold::Claimed,
            uids: vec![span(first, length)],
            gids: vec![],
        };
        let owners = vec![owner(1_000, 1), owner(UNIT + 7, 1), owner(UNIT * 9, 3)];
        let others = uses_of_others(&Report { owners, ..Report::default() });
        assert_eq!((others[0].len(), others[1].len()), (2, 0));
        let pool = IdPool::default_for(BlockLength::DEFAULT, vec![]).unwrap();
        let leases = [lease(UNIT, "u-1", State::Leased)];
        let space = IdSpace::new(&pool, Counts::default(), &leases, &BTreeMap::new()).with_others(&others);
        let states: Vec<BlockState> = space.uids.uses.iter().map(|used| used.state).collect();
        assert_eq!(states, [BlockState::Leased, BlockState::Other]);
    }
}

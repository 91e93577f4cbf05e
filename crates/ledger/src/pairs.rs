//! Category pairs in the lease table: those of leases and those without a block, of which no two that are allocated are equal.

use std::collections::HashSet;
use std::path::Path;

use selinux::CategoryPair;
use xxhash_rust::xxh3::xxh3_64;

use crate::error::LedgerError;
use crate::holder::Holder;
use crate::lease::{Categories, LeaseRequest};
use crate::lease_table::{LeaseTable, Moment};
use crate::pair::{HeldPair, PairConflict, PairInUse, PairOrigin, PairUser, PairVerdict};
use crate::row::{PairRow, PairStanding};

/// A pair that may be free, as it was when the witness was asked.
#[derive(Debug, Clone)]
pub(crate) struct PairCandidate {
    pub(crate) held: HeldPair,
    /// If the row has changed meanwhile, what was seen says nothing about it.
    seq: u64,
}

impl LeaseTable {
    /// The pair for a new lease, if the lease is to have one.
    pub(crate) fn pair_for(&self, request: &LeaseRequest) -> Result<Option<CategoryPair>, LedgerError> {
        match request.categories {
            Categories::None => Ok(None),
            Categories::Pair => self.free_pair(self.head.pair, &request.holder).map(Some),
        }
    }

    /// The first pair from number `first` on that no holder has.
    fn free_pair(&self, first: u32, holder: &Holder) -> Result<CategoryPair, LedgerError> {
        let count = CategoryPair::COUNT;
        (0..count)
            .filter_map(|i| CategoryPair::nth((first % count + i) % count))
            .find(|pair| !self.pairs.contains(*pair))
            .ok_or_else(|| LedgerError::NoPair { holder: holder.clone() })
    }

    /// Gives `user` a pair that no other holder has, or the one that it has.
    pub(crate) fn allocate_pair(
        &mut self,
        user: &PairUser,
        moment: &Moment,
    ) -> Result<CategoryPair, LedgerError> {
        if let Some(row) = self.pair_rows.get(&user.holder).filter(|row| !row.is_free()).cloned() {
            if row.origin != PairOrigin::Allocated {
                return Err(LedgerError::HasPair { holder: user.holder.clone(), has: row.pair });
            }
            self.confirm_pair(&row, user, moment);
            return Ok(row.pair);
        }
        let pair = self.free_pair(first_of(&user.holder), &user.holder)?;
        self.put_pair(new_row(user, pair, PairOrigin::Allocated, moment));
        Ok(pair)
    }

    /// Enters a pair that the user's manifest names. One that was allocated to another user stays that user's alone.
    pub(crate) fn reserve_pair(
        &mut self,
        user: &PairUser,
        pair: CategoryPair,
        moment: &Moment,
    ) -> Result<(), LedgerError> {
        if let Some(row) = self.pair_rows.get(&user.holder).filter(|row| !row.is_free()).cloned() {
            if row.origin != PairOrigin::Named || row.pair != pair {
                return Err(LedgerError::HasPair { holder: user.holder.clone(), has: row.pair });
            }
            self.confirm_pair(&row, user, moment);
            return Ok(());
        }
        let allocated =
            |row: &&PairRow| row.pair == pair && row.origin == PairOrigin::Allocated && !row.is_free();
        if let Some(by) = self.pair_rows.values().find(allocated).map(|row| row.holder.clone()) {
            return Err(LedgerError::PairTaken { holder: user.holder.clone(), pair, by });
        }
        self.put_pair(new_row(user, pair, PairOrigin::Named, moment));
        Ok(())
    }

    /// The user asks again: it has the pair, however far on its way to being free that was.
    fn confirm_pair(&mut self, row: &PairRow, user: &PairUser, moment: &Moment) {
        let fresh = PairRow { since: row.since, seq: row.seq, ..new_row(user, row.pair, row.origin, moment) };
        if fresh == *row {
            return;
        }
        let since = if row.standing == PairStanding::Held { row.since } else { moment.now };
        self.put_pair(PairRow { since, ..fresh });
    }

    /// Enters a pair that is in use, whatever else the ledger says about it: what runs is known better by its runtime.
    pub(crate) fn adopt_pair(&mut self, known: &PairInUse, moment: &Moment) {
        let same = |row: &&PairRow| !row.is_free() && row.pair == known.pair && row.origin == known.origin;
        match self.pair_rows.get(&known.user.holder).filter(same).cloned() {
            Some(row) => self.confirm_pair(&row, &known.user, moment),
            None => self.put_pair(new_row(&known.user, known.pair, known.origin, moment)),
        }
    }

    /// Whether the ledger knows that this is in use.
    pub(crate) fn knows_pair(&self, known: &PairInUse) -> bool {
        let row = self.pair_rows.get(&known.user.holder);
        row.is_some_and(|row| !row.is_free() && row.pair == known.pair)
    }

    /// Gives back what `holder` has; it is free if its place is gone.
    pub(crate) fn release_pair(
        &mut self,
        holder: &Holder,
        exists: impl Fn(&Path) -> bool,
        moment: &Moment,
    ) -> Option<HeldPair> {
        let row = self.pair_rows.get(holder).filter(|row| !row.is_free()).cloned()?;
        let standing =
            if exists(Path::new(&row.place)) { PairStanding::Released } else { PairStanding::Free };
        if standing != row.standing {
            self.put_pair(PairRow { standing, since: moment.now, ..row.clone() });
        }
        Some(held(&row, moment))
    }

    /// Holders whose place is below `dir`.
    pub(crate) fn pair_holders_below(&self, dir: &Path) -> Vec<Holder> {
        let below =
            self.pair_rows.values().filter(|row| !row.is_free() && Path::new(&row.place).starts_with(dir));
        let mut holders: Vec<Holder> = below.map(|row| row.holder.clone()).collect();
        holders.sort();
        holders
    }

    /// Every pair without a block that is not free, by holder.
    pub(crate) fn held_pairs(&self, moment: &Moment) -> Vec<HeldPair> {
        let rows = self.pair_rows.values().filter(|row| !row.is_free());
        let mut pairs: Vec<HeldPair> = rows.map(|row| held(row, moment)).collect();
        pairs.sort_by(|a, b| a.holder.cmp(&b.holder));
        pairs
    }

    /// Pairs that were allocated to one holder and that another one has.
    pub(crate) fn pair_conflicts(&self) -> Vec<PairConflict> {
        let rows = || self.pair_rows.values().filter(|row| !row.is_free());
        let mut found = Vec::new();
        for row in rows().filter(|row| row.origin == PairOrigin::Allocated) {
            let conflict = |other| PairConflict { pair: row.pair, holder: row.holder.clone(), other };
            // Of two that were allocated, one says it.
            let other = |o: &&PairRow| {
                o.pair == row.pair
                    && o.holder != row.holder
                    && (o.origin == PairOrigin::Named || o.holder > row.holder)
            };
            found.extend(rows().filter(other).map(|o| conflict(Some(o.holder.clone()))));
            let leases = self.leases.values().filter(|lease| lease.categories == Some(row.pair));
            found.extend(leases.map(|lease| conflict(lease.holder.clone())));
        }
        found.sort_by(|a, b| (&a.holder, &a.other).cmp(&(&b.holder, &b.other)));
        found
    }

    /// Pairs that were given back, and those of earlier boots that no runtime has confirmed since.
    pub(crate) fn pair_candidates(&self, moment: &Moment) -> Vec<PairCandidate> {
        let waiting = self.pair_rows.values().filter(|row| match row.standing {
            PairStanding::Held => row.boot != moment.boot,
            PairStanding::Released => true,
            PairStanding::Free => false,
        });
        let mut candidates: Vec<PairCandidate> =
            waiting.map(|row| PairCandidate { held: held(row, moment), seq: row.seq }).collect();
        candidates.sort_by(|a, b| a.held.holder.cmp(&b.held.holder));
        candidates
    }

    /// What follows for each candidate that has not changed since its place was looked for.
    pub(crate) fn judge_pairs(
        &self,
        candidates: &[PairCandidate],
        gone: &HashSet<Holder>,
    ) -> Vec<PairVerdict> {
        let unchanged =
            |c: &&PairCandidate| self.pair_rows.get(&c.held.holder).is_some_and(|row| row.seq == c.seq);
        let verdict =
            |c: &PairCandidate| PairVerdict { held: c.held.clone(), freed: gone.contains(&c.held.holder) };
        candidates.iter().filter(unchanged).map(verdict).collect()
    }

    /// Frees the pairs whose place is gone.
    pub(crate) fn execute_pairs(&mut self, verdicts: &[PairVerdict], moment: &Moment) {
        for verdict in verdicts.iter().filter(|verdict| verdict.freed) {
            self.release_pair(&verdict.held.holder, |_| false, moment);
        }
    }
}

/// Where the search for a holder's pair begins. Holders begin at different numbers, so that a pair that was given back, or
/// one of the low numbers that manifests name, is hardly ever the next to be allocated.
fn first_of(holder: &Holder) -> u32 {
    let count = u64::from(CategoryPair::COUNT);
    u32::try_from(xxh3_64(holder.as_str().as_bytes()) % count).unwrap_or_default()
}

fn new_row(user: &PairUser, pair: CategoryPair, origin: PairOrigin, moment: &Moment) -> PairRow {
    PairRow {
        seq: 0,
        holder: user.holder.clone(),
        pair,
        origin,
        standing: PairStanding::Held,
        place: user.place.display().to_string(),
        since: moment.now,
        boot: moment.boot.clone(),
    }
}

fn held(row: &PairRow, moment: &Moment) -> HeldPair {
    HeldPair {
        holder: row.holder.clone(),
        pair: row.pair,
        origin: row.origin,
        released: row.standing == PairStanding::Released,
        place: row.place.clone().into(),
        since: row.since,
        earlier_boot: row.boot != moment.boot,
    }
}

#[cfg(test)]
mod tests {
    use ids::BlockLength;
    use ids::allocator::Allocator;
    use ids::pool::IdPool;
    use ids::witness::Sighting;

    use super::*;
    use crate::clock::BootId;
    use crate::db::{Head, Rows};

    fn user(name: &str) -> PairUser {
        PairUser { holder: Holder::new(name).unwrap(), place: "/state/box".into() }
    }

    #[test]
    fn when_all_pairs_have_holders_the_next_is_an_error_and_not_a_shared_pair() {
        let pool = IdPool::default_for(BlockLength::DEFAULT, vec![]).unwrap();
        let head = Head { next: 1, ..Head::default() };
        let (mut table, _) = LeaseTable::new(Allocator::new(pool, None), head, Rows::default());
        let moment = Moment { now: 1, boot: BootId("boot".to_owned()) };
        let last = first_of(&user("last").holder);
        // All but one, which lies right before the place where the search begins: every pair is looked at.
        let left = CategoryPair::nth((last + CategoryPair::COUNT - 1) % CategoryPair::COUNT).unwrap();
        let others = (0..CategoryPair::COUNT).filter_map(CategoryPair::nth).filter(|pair| *pair != left);
        others.for_each(|pair| table.pairs.add(pair));
        assert_eq!(table.allocate_pair(&user("last"), &moment).unwrap(), left);

        let error = table.allocate_pair(&user("one-too-many"), &moment).unwrap_err();
        assert!(matches!(error, LedgerError::NoPair { .. }), "{error}");
        assert!(error.hint().is_some_and(|hint| hint.contains("wardlet ids gc")));
        let labelled =
            LeaseRequest { categories: Categories::Pair, ..LeaseRequest::new(Holder::new("pod").unwrap()) };
        let error = table.lease(&labelled, &Sighting::default(), &moment).unwrap_err();
        assert!(matches!(error, LedgerError::NoPair { .. }), "{error}");
        assert_eq!(table.allocator.counts().leased, 0, "a lease without its pair is none");
        assert_eq!(table.allocate_pair(&user("last"), &moment).unwrap(), left, "asked again, the same one");

        table.release_pair(&user("last").holder, |_| false, &moment);
        assert_eq!(table.allocate_pair(&user("one-too-many"), &moment).unwrap(), left);
    }
}

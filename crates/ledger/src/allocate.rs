//! The node's category pairs without a block: which sandbox or container has which.
//!
//! The caller is a runtime. It allocates or reserves a pair before it writes its own record of the sandbox, and gives it
//! back when nothing of the sandbox is left. If it is killed in between, its next start tells the ledger what there is.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

use selinux::CategoryPair;

use crate::error::LedgerError;
use crate::holder::Holder;
use crate::ledger::{Ledger, check_place, exists};
use crate::pair::{HeldPair, PairConflict, PairInUse, PairUser};

impl Ledger {
    /// Gives `user` a pair that no lease and no other user has; asked again, the same one. It is on disk when this returns.
    ///
    /// `in_use` is what else the caller knows to be in use: pairs that the ledger has lost to damage are entered again
    /// before it chooses.
    pub fn allocate_pair(&self, user: PairUser, in_use: Vec<PairInUse>) -> Result<CategoryPair, LedgerError> {
        check_place(&user.place)?;
        let (user, in_use) = (Arc::new(user), Arc::new(in_use));
        let attempt = || {
            let (user, in_use, witness) = (Arc::clone(&user), Arc::clone(&in_use), self.witness());
            self.submit(move |table, moment| {
                for known in in_use.iter().filter(|known| known.user.holder != user.holder) {
                    // One that is being removed has given its pair back, and its place is gone.
                    if !table.knows_pair(known) && exists(&*witness, &known.user.place) {
                        table.adopt_pair(known, moment);
                    }
                }
                table.allocate_pair(&user, moment)
            })
        };
        match attempt() {
            Err(LedgerError::NoPair { .. }) => {
                self.settle_pairs()?;
                attempt()
            }
            done => done,
        }
    }

    /// Enters the pair that the user's manifest names, so that it is not allocated. Several users can name one, and that of
    /// a lease; one that was allocated to another user is an error.
    pub fn reserve_pair(&self, user: PairUser, pair: CategoryPair) -> Result<(), LedgerError> {
        check_place(&user.place)?;
        self.submit(move |table, moment| table.reserve_pair(&user, pair, moment))
    }

    /// Gives back the pair of a sandbox or container that is gone, and returns what it had. While its place exists, the
    /// pair stays out of use.
    pub fn release_pair(&self, holder: Holder) -> Result<Option<HeldPair>, LedgerError> {
        let witness = self.witness();
        self.submit(move |table, moment| {
            Ok(table.release_pair(&holder, |place| exists(&*witness, place), moment))
        })
    }

    /// Makes the ledger say what a runtime knows: `in_use` are all its sandboxes and containers with a pair, and those that
    /// the ledger has below `dir` beside them are gone. Returns the pairs that more than one holder has, of whichever runtime.
    ///
    /// Nothing else may allocate for this runtime meanwhile.
    pub fn adopt_pairs(
        &self,
        dir: PathBuf,
        in_use: Vec<PairInUse>,
    ) -> Result<Vec<PairConflict>, LedgerError> {
        in_use.iter().try_for_each(|known| check_place(&known.user.place))?;
        let witness = self.witness();
        self.submit(move |table, moment| {
            in_use.iter().for_each(|known| table.adopt_pair(known, moment));
            let known: HashSet<&Holder> = in_use.iter().map(|known| &known.user.holder).collect();
            for holder in table.pair_holders_below(&dir).iter().filter(|holder| !known.contains(holder)) {
                table.release_pair(holder, |place| exists(&*witness, place), moment);
            }
            Ok(table.pair_conflicts())
        })
    }

    /// Every pair without a block that is not free, by holder.
    pub fn pairs(&self) -> Result<Vec<HeldPair>, LedgerError> {
        self.submit(|table, moment| Ok(table.held_pairs(moment)))
    }

    /// Pairs that were allocated to one holder and that another one has: from before they had one allocator.
    pub fn pair_conflicts(&self) -> Result<Vec<PairConflict>, LedgerError> {
        self.submit(|table, _| Ok(table.pair_conflicts()))
    }
}

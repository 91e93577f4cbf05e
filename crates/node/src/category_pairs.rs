//! The node's SELinux category pairs for the built-in runtime: the ledger behind the runtime's port.

use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use ledger::{Holder, Ledger, LedgerError, PairConflict, PairOrigin};
use selinux::{CategoryPair, CategoryPairs, PairError, PairInUse, PairSource, PairUser};

use crate::{Error, Node};

/// The ledger of a node, opened when the runtime first asks: where SELinux is off, that is never.
pub struct LedgerPairs {
    node: Node,
    ledger: Mutex<Option<Arc<Ledger>>>,
}

impl LedgerPairs {
    /// The pairs of this node's ledger. Nothing is opened yet.
    #[must_use]
    pub fn of(node: &Node) -> Self {
        Self { node: node.clone(), ledger: Mutex::default() }
    }

    fn with<T>(&self, work: impl FnOnce(&Ledger) -> Result<T, LedgerError>) -> Result<T, PairError> {
        let ledger = {
            let mut opened = self.ledger.lock().unwrap_or_else(PoisonError::into_inner);
            match &*opened {
                Some(ledger) => Arc::clone(ledger),
                None => {
                    let ledger = self.node.ledger().map_err(|error| pair_error(&error))?;
                    Arc::clone(opened.insert(Arc::new(ledger)))
                }
            }
        };
        let done = work(&ledger);
        ledger.take_notices().iter().for_each(|notice| tracing::warn!("{notice}"));
        done.map_err(|error| pair_error(&error.into()))
    }
}

impl fmt::Debug for LedgerPairs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LedgerPairs").field("dir", &self.node.state_dir()).finish_non_exhaustive()
    }
}

impl CategoryPairs for LedgerPairs {
    fn allocate(&self, user: &PairUser, in_use: Vec<PairInUse>) -> Result<CategoryPair, PairError> {
        let (user, in_use) = (ledger_user(user)?, ledger_pairs(&in_use)?);
        self.with(|ledger| ledger.allocate_pair(user, in_use))
    }

    fn reserve(&self, user: &PairUser, pair: CategoryPair) -> Result<(), PairError> {
        let user = ledger_user(user)?;
        self.with(|ledger| ledger.reserve_pair(user, pair))
    }

    fn release(&self, user: &PairUser) -> Result<(), PairError> {
        let user = ledger_user(user)?;
        self.with(|ledger| ledger.release_pair(user.holder).map(drop))
    }

    fn adopt(&self, dir: &Path, in_use: Vec<PairInUse>) -> Result<Vec<String>, PairError> {
        let in_use = ledger_pairs(&in_use)?;
        let conflicts = self.with(|ledger| ledger.adopt_pairs(dir.to_owned(), in_use))?;
        Ok(conflicts.iter().map(sentence).collect())
    }
}

/// A conflict in words.
fn sentence(conflict: &PairConflict) -> String {
    let other = conflict.other.as_ref().map_or("a pinned lease", Holder::as_str);
    format!(
        "SELinux categories {} of {} are those of {other} too: remove one of the two pods and start it again",
        conflict.pair, conflict.holder
    )
}

fn pair_error(error: &Error) -> PairError {
    PairError { message: error.to_string(), hint: error.hint() }
}

fn ledger_user(user: &PairUser) -> Result<ledger::PairUser, PairError> {
    let holder = Holder::new(user.id.clone());
    let holder = holder.map_err(|error| PairError { message: error.to_string(), hint: None })?;
    Ok(ledger::PairUser { holder, place: user.dir.clone() })
}

fn ledger_pairs(in_use: &[PairInUse]) -> Result<Vec<ledger::PairInUse>, PairError> {
    let entry = |known: &PairInUse| {
        let origin = match known.source {
            PairSource::Allocated => PairOrigin::Allocated,
            PairSource::Named => PairOrigin::Named,
        };
        Ok(ledger::PairInUse { user: ledger_user(&known.user)?, pair: known.pair, origin })
    };
    in_use.iter().map(entry).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::Location;

    fn pairs(dir: &Path) -> LedgerPairs {
        let location = Location {
            state_dir: &dir.join("state"),
            host_root: Path::new("/"),
            config: Some(&dir.join("config.yaml")),
        };
        LedgerPairs::of(&Node::open(location).unwrap())
    }

    fn home() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("config.yaml"), "{}\n").unwrap();
        dir
    }

    fn user(dir: &Path, id: &str) -> PairUser {
        PairUser { id: id.to_owned(), dir: dir.join("sandboxes").join(id) }
    }

    #[test]
    fn two_runtimes_on_one_ledger_never_share_a_pair() {
        let home = home();
        let runtimes = [pairs(home.path()), pairs(home.path())];
        let all: Vec<CategoryPair> = std::thread::scope(|scope| {
            let work = |n: usize| {
                let (runtime, dir) = (&runtimes[n], home.path().join(format!("runtime-{n}")));
                move || -> Vec<CategoryPair> {
                    (0..40)
                        .map(|i| runtime.allocate(&user(&dir, &format!("{n}-{i}")), vec![]).unwrap())
                        .collect()
                }
            };
            let running = [0, 1].map(|n| scope.spawn(work(n)));
            running.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(all.iter().collect::<HashSet<_>>().len(), 80);
        // What one of them has not is none of its business if it is the other's.
        assert_eq!(runtimes[0].adopt(&home.path().join("runtime-0"), vec![]).unwrap(), Vec::<String>::new());
        let held = runtimes[1].with(Ledger::pairs).unwrap();
        assert_eq!(held.len(), 40);
        assert!(held.iter().all(|held| held.holder.as_str().starts_with("1-")), "{held:?}");
    }

    #[test]
    fn pairs_that_a_runtime_chose_by_itself_are_adopted_and_a_conflict_is_told() {
        let home = home();
        let runtime = pairs(home.path());
        let dir = home.path().join("runtime");
        let pair = CategoryPair::new(3, 4).unwrap();
        let chosen = |id: &str, source| PairInUse { user: user(&dir, id), pair, source };
        let told = runtime
            .adopt(&dir, vec![chosen("chosen", PairSource::Allocated), chosen("named", PairSource::Named)])
            .unwrap();
        assert_eq!(told.len(), 1);
        assert!(told[0].contains("c3,c4 of chosen") && told[0].contains("named"), "{told:?}");
        let refused = runtime.reserve(&user(&dir, "new"), pair).unwrap_err();
        assert!(refused.message.contains("allocated to chosen") && refused.hint.is_some(), "{refused:?}");
    }
}

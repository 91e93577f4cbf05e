use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use super::DiskUsage;
use super::tree::Tree;
use crate::Result;

/// A walk that took long is not done again before this many times as long has passed.
const REST: u32 = 20;
/// How long one caller walks, through however many trees.
const A_ROUND: Duration = Duration::from_secs(2);

/// What trees of files take, as of the last time that they were walked through.
///
/// One caller walks at a time; others get what is known. A tree that is too large for one caller's time is
/// gone on with by the next, and until its end it takes at least what was counted.
#[derive(Debug, Default)]
pub struct DiskUsageCache {
    trees: Mutex<BTreeMap<PathBuf, Arc<Tree>>>,
    walking: Mutex<()>,
}

/// The time that one caller has.
#[derive(Debug, Clone, Copy)]
pub struct Round(Instant);

impl Round {
    /// From now on.
    #[must_use]
    pub fn begin() -> Self {
        Self(Instant::now() + A_ROUND)
    }
}

impl DiskUsageCache {
    /// What lies below a directory, itself included. `None` if that is not known yet.
    ///
    /// # Errors
    /// If the directory cannot be opened.
    pub fn usage(&self, path: &Path, round: Round) -> Result<Option<DiskUsage>> {
        let tree = self.tree(path);
        if tree.is_good() {
            return Ok(tree.known());
        }
        let walking = match self.walking.try_lock() {
            Ok(walking) => walking,
            Err(TryLockError::Poisoned(walking)) => walking.into_inner(),
            // A caller without an earlier result waits: the walk is short.
            Err(TryLockError::WouldBlock) if tree.known().is_none() => {
                self.walking.lock().unwrap_or_else(PoisonError::into_inner)
            }
            Err(TryLockError::WouldBlock) => return Ok(tree.known()),
        };
        if !tree.is_good() && Instant::now() < round.0 {
            let walked = tree.walk(path, round.0, REST);
            if walked.is_err() {
                self.forget(path);
            }
            walked?;
        }
        drop(walking);
        Ok(tree.known())
    }

    fn tree(&self, path: &Path) -> Arc<Tree> {
        let mut trees = self.trees.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(tree) = trees.get(path) {
            return Arc::clone(tree);
        }
        // Only trees that no longer exist are dropped.
        trees.retain(|path, _| path.exists());
        Arc::clone(trees.entry(path.to_owned()).or_default())
    }

    fn forget(&self, path: &Path) {
        self.trees.lock().unwrap_or_else(PoisonError::into_inner).remove(path);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn what_was_counted_is_not_counted_again_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let ledger = DiskUsageCache::default();
        let look = || ledger.usage(dir.path(), Round::begin()).unwrap().unwrap();
        assert_eq!(look().inodes, 1);
        fs::write(dir.path().join("file"), "").unwrap();
        assert_eq!(look().inodes, 1, "it is known");
        let other = dir.path().join("other");
        fs::create_dir(&other).unwrap();
        assert_eq!(ledger.usage(&other, Round::begin()).unwrap().unwrap().inodes, 1);
    }

    #[test]
    fn a_tree_too_large_for_one_caller_is_gone_on_with_by_the_next() {
        let dir = tempfile::tempdir().unwrap();
        for name in 0..2000 {
            fs::write(dir.path().join(name.to_string()), "").unwrap();
        }
        let ledger = DiskUsageCache::default();
        let tree = ledger.tree(dir.path());
        let mut last = 0;
        while !tree.is_good() {
            tree.walk(dir.path(), Instant::now(), REST).unwrap();
            let now = tree.known().unwrap().inodes;
            assert!(now >= last, "it never takes less than it was seen to");
            last = now;
        }
        assert_eq!(last, 2001);
    }

    #[test]
    fn a_caller_whose_time_is_over_gets_what_is_known_and_no_more() {
        let dir = tempfile::tempdir().unwrap();
        let ledger = DiskUsageCache::default();
        assert_eq!(ledger.usage(dir.path(), Round(Instant::now())).unwrap(), None);
    }

    #[test]
    fn trees_that_are_gone_are_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        let (gone, there) = (dir.path().join("gone"), dir.path().join("there"));
        fs::create_dir(&gone).unwrap();
        fs::create_dir(&there).unwrap();
        let ledger = DiskUsageCache::default();
        ledger.usage(&gone, Round::begin()).unwrap();
        fs::remove_dir(&gone).unwrap();
        ledger.usage(&there, Round::begin()).unwrap();
        assert_eq!(ledger.trees.lock().unwrap().keys().collect::<Vec<_>>(), [&there]);
        assert!(ledger.usage(&gone, Round::begin()).is_err());
    }
}

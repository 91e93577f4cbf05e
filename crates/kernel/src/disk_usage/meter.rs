use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::DiskUsage;
use super::tree::Tree;
use crate::{Error, Result};

/// How long one tree is walked before it is the next one's turn: a pod with a huge tree does not keep the meter from
/// those of other pods.
const SLICE: Duration = Duration::from_millis(100);
/// The thread sleeps so many times as long as it has walked: it takes a fifth of a processor at most.
const SLEEP: u32 = 4;
/// A tree is walked again after this many times as long as its walk took.
const REST: u32 = 4;
/// How long the thread sleeps when no tree is due.
const PAUSE: Duration = Duration::from_millis(500);

/// Measures directory trees by a thread of its own, which ends when this value is dropped. Asking for a usage takes no time.
#[derive(Debug)]
pub struct DiskUsageMeter {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    watched: Mutex<Watched>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Watched {
    trees: BTreeMap<PathBuf, Arc<Tree>>,
    is_stopped: bool,
}

impl DiskUsageMeter {
    /// Starts the thread, which has no tree to measure yet.
    ///
    /// # Errors
    /// If the kernel starts no thread.
    pub fn start() -> Result<Self> {
        let shared = Arc::new(Shared::default());
        let work = Arc::clone(&shared);
        let builder = std::thread::Builder::new().name("disk-usage".to_owned());
        let spawned = builder.spawn(move || work.run());
        spawned.map_err(|error| Error::Thread { cause: error.to_string() })?;
        Ok(Self { shared })
    }

    /// Measures these trees from now on, and no others. The caller trusts the paths down to the trees.
    pub fn watch(&self, trees: BTreeSet<PathBuf>) {
        let mut watched = self.shared.lock();
        watched.trees.retain(|path, _| trees.contains(path));
        for path in trees {
            watched.trees.entry(path).or_default();
        }
        self.shared.changed.notify_all();
    }

    /// What a tree takes, itself included, as of its last walk; `None` if that is not known yet, and for one that is gone. Of
    /// a first walk that takes long it is what was counted up to now.
    #[must_use]
    pub fn usage(&self, tree: &Path) -> Option<DiskUsage> {
        self.shared.lock().trees.get(tree)?.known()
    }

    /// Whether each tree was walked to the end at least once since it is watched, or is gone.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.shared.lock().trees.values().all(|tree| tree.is_settled())
    }
}

impl Drop for DiskUsageMeter {
    fn drop(&mut self) {
        self.shared.lock().is_stopped = true;
        self.shared.changed.notify_all();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Watched> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        let mut pause = Duration::ZERO;
        while let Some(due) = self.due(pause) {
            pause = PAUSE;
            for (path, tree) in due {
                let begun = Instant::now();
                if tree.walk(&path, begun + SLICE, REST).is_err() {
                    // It is measured if it is there again.
                    tree.set_gone();
                }
                std::thread::sleep(begun.elapsed().saturating_mul(SLEEP));
                if self.lock().is_stopped {
                    return;
                }
            }
        }
    }

    /// The trees to walk, after a pause unless others are watched meanwhile; `None` at the end.
    fn due(&self, pause: Duration) -> Option<Vec<(PathBuf, Arc<Tree>)>> {
        let watched = self.lock();
        let watched = if watched.is_stopped || pause.is_zero() {
            watched
        } else {
            let waited = self.changed.wait_timeout(watched, pause);
            waited.unwrap_or_else(PoisonError::into_inner).0
        };
        let due = watched.trees.iter().filter(|(_, tree)| !tree.is_good());
        (!watched.is_stopped).then(|| due.map(|(path, tree)| (path.clone(), Arc::clone(tree))).collect())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn until<T>(get: impl Fn() -> Option<T>) -> T {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            if let Some(found) = get() {
                return found;
            }
            assert!(Instant::now() < deadline, "it did not come to be so");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn trees_are_measured_while_they_are_watched() {
        let dir = tempfile::tempdir().unwrap();
        let (one, other) = (dir.path().join("one"), dir.path().join("other"));
        fs::create_dir_all(one.join("below")).unwrap();
        fs::create_dir(&other).unwrap();
        let meter = DiskUsageMeter::start().unwrap();
        assert_eq!(meter.usage(&one), None);
        meter.watch([one.clone(), dir.path().join("gone")].into());
        assert_eq!(until(|| meter.usage(&one)).inodes, 2);
        assert_eq!(meter.usage(&dir.path().join("gone")), None);
        until(|| meter.is_complete().then_some(()));
        meter.watch([other.clone()].into());
        assert_eq!(until(|| meter.usage(&other)).inodes, 1);
        assert_eq!(meter.usage(&one), None, "it is no longer watched");
        meter.watch([one.clone(), other].into());
        until(|| meter.is_complete().then_some(()));
        assert_eq!(meter.usage(&one).map(|usage| usage.inodes), Some(2));
    }

    /// A pod could keep the limits of other pods' volumes from being enforced.
    #[test]
    fn a_huge_tree_does_not_keep_others_from_being_measured() {
        let dir = tempfile::tempdir().unwrap();
        let (huge, small) = (dir.path().join("huge"), dir.path().join("small"));
        fs::create_dir(&huge).unwrap();
        fs::create_dir(&small).unwrap();
        for name in 0..20_000 {
            fs::write(huge.join(name.to_string()), "").unwrap();
        }
        let shared = Shared::default();
        shared.lock().trees = [&huge, &small].map(|path| (path.clone(), Arc::default())).into();
        // Each is walked for a moment in its turn, the huge one first.
        let mut turns = 0;
        let is_good = |path| shared.lock().trees[path].is_good();
        while is_good(&huge) == is_good(&small) {
            for (path, tree) in shared.due(Duration::ZERO).unwrap() {
                tree.walk(&path, Instant::now(), REST).unwrap();
            }
            turns += 1;
        }
        assert_eq!(turns, 1);
        let meter = |path| shared.lock().trees[path].known().unwrap().inodes;
        assert_eq!(meter(&small), 1);
        assert!((1..20_001).contains(&meter(&huge)), "what was counted counts before the end of the walk");
        assert!(!shared.lock().trees[&huge].is_settled());
    }

    #[test]
    fn a_tree_that_comes_later_is_measured_then() {
        let dir = tempfile::tempdir().unwrap();
        let late = dir.path().join("late");
        let meter = DiskUsageMeter::start().unwrap();
        meter.watch([late.clone()].into());
        std::thread::sleep(Duration::from_millis(20));
        fs::create_dir(&late).unwrap();
        assert_eq!(until(|| meter.usage(&late)).inodes, 1);
    }
}

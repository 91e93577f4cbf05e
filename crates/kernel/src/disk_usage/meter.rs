use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::DiskUsage;
use super::tree::Tree;
use crate::{Error, Result};

/// How long trees of one group are walked before it is the next one's turn: a pod with a huge tree, or with many, does not keep
/// the meter from those of other pods.
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
    trees: BTreeMap<PathBuf, Measured>,
    /// The tree of each group that was walked last.
    last: BTreeMap<String, PathBuf>,
    is_stopped: bool,
}

#[derive(Debug)]
struct Measured {
    group: String,
    tree: Arc<Tree>,
}

/// The trees of a group that are to be walked, in this order.
#[derive(Debug)]
struct Turn {
    group: String,
    trees: Vec<(PathBuf, Arc<Tree>)>,
}

impl Watched {
    /// A turn for each group that has trees to walk. It begins after the tree that was walked last.
    fn turns(&self) -> Vec<Turn> {
        let mut due: BTreeMap<&str, Vec<(PathBuf, Arc<Tree>)>> = BTreeMap::new();
        for (path, measured) in self.trees.iter().filter(|(_, measured)| !measured.tree.is_good()) {
            due.entry(&measured.group).or_default().push((path.clone(), Arc::clone(&measured.tree)));
        }
        let turn = |(group, mut trees): (&str, Vec<(PathBuf, Arc<Tree>)>)| {
            if let Some(last) = self.last.get(group) {
                // They are sorted by their paths.
                let before = trees.partition_point(|(path, _)| path <= last);
                trees.rotate_left(before);
            }
            Turn { group: group.to_owned(), trees }
        };
        due.into_iter().map(turn).collect()
    }
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

    /// Measures these trees from now on, and no others. Each group, such as the trees of a pod, has the same time, however many
    /// trees it has. The caller trusts the paths down to the trees.
    pub fn watch(&self, groups: BTreeMap<String, BTreeSet<PathBuf>>) {
        let mut watched = self.shared.lock();
        let Watched { trees, last, .. } = &mut *watched;
        let is_watched =
            |group: &String, path: &PathBuf| groups.get(group).is_some_and(|trees| trees.contains(path));
        trees.retain(|path, measured| is_watched(&measured.group, path));
        last.retain(|group, _| groups.contains_key(group));
        for (group, paths) in groups {
            for path in paths {
                let new = || Measured { group: group.clone(), tree: Arc::default() };
                trees.entry(path).or_insert_with(new);
            }
        }
        self.shared.changed.notify_all();
    }

    /// What a tree takes, itself included, as of its last walk; `None` if that is not known yet, and for one that is gone. Of
    /// a first walk that takes long it is what was counted up to now.
    #[must_use]
    pub fn usage(&self, tree: &Path) -> Option<DiskUsage> {
        self.shared.lock().trees.get(tree)?.tree.known()
    }

    /// Whether each tree was walked to the end at least once since it is watched, or is gone.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.shared.lock().trees.values().all(|measured| measured.tree.is_settled())
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
        while let Some(turns) = self.due(pause) {
            pause = PAUSE;
            for Turn { group, trees } in turns {
                let begun = Instant::now();
                let walked = walk(trees, begun + SLICE);
                self.lock().last.extend(walked.map(|path| (group, path)));
                std::thread::sleep(begun.elapsed().saturating_mul(SLEEP));
                if self.lock().is_stopped {
                    return;
                }
            }
        }
    }

    /// The trees to walk, after a pause unless others are watched meanwhile; `None` at the end.
    fn due(&self, pause: Duration) -> Option<Vec<Turn>> {
        let watched = self.lock();
        let watched = if watched.is_stopped || pause.is_zero() {
            watched
        } else {
            let waited = self.changed.wait_timeout(watched, pause);
            waited.unwrap_or_else(PoisonError::into_inner).0
        };
        (!watched.is_stopped).then(|| watched.turns())
    }
}

/// Walks one tree after the other until this moment. Returns the last.
fn walk(trees: Vec<(PathBuf, Arc<Tree>)>, until: Instant) -> Option<PathBuf> {
    let mut last = None;
    for (path, tree) in trees {
        if tree.walk(&path, until, REST).is_err() {
            // It is measured if it is there again.
            tree.set_gone();
        }
        last = Some(path);
        if Instant::now() >= until {
            break;
        }
    }
    last
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

    fn group(name: &str, paths: &[&Path]) -> (String, BTreeSet<PathBuf>) {
        (name.to_owned(), paths.iter().map(|path| path.to_path_buf()).collect())
    }

    #[test]
    fn trees_are_measured_while_they_are_watched() {
        let dir = tempfile::tempdir().unwrap();
        let (one, other) = (dir.path().join("one"), dir.path().join("other"));
        fs::create_dir_all(one.join("below")).unwrap();
        fs::create_dir(&other).unwrap();
        let meter = DiskUsageMeter::start().unwrap();
        assert_eq!(meter.usage(&one), None);
        meter.watch([group("a", &[&one, &dir.path().join("gone")])].into());
        assert_eq!(until(|| meter.usage(&one)).inodes, 2);
        assert_eq!(meter.usage(&dir.path().join("gone")), None);
        until(|| meter.is_complete().then_some(()));
        meter.watch([group("a", &[&other])].into());
        assert_eq!(until(|| meter.usage(&other)).inodes, 1);
        assert_eq!(meter.usage(&one), None, "it is no longer watched");
        meter.watch([group("a", &[&other]), group("b", &[&one])].into());
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
        let meter = DiskUsageMeter { shared: Arc::default() };
        let shared = &meter.shared;
        meter.watch([group("a", &[&huge]), group("b", &[&small])].into());
        let is_good = |path: &Path| shared.lock().trees[path].tree.is_good();
        // Each is walked for a moment in its turn, the huge one first.
        let mut turns = 0;
        while is_good(&huge) == is_good(&small) {
            for turn in shared.due(Duration::ZERO).unwrap() {
                walk(turn.trees, Instant::now());
            }
            turns += 1;
        }
        assert_eq!(turns, 1);
        let inodes = |path: &Path| meter.usage(path).unwrap().inodes;
        assert_eq!(inodes(&small), 1);
        assert!((1..20_001).contains(&inodes(&huge)), "what was counted counts before the end of the walk");
        assert!(!shared.lock().trees[&huge].tree.is_settled());
    }

    /// A pod with many volumes had a share of the time for each of them.
    #[test]
    fn a_pod_with_many_trees_has_no_more_time_than_one_with_one() {
        let dir = tempfile::tempdir().unwrap();
        let many: Vec<PathBuf> = (0..20).map(|number| dir.path().join(format!("many{number:02}"))).collect();
        let one = dir.path().join("one");
        many.iter().chain([&one]).for_each(|path| fs::create_dir(path).unwrap());
        let meter = DiskUsageMeter { shared: Arc::default() };
        let paths: Vec<&Path> = many.iter().map(PathBuf::as_path).collect();
        meter.watch([group("many", &paths), group("one", &[&one])].into());
        let order = || -> Vec<(String, PathBuf)> {
            let turns = meter.shared.due(Duration::ZERO).unwrap();
            turns.into_iter().map(|turn| (turn.group, turn.trees[0].0.clone())).collect()
        };
        assert_eq!(order(), [("many".to_owned(), many[0].clone()), ("one".to_owned(), one.clone())]);
        // A turn that is over ends with the tree that it walks, and the next one begins after that.
        let turn = meter.shared.due(Duration::ZERO).unwrap().remove(0);
        assert_eq!(turn.trees.len(), 20);
        let walked = walk(turn.trees, Instant::now()).unwrap();
        assert_eq!(walked, many[0]);
        meter.shared.lock().last.insert("many".to_owned(), many[7].clone());
        assert_eq!(order()[0].1, many[8]);
        meter.shared.lock().last.insert("many".to_owned(), many[19].clone());
        assert_eq!(order()[0].1, many[1], "the first is measured");
    }

    #[test]
    fn a_tree_that_comes_later_is_measured_then() {
        let dir = tempfile::tempdir().unwrap();
        let late = dir.path().join("late");
        let meter = DiskUsageMeter::start().unwrap();
        meter.watch([group("a", &[&late])].into());
        std::thread::sleep(Duration::from_millis(20));
        fs::create_dir(&late).unwrap();
        assert_eq!(until(|| meter.usage(&late)).inodes, 1);
    }
}

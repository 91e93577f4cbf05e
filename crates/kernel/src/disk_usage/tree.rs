//! A tree that is walked again and again.

use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::DiskUsage;
use super::walk::{Progress, Walk};
use crate::Result;

/// How long what was counted is good enough.
const AGE: Duration = Duration::from_secs(10);

/// A walk in which directories were moved is done again at once. After so many of them, a process keeps moving directories, and what
/// was counted is a lower bound.
const LOST_WALKS: u32 = 3;

/// What a tree takes, and the walk that counts it.
#[derive(Debug, Default)]
pub(super) struct Tree {
    known: Mutex<Known>,
    /// Locked by the thread that walks.
    walk: Mutex<Option<Begun>>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Known {
    usage: Option<DiskUsage>,
    good_until: Option<Instant>,
    /// Whether it was walked to the end, or found to be gone.
    is_settled: bool,
    /// In how many walks up to the last one directories were moved.
    lost: u32,
}

impl Known {
    /// Notes what a walk to the end has counted. The tree rests until then.
    fn walked(&mut self, walk: &Walk, good_until: Option<Instant>) {
        self.lost = if walk.has_lost() { self.lost.saturating_add(1) } else { 0 };
        let usage = walk.usage();
        if (1..LOST_WALKS).contains(&self.lost) {
            self.usage = Some(usage.at_least(self.usage.unwrap_or_default()));
            return;
        }
        let at_least = usage.at_least || self.lost > 0;
        let usage = Some(DiskUsage { at_least, ..usage });
        *self = Self { usage, good_until, is_settled: true, lost: self.lost };
    }
}

/// A walk that was interrupted, and how long it has taken.
#[derive(Debug)]
struct Begun {
    walk: Walk,
    spent: Duration,
}

impl Tree {
    /// What was counted last; of a first walk that is not at its end, what it has counted.
    pub(super) fn known(&self) -> Option<DiskUsage> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).usage
    }

    /// Whether what is known is new enough.
    pub(super) fn is_good(&self) -> bool {
        let known = *self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.good_until.is_some_and(|until| Instant::now() < until)
    }

    /// Whether it was walked to the end at least once, or is gone.
    pub(super) fn is_settled(&self) -> bool {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).is_settled
    }

    /// Notes that there is no such tree.
    pub(super) fn set_gone(&self) {
        *self.walk.lock().unwrap_or_else(PoisonError::into_inner) = None;
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        *known = Known { is_settled: true, ..Known::default() };
    }

    /// Goes on with the walk until this moment. After its end the tree rests for `rest` times as long as it took.
    ///
    /// # Errors
    /// If the directory cannot be opened.
    pub(super) fn walk(&self, path: &Path, until: Instant, rest: u32) -> Result<()> {
        let mut begun = self.walk.lock().unwrap_or_else(PoisonError::into_inner);
        let Begun { mut walk, spent } = match begun.take() {
            Some(interrupted) => interrupted,
            None => Begun { walk: Walk::of(path)?, spent: Duration::ZERO },
        };
        let since = Instant::now();
        let progress = walk.go_on(until);
        let spent = spent + since.elapsed();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        match progress {
            Progress::Done => {
                let rest = spent.saturating_mul(rest).max(AGE);
                known.walked(&walk, Instant::now().checked_add(rest));
            }
            Progress::Left => {
                walk.interrupt();
                known.usage = Some(walk.usage().at_least(known.usage.unwrap_or_default()));
                *begun = Some(Begun { walk, spent });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// A process that kept moving directories hid what they had from the limits of its volumes.
    #[test]
    fn a_tree_whose_directories_are_moved_again_and_again_takes_an_unknown_amount() {
        let dir = tempfile::tempdir().unwrap();
        let (top, outside) = (dir.path().join("top"), dir.path().join("outside"));
        let inside = top.join("1/2/3/4/5");
        fs::create_dir_all(inside.join("6/7/8/9/10/11/12")).unwrap();
        let good_until = Instant::now().checked_add(AGE);
        let mut known = Known::default();
        let mut walk = |is_moved: bool| {
            let mut walk = Walk::of(&top).unwrap();
            while walk.depth() < 13 {
                walk.step();
            }
            walk.interrupt();
            if is_moved {
                fs::rename(&inside, &outside).unwrap();
            }
            while walk.go_on(Instant::now()) == Progress::Left {}
            if is_moved {
                fs::rename(&outside, &inside).unwrap();
            }
            assert_eq!(walk.has_lost(), is_moved);
            known.walked(&walk, good_until);
            (known.is_settled && known.good_until.is_some(), known.usage.is_some_and(|usage| usage.at_least))
        };
        // Programs that do no harm move directories, too.
        assert_eq!([walk(true), walk(true), walk(true)], [(false, false), (false, false), (true, true)]);
        assert_eq!(walk(false), (true, false));
    }
}

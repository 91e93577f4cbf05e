//! A tree that is walked again and again.

use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::DiskUsage;
use super::walk::{Progress, Walk};
use crate::Result;

/// How long what was counted is good enough.
const AGE: Duration = Duration::from_secs(10);

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
                let good_until = Instant::now().checked_add(rest);
                *known = Known { usage: Some(walk.usage()), good_until, is_settled: true };
            }
            Progress::Left => {
                known.usage = Some(walk.usage().at_least(known.usage.unwrap_or_default()));
                *begun = Some(Begun { walk, spent });
            }
        }
        Ok(())
    }
}

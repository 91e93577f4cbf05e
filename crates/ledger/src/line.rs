//! Callers stand in line; whoever is at the head does the work of all who stand there, at once.
//!
//! While one transaction waits for the disk, the next callers gather, and the first of them takes all
//! of them into the next one: many callers share a commit, and a lone caller waits for nobody.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Thread;

/// Something to be done for a caller who waits for it.
struct Place<J> {
    job: J,
    caller: Arc<Caller>,
}

/// A caller that stands in line.
struct Caller {
    thread: Thread,
    /// It is its turn to do the work.
    leads: AtomicBool,
    /// Its own work is done.
    served: AtomicBool,
}

struct Waiting<J> {
    /// Somebody is doing work, or has been told to.
    busy: bool,
    places: Vec<Place<J>>,
}

/// The line itself, for jobs of type `J`.
pub(crate) struct Line<J>(Mutex<Waiting<J>>);

impl<J> Line<J> {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Waiting { busy: false, places: Vec::new() }))
    }

    /// Returns once `job` has been through `work`, which gets all jobs in line.
    pub(crate) fn stand(&self, job: J, work: impl FnOnce(Vec<J>)) {
        let caller = Arc::new(Caller {
            thread: std::thread::current(),
            leads: AtomicBool::new(false),
            served: AtomicBool::new(false),
        });
        {
            let mut waiting = lock(&self.0);
            waiting.places.push(Place { job, caller: Arc::clone(&caller) });
            if !waiting.busy {
                waiting.busy = true;
                caller.leads.store(true, Ordering::Release);
            }
        }
        while !caller.served.load(Ordering::Acquire) {
            if caller.leads.load(Ordering::Acquire) {
                return self.lead(work);
            }
            std::thread::park();
        }
    }

    fn lead(&self, work: impl FnOnce(Vec<J>)) {
        let places = std::mem::take(&mut lock(&self.0).places);
        let (jobs, callers): (Vec<J>, Vec<Arc<Caller>>) =
            places.into_iter().map(|p| (p.job, p.caller)).unzip();
        // Also on a panic in `work`, nobody must be left standing.
        let turn = Turn { line: self, callers };
        work(jobs);
        drop(turn);
    }
}

struct Turn<'a, J> {
    line: &'a Line<J>,
    callers: Vec<Arc<Caller>>,
}

impl<J> Drop for Turn<'_, J> {
    fn drop(&mut self) {
        let next = {
            let mut waiting = lock(&self.line.0);
            let next = waiting.places.first().map(|p| Arc::clone(&p.caller));
            waiting.busy = next.is_some();
            next
        };
        if let Some(next) = next {
            next.leads.store(true, Ordering::Release);
            next.thread.unpark();
        }
        for caller in &self.callers {
            caller.served.store(true, Ordering::Release);
            caller.thread.unpark();
        }
    }
}

/// A panic in another thread leaves nothing half-made behind these locks.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;

    #[test]
    fn every_job_is_done_once_and_many_share_a_turn() {
        let line = Line::new();
        let (sum, turns) = (AtomicU64::new(0), AtomicU64::new(0));
        let work = |jobs: Vec<u64>| {
            turns.fetch_add(1, Ordering::SeqCst);
            sum.fetch_add(jobs.iter().sum(), Ordering::SeqCst);
            std::thread::sleep(std::time::Duration::from_micros(200));
        };
        std::thread::scope(|s| {
            for _ in 0..8 {
                s.spawn(|| (0..200).for_each(|i| line.stand(i, work)));
            }
        });
        assert_eq!(sum.load(Ordering::SeqCst), 8 * (0..200).sum::<u64>());
        assert!(turns.load(Ordering::SeqCst) < 1600, "no two jobs ever shared a turn");
    }

    #[test]
    fn a_panic_at_the_head_leaves_nobody_standing() {
        let line = Line::new();
        std::thread::scope(|s| {
            let broken = s.spawn(|| line.stand(1, |_: Vec<u64>| panic!("broken")));
            assert!(broken.join().is_err());
            line.stand(2, |jobs| assert_eq!(jobs, [2]));
        });
    }
}

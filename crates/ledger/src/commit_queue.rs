//! Group commit: callers queue their jobs, and the first caller in the queue commits all of them in one transaction.
//!
//! While one transaction waits for the disk, the next callers queue, and the first of them commits the whole queue:
//! many callers share a commit, and a single caller never waits for another.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Thread;

/// A job and the thread that waits for it.
struct Entry<J> {
    job: J,
    caller: Arc<Caller>,
}

/// A thread that waits in the queue.
struct Caller {
    thread: Thread,
    /// Set when this thread must commit the queue.
    leads: AtomicBool,
    /// Set when its job has been committed or has failed.
    served: AtomicBool,
}

struct Waiting<J> {
    /// A thread commits, or has been woken to do so.
    busy: bool,
    entries: Vec<Entry<J>>,
}

/// The group commit queue, for jobs of type `J`.
pub(crate) struct CommitQueue<J>(Mutex<Waiting<J>>);

impl<J> CommitQueue<J> {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Waiting { busy: false, entries: Vec::new() }))
    }

    /// Queues `job` and returns once it has been through `work`. The calling thread runs `work` with all queued jobs if
    /// it is first in the queue; otherwise another thread does.
    pub(crate) fn submit(&self, job: J, work: impl FnOnce(Vec<J>)) {
        let caller = Arc::new(Caller {
            thread: std::thread::current(),
            leads: AtomicBool::new(false),
            served: AtomicBool::new(false),
        });
        {
            let mut waiting = lock(&self.0);
            waiting.entries.push(Entry { job, caller: Arc::clone(&caller) });
            if !waiting.busy {
                waiting.busy = true;
                caller.leads.store(true, Ordering::Release);
            }
        }
        while !caller.served.load(Ordering::Acquire) {
            if caller.leads.load(Ordering::Acquire) {
                return self.commit(work);
            }
            std::thread::park();
        }
    }

    fn commit(&self, work: impl FnOnce(Vec<J>)) {
        let entries = std::mem::take(&mut lock(&self.0).entries);
        let (jobs, callers): (Vec<J>, Vec<Arc<Caller>>) =
            entries.into_iter().map(|p| (p.job, p.caller)).unzip();
        // Its drop wakes the other threads, also on a panic in `work`.
        let turn = Turn { queue: self, callers };
        work(jobs);
        drop(turn);
    }
}

struct Turn<'a, J> {
    queue: &'a CommitQueue<J>,
    callers: Vec<Arc<Caller>>,
}

impl<J> Drop for Turn<'_, J> {
    fn drop(&mut self) {
        let next = {
            let mut waiting = lock(&self.queue.0);
            let next = waiting.entries.first().map(|p| Arc::clone(&p.caller));
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

/// Locks, and ignores poisoning: the data behind these locks is consistent at every point where a thread can panic.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;

    #[test]
    fn every_job_is_done_once_and_many_share_a_commit() {
        let queue = CommitQueue::new();
        let (sum, turns) = (AtomicU64::new(0), AtomicU64::new(0));
        let work = |jobs: Vec<u64>| {
            turns.fetch_add(1, Ordering::SeqCst);
            sum.fetch_add(jobs.iter().sum(), Ordering::SeqCst);
            std::thread::sleep(std::time::Duration::from_micros(200));
        };
        std::thread::scope(|s| {
            for _ in 0..8 {
                s.spawn(|| (0..200).for_each(|i| queue.submit(i, work)));
            }
        });
        assert_eq!(sum.load(Ordering::SeqCst), 8 * (0..200).sum::<u64>());
        assert!(turns.load(Ordering::SeqCst) < 1600, "no two jobs ever shared a commit");
    }

    #[test]
    fn a_panic_in_the_committing_thread_wakes_the_others() {
        let queue = CommitQueue::new();
        std::thread::scope(|s| {
            let broken = s.spawn(|| queue.submit(1, |_: Vec<u64>| panic!("broken")));
            assert!(broken.join().is_err());
            queue.submit(2, |jobs| assert_eq!(jobs, [2]));
        });
    }
}

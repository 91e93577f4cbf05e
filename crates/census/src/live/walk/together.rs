//! More than one who share the way over all processes, and what they have seen put together.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{sleep, yield_now};
use std::time::{Duration, Instant};

use super::super::fds::Budget;
use super::{Found, Walk};
use crate::error::CensusError;
use crate::host_root::HostRoot;

/// For how long a way is looked for without a pause, and how long the pauses are then.
const SOON: Duration = Duration::from_micros(300);

/// All processes, each of which is gone to once.
pub(super) struct Way {
    pids: Vec<u32>,
    next: AtomicUsize,
}

impl Way {
    pub(super) fn new(pids: Vec<u32>) -> Self {
        Self { pids, next: AtomicUsize::new(0) }
    }

    /// One that nobody has gone to yet. Whoever finds none left knows of all who went before that they go.
    pub(super) fn next(&self) -> Option<u32> {
        self.pids.get(self.next.fetch_add(1, Ordering::AcqRel)).copied()
    }
}

/// One walk: who leads finds the way, others help when they can.
pub(crate) struct Together {
    fds: Budget,
    /// Nothing in it: there is none.
    way: OnceLock<Option<Found>>,
    others: Mutex<Others>,
    back: Condvar,
}

#[derive(Default)]
struct Others {
    on_the_way: usize,
    seen: Vec<Walk>,
    broken_off: bool,
}

impl Default for Together {
    fn default() -> Self {
        Self::new(Budget::all())
    }
}

impl Together {
    /// A walk that looks at so many descriptors.
    pub(crate) fn new(fds: Budget) -> Self {
        Self { fds, way: OnceLock::new(), others: Mutex::default(), back: Condvar::new() }
    }

    /// Finds the way and goes it, and waits for whoever helps. What all have seen.
    pub(crate) fn lead(&self, root: &HostRoot) -> Result<Walk, CensusError> {
        // Whatever comes up, nobody waits for ever.
        let _told = Told(self);
        let found = Found::in_proc_of(root)?;
        // A look that was called off, or that somebody has led before, has seen nothing.
        let is_first = self.way.set(Some(found)).is_ok();
        let way = self.way.get().and_then(Option::as_ref).filter(|_| is_first);
        let mut seen = way.ok_or_else(|| called_off(root))?.go(root, &self.fds);
        let mut others = self.others();
        while others.on_the_way > 0 {
            others = self.back.wait(others).unwrap_or_else(PoisonError::into_inner);
        }
        others.seen.drain(..).for_each(|other| seen.take(other));
        if others.broken_off {
            seen.blind.push("the look at some of the processes was broken off".to_owned());
        }
        seen.resolve_mounts();
        if seen.fds_left {
            seen.blind.push(
                "there are more open descriptors than are looked at when a block is leased; wardlet ids gc looks at all"
                    .to_owned(),
            );
        }
        seen.sort();
        Ok(seen)
    }

    /// Goes where nobody has gone yet. Who comes too late has nothing to do.
    pub(crate) fn help(&self, root: &HostRoot) {
        if let Some(Some(found)) = self.way.get() {
            self.others().on_the_way += 1;
            let mut going = Going { together: self, seen: None };
            going.seen = Some(found.go(root, &self.fds));
        }
    }

    /// Whether there is a way by then.
    pub(crate) fn begins(&self, patience: Duration) -> bool {
        let began = Instant::now();
        while self.way.get().is_none() && began.elapsed() < patience {
            if began.elapsed() < SOON { yield_now() } else { sleep(SOON) }
        }
        matches!(self.way.get(), Some(Some(_)))
    }

    /// Nobody leads: whoever waits to help does not.
    pub(crate) fn cancel(&self) {
        let _ = self.way.set(None);
    }

    fn others(&self) -> MutexGuard<'_, Others> {
        self.others.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn called_off(root: &HostRoot) -> CensusError {
    CensusError::Proc { path: root.path("/proc"), source: io::Error::other("the look was called off") }
}

/// Says that there is no way when it is dropped, unless one was found.
struct Told<'a>(&'a Together);

impl Drop for Told<'_> {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// One who helps, and is waited for until this is dropped.
struct Going<'a> {
    together: &'a Together,
    seen: Option<Walk>,
}

impl Drop for Going<'_> {
    fn drop(&mut self) {
        let mut others = self.together.others();
        others.on_the_way -= 1;
        others.broken_off |= self.seen.is_none();
        others.seen.extend(self.seen.take());
        self.together.back.notify_all();
    }
}

impl Walk {
    /// Adds what another one has seen elsewhere.
    fn take(&mut self, other: Self) {
        self.processes.extend(other.processes);
        self.lineage.extend(other.lineage);
        self.blind.extend(other.blind);
        self.notes.extend(other.notes);
        self.like_host.extend(other.like_host);
        self.mounted.extend(other.mounted);
        self.fds_left |= other.fds_left;
        self.belonging.take(other.belonging);
        for namespace in other.namespaces {
            let known = namespace.inode.and_then(|inode| self.by_inode.get(&inode));
            if let Some(known) = known.and_then(|at| self.namespaces.get_mut(*at)) {
                known.pids.extend(namespace.pids);
                continue;
            }
            self.by_inode.extend(namespace.inode.map(|inode| (inode, self.namespaces.len())));
            self.namespaces.push(namespace);
        }
        for (inode, pins) in other.pins {
            self.pins.entry(inode).or_default().extend(pins);
        }
        self.pins.retain(|inode, _| !self.like_host.contains(inode) && !self.by_inode.contains_key(inode));
    }

    /// The same host gives the same report, whoever went where.
    fn sort(&mut self) {
        self.processes.sort_by_key(|process| process.pid);
        for namespace in &mut self.namespaces {
            namespace.pids.sort_unstable();
        }
        self.namespaces.sort_by_key(|namespace| namespace.pids.first().copied());
        for pins in self.pins.values_mut() {
            pins.sort_by_key(|pin| pin.task);
        }
        self.blind.sort();
        self.blind.dedup();
        self.notes.sort();
    }
}

#[cfg(test)]
mod tests {
    use std::thread::scope;

    use super::super::super::Namespace;
    use super::super::super::maps::Maps;
    use super::super::super::pinned::{Pin, Place};
    use super::*;

    fn seen(pids: &[u32], inode: u64) -> Walk {
        let maps = Maps::parse("0 131072 65536\n", "0 131072 65536\n").unwrap();
        let mut walk = Walk::default();
        walk.by_inode.insert(inode, 0);
        walk.namespaces.push(Namespace { inode: Some(inode), maps, pids: pids.to_vec() });
        walk
    }

    #[test]
    fn each_process_is_gone_to_once() {
        let way = Way::new((0..1000).collect());
        let all = || std::iter::from_fn(|| way.next()).collect::<Vec<_>>();
        let mut gone_to = scope(|scope| {
            let other = scope.spawn(all);
            [all(), other.join().unwrap()].concat()
        });
        gone_to.sort_unstable();
        assert_eq!(gone_to, (0..1000).collect::<Vec<_>>());
    }

    #[test]
    fn what_is_seen_by_those_who_help_is_seen_by_all() {
        let root = HostRoot::new("/");
        let together = Together::default();
        let seen = scope(|scope| {
            let helps = [(); 3].map(|()| {
                scope.spawn(|| {
                    assert!(together.begins(Duration::MAX));
                    together.help(&root);
                })
            });
            let seen = together.lead(&root).unwrap();
            helps.into_iter().for_each(|help| help.join().unwrap());
            seen
        });
        let own = std::process::id();
        assert_eq!(seen.processes.iter().filter(|process| process.pid == own).count(), 1);
        assert!(!seen.blind.iter().any(|blind| blind.contains("broken off")));
        // All is over: nobody is waited for, and nothing is left to be gone to.
        assert!(together.lead(&root).is_err());
        together.help(&root);
        assert_eq!(together.others().seen.iter().map(|walk| walk.processes.len()).sum::<usize>(), 0);
    }

    #[test]
    fn without_a_way_nobody_waits() {
        let nowhere = tempfile::tempdir().unwrap();
        let root = HostRoot::new(nowhere.path());
        let together = Together::default();
        scope(|scope| {
            let help = scope.spawn(|| together.begins(Duration::MAX));
            assert!(together.lead(&root).is_err());
            assert!(!help.join().unwrap());
        });
        let together = Together::default();
        assert!(!together.begins(SOON * 3), "nobody leads");
        together.cancel();
        assert!(!together.begins(Duration::MAX));
        together.help(&root);
        assert!(together.lead(&HostRoot::new("/")).is_err(), "nothing was seen");
    }

    #[test]
    fn who_is_broken_off_is_told_of() {
        let root = HostRoot::new("/");
        let together = Together::default();
        together.others().on_the_way += 1;
        drop(Going { together: &together, seen: None });
        let seen = together.lead(&root).unwrap();
        assert!(seen.blind.iter().any(|blind| blind.contains("broken off")), "{:?}", seen.blind);
    }

    #[test]
    fn a_namespace_that_both_have_met_is_one() {
        let (mut one, other) = (seen(&[9], 5), seen(&[7, 8], 5));
        one.take(other);
        one.take(seen(&[3], 6));
        one.sort();
        let found: Vec<_> = one.namespaces.iter().map(|n| (n.inode, n.pids.clone())).collect();
        assert_eq!(found, [(Some(6), vec![3]), (Some(5), vec![7, 8, 9])]);
    }

    #[test]
    fn a_namespace_that_one_has_met_a_task_of_needs_no_pin_of_the_other() {
        let pin = |inode| Pin { task: 1, place: Place::Descriptor(3), inode, up: 0 };
        let mut other = Walk::default();
        for inode in [5, 6] {
            other.pins.insert(inode, vec![pin(inode)]);
        }
        let mut one = seen(&[9], 5);
        one.take(other);
        assert_eq!(one.pins.keys().collect::<Vec<_>>(), [&6]);
    }
}

//! Two who share the way over all processes, and what they have seen put together.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{Builder, scope};

use super::Walk;

/// All processes, each of which is gone to once.
pub(super) struct Way {
    pids: Vec<u32>,
    next: AtomicUsize,
}

impl Way {
    pub(super) fn new(pids: Vec<u32>) -> Self {
        Self { pids, next: AtomicUsize::new(0) }
    }

    /// One that nobody has gone to yet.
    pub(super) fn next(&self) -> Option<u32> {
        self.pids.get(self.next.fetch_add(1, Ordering::Relaxed)).copied()
    }
}

/// Has the way found, and the same walk done twice at a time; one of the two does something else before. Where there is no
/// thread to be had, one goes all the way.
pub(super) fn both<T: Sync + Send, E>(
    (find, walk): (impl FnOnce() -> Result<T, E>, impl Fn(&T) -> Walk + Sync),
    meanwhile: &mut (dyn FnMut() + Send),
) -> Result<Walk, E> {
    let mut meanwhile = Some(meanwhile);
    // Nothing in it: there is none.
    let way: OnceLock<Option<T>> = OnceLock::new();
    let seen = scope(|scope| {
        let others = || {
            meanwhile.take().into_iter().for_each(|first| first());
            way.wait().as_ref().map(&walk)
        };
        let other = Builder::new().name("census".to_owned()).spawn_scoped(scope, others);
        // Whatever comes up on the way, nobody waits for ever.
        let _told = Told(&way);
        let (found, failed) = match find() {
            Ok(found) => (Some(found), None),
            Err(error) => (None, Some(error)),
        };
        let mut seen = way.get_or_init(|| found).as_ref().map(&walk).unwrap_or_default();
        match other.map(|thread| thread.join()) {
            Ok(Ok(Some(others))) => seen.take(others),
            Ok(Err(_)) => seen.blind.push("the look at some of the processes was broken off".to_owned()),
            Ok(Ok(None)) | Err(_) => {}
        }
        failed.map_or(Ok(seen), Err)
    });
    meanwhile.into_iter().for_each(|left| left());
    let mut seen = seen?;
    seen.sort();
    Ok(seen)
}

/// Says that there is no way when it is dropped, unless one was found.
struct Told<'a, T>(&'a OnceLock<Option<T>>);

impl<T> Drop for Told<'_, T> {
    fn drop(&mut self) {
        let _ = self.0.set(None);
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
    fn without_a_way_nobody_walks_and_what_else_there_is_to_be_done_is_done() {
        let (mut done, walked) = (false, AtomicUsize::new(0));
        let walk = |_: &()| {
            walked.fetch_add(1, Ordering::Relaxed);
            Walk::default()
        };
        let found = both((|| Err("lost"), walk), &mut || done = true);
        assert_eq!((found.err(), done, walked.load(Ordering::Relaxed)), (Some("lost"), true, 0));
        let panics = || -> Result<(), &str> { panic!("on the way") };
        let broken =
            std::panic::catch_unwind(|| both((panics, |_: &()| Walk::default()), &mut || ()).is_ok());
        assert!(broken.is_err());
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

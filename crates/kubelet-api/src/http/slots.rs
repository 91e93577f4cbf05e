use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use rustix::process::{Resource, getrlimit};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use super::places::share;

/// The most connections to a port.
const MOST: usize = 1024;
/// Of the files that this process may have open, a port takes at most this part: pods need the rest.
const PART: usize = 4;

/// The connections to a port, of which there is a greatest number.
///
/// Connections of clients that have not shown yet that they may do anything take half of it. If there are more, or no room for
/// another, the oldest of them ends: clients that are silent cannot keep others out. Of the others one user has a part, so that
/// no user keeps others out.
#[derive(Debug)]
pub(super) struct Slots {
    all: Arc<Semaphore>,
    taken: Mutex<Taken>,
    most_unproven: usize,
    most_of_user: usize,
}

#[derive(Debug, Default)]
struct Taken {
    next: u64,
    /// In the order in which they were accepted.
    unproven: BTreeMap<u64, Arc<Notify>>,
    /// Only users with a connection.
    of_user: HashMap<String, usize>,
}

/// The place of one connection. It is free again when this is dropped.
#[derive(Debug)]
pub(super) struct Slot {
    slots: Arc<Slots>,
    id: u64,
    evicted: Arc<Notify>,
    user: OnceLock<String>,
    _permit: OwnedSemaphorePermit,
}

/// As many connections as the limit of open files allows.
pub(crate) fn most_connections() -> usize {
    let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    (usize::try_from(files).unwrap_or(usize::MAX) / PART).clamp(2, MOST)
}

impl Slots {
    /// As many as the limit of open files allows.
    pub(super) fn of_port() -> Arc<Self> {
        Self::new(most_connections())
    }

    pub(super) fn new(most: usize) -> Arc<Self> {
        let (all, taken) = (Arc::new(Semaphore::new(most)), Mutex::default());
        Arc::new(Self { all, taken, most_unproven: (most / 2).max(1), most_of_user: share(most) })
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until there may be another connection.
    pub(super) async fn permit(&self) -> Option<OwnedSemaphorePermit> {
        if let Ok(permit) = Arc::clone(&self.all).try_acquire_owned() {
            return Some(permit);
        }
        self.taken().evict_oldest();
        // The semaphore is never closed.
        Arc::clone(&self.all).acquire_owned().await.ok()
    }

    /// The place of a new connection.
    pub(super) fn take(self: &Arc<Self>, permit: OwnedSemaphorePermit) -> Slot {
        let evicted = Arc::new(Notify::new());
        let mut taken = self.taken();
        let id = taken.next;
        taken.next += 1;
        taken.unproven.insert(id, Arc::clone(&evicted));
        while taken.unproven.len() > self.most_unproven {
            taken.evict_oldest();
        }
        Slot { slots: Arc::clone(self), id, evicted, user: OnceLock::new(), _permit: permit }
    }
}

impl Taken {
    fn evict_oldest(&mut self) {
        if let Some((_, oldest)) = self.unproven.pop_first() {
            oldest.notify_one();
        }
    }
}

impl Slot {
    /// Waits until this connection has to make room. Never, once it is proven.
    pub(super) async fn evicted(&self) {
        self.evicted.notified().await;
    }

    /// This user has shown that it may do something here. False if it has its part of the connections already; a connection
    /// counts for its first user.
    pub(super) fn prove(&self, user: &str) -> bool {
        let mut taken = self.slots.taken();
        if self.user.get().is_some() {
            return true;
        }
        let own = taken.of_user.get(user).copied().unwrap_or(0);
        if own >= self.slots.most_of_user {
            return false;
        }
        taken.of_user.insert(user.to_owned(), own + 1);
        taken.unproven.remove(&self.id);
        // Under the lock: no other has set it.
        let _ = self.user.set(user.to_owned());
        true
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut taken = self.slots.taken();
        taken.unproven.remove(&self.id);
        let Some(user) = self.user.get() else { return };
        match taken.of_user.get_mut(user) {
            Some(own) if *own > 1 => *own -= 1,
            _ => drop(taken.of_user.remove(user)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    async fn is_evicted(slot: &Slot) -> bool {
        tokio::time::timeout(Duration::from_millis(1), slot.evicted()).await.is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn the_oldest_silent_client_makes_room_and_a_proven_one_stays() {
        let slots = Slots::new(6);
        let mut taken = Vec::new();
        for number in 0..4 {
            let slot = slots.take(slots.permit().await.unwrap());
            if number == 0 {
                assert!(slot.prove("jane"));
            }
            taken.push(slot);
        }
        // Three of them are unproven, as many as may be.
        for slot in &taken {
            assert!(!is_evicted(slot).await);
        }
        let next = slots.take(slots.permit().await.unwrap());
        assert!(!is_evicted(&taken[0]).await && is_evicted(&taken[1]).await && !is_evicted(&taken[2]).await);
        drop(taken);
        assert!(!is_evicted(&next).await);
        assert_eq!(slots.all.available_permits(), 5);
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_client_makes_room_when_all_others_are_proven() {
        let slots = Slots::new(4);
        let mut taken = Vec::new();
        for user in ["jane", "joe", "jane", ""] {
            let slot = slots.take(slots.permit().await.unwrap());
            assert!(user.is_empty() || slot.prove(user));
            taken.push(slot);
        }
        let waiting = tokio::time::timeout(Duration::from_millis(1), slots.permit()).await;
        assert!(waiting.is_err() && is_evicted(&taken[3]).await);
        taken.pop();
        assert!(slots.permit().await.is_some());
    }

    #[tokio::test]
    async fn one_user_leaves_room_for_another() {
        let slots = Slots::new(8);
        let mut taken = Vec::new();
        for number in 0..8 {
            let slot = slots.take(slots.permit().await.unwrap());
            assert_eq!(slot.prove("jane"), number < 6, "{number}");
            assert!(number < 6 || slot.prove("joe"));
            // A connection counts once, whatever its later users are.
            assert!(slot.prove("jane"));
            taken.push(slot);
        }
        taken.clear();
        assert!(slots.taken().of_user.is_empty() && slots.taken().unproven.is_empty());
    }
}

//! The connections to a port.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::process::{Resource, getrlimit};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// The most connections to a port.
const MOST: usize = 1024;
/// Of the files that this process may have open, a port takes at most this part: pods need the rest.
const PART: usize = 4;

/// The connections to a port, of which there is a greatest number.
///
/// Connections of clients that have not shown yet that they may do anything take half of it. If there are more, the oldest of
/// them ends: clients that are silent cannot keep others out.
#[derive(Debug)]
pub struct Slots {
    all: Arc<Semaphore>,
    unproven: Mutex<Unproven>,
    most_unproven: usize,
}

#[derive(Debug, Default)]
struct Unproven {
    next: u64,
    /// In the order in which they were accepted.
    waiting: BTreeMap<u64, Arc<Notify>>,
}

/// The place of one connection. It is free again when this is dropped.
#[derive(Debug)]
pub struct Slot {
    slots: Arc<Slots>,
    id: u64,
    evicted: Arc<Notify>,
    _permit: OwnedSemaphorePermit,
}

/// As many connections as the limit of open files allows.
#[must_use]
pub fn most_connections() -> usize {
    let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    (usize::try_from(files).unwrap_or(usize::MAX) / PART).clamp(2, MOST)
}

impl Slots {
    /// As many as the limit of open files allows.
    #[must_use]
    pub fn of_port() -> Arc<Self> {
        Self::new(most_connections())
    }

    /// At most so many.
    #[must_use]
    pub fn new(most: usize) -> Arc<Self> {
        let (all, unproven) = (Arc::new(Semaphore::new(most)), Mutex::default());
        Arc::new(Self { all, unproven, most_unproven: (most / 2).max(1) })
    }

    /// Waits until there may be another connection.
    pub async fn permit(&self) -> Option<OwnedSemaphorePermit> {
        // The semaphore is never closed.
        Arc::clone(&self.all).acquire_owned().await.ok()
    }

    /// The place of a new connection.
    #[must_use]
    pub fn take(self: &Arc<Self>, permit: OwnedSemaphorePermit) -> Slot {
        let evicted = Arc::new(Notify::new());
        let mut unproven = self.unproven.lock().unwrap_or_else(PoisonError::into_inner);
        let id = unproven.next;
        unproven.next += 1;
        unproven.waiting.insert(id, Arc::clone(&evicted));
        while unproven.waiting.len() > self.most_unproven {
            let Some((_, oldest)) = unproven.waiting.pop_first() else { break };
            oldest.notify_one();
        }
        Slot { slots: Arc::clone(self), id, evicted, _permit: permit }
    }
}

impl Slot {
    /// Waits until this connection has to make room. Never, once it is proven.
    pub async fn evicted(&self) {
        self.evicted.notified().await;
    }

    /// The client has shown that it may do something here.
    pub fn prove(&self) {
        self.slots.unproven.lock().unwrap_or_else(PoisonError::into_inner).waiting.remove(&self.id);
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.prove();
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
                slot.prove();
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
}

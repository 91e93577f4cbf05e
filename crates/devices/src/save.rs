//! Writing the checkpoint.
//!
//! One write goes on at a time, and has all changes until it begins: callers that wait for it share it. Changes that need not be
//! waited for, such as the lists of a plugin, are written by one task, with a pause after each write.

use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use durable::AtomicFile;
use tracing::{error, warn};

use crate::checkpoint::{Checkpoint, FILE};
use crate::manager::{DeviceManager, lock};

/// The largest checkpoint that is written and read: with 100 000 devices a file has about 10 MiB.
pub(crate) const LARGEST: u64 = 256 << 20;
/// The pause after a write that nothing waits for.
const PAUSE: Duration = Duration::from_millis(25);

/// What of the state is on disk.
#[derive(Debug)]
pub(crate) struct Saves {
    /// The checkpoint as it is on disk; held while it is written.
    written: Mutex<Vec<u8>>,
    /// How many writes were asked for.
    asked: AtomicU64,
    /// How many of them are done; held during a write.
    done: tokio::sync::Mutex<u64>,
    /// Whether there are changes that nothing waits for.
    is_dirty: AtomicBool,
    /// Whether a task writes them.
    is_served: AtomicBool,
}

impl Saves {
    /// With this checkpoint on disk; empty if there is none.
    pub(crate) fn of(written: Vec<u8>) -> Self {
        Self {
            written: Mutex::new(written),
            asked: AtomicU64::default(),
            done: tokio::sync::Mutex::default(),
            is_dirty: AtomicBool::default(),
            is_served: AtomicBool::default(),
        }
    }
}

impl DeviceManager {
    /// Records the state if there is no checkpoint: that of a node without plugins tells it from a new machine.
    pub(crate) async fn save_first(&self) -> durable::Result<()> {
        let has_none = lock(&self.inner.saves.written).is_empty();
        if has_none { self.save().await } else { Ok(()) }
    }

    /// Records the state without waiting. If it fails, a device that is free is not given away by a later process, and no
    /// device twice: what is allocated is waited for. Must be called within a tokio runtime.
    pub(crate) fn save_soon(&self) {
        let saves = &self.inner.saves;
        saves.is_dirty.store(true, Ordering::SeqCst);
        if !saves.is_served.swap(true, Ordering::SeqCst) {
            tokio::spawn(self.clone().serve_saves());
        }
    }

    /// Writes changes until there are none.
    async fn serve_saves(self) {
        let saves = &self.inner.saves;
        loop {
            while saves.is_dirty.swap(false, Ordering::SeqCst) {
                if let Err(cause) = self.save().await {
                    warn!(
                        "the devices of pods that are gone, or those of plugins, are not recorded: {cause}"
                    );
                }
                tokio::time::sleep(PAUSE).await;
            }
            saves.is_served.store(false, Ordering::SeqCst);
            // A change after the last look has found this task still there.
            if !saves.is_dirty.load(Ordering::SeqCst) || saves.is_served.swap(true, Ordering::SeqCst) {
                return;
            }
        }
    }

    /// Records the state.
    pub(crate) async fn save(&self) -> durable::Result<()> {
        let saves = &self.inner.saves;
        let own = saves.asked.fetch_add(1, Ordering::SeqCst) + 1;
        let mut done = saves.done.lock().await;
        if *done >= own {
            // Another caller's write began after this change.
            return Ok(());
        }
        let asked = saves.asked.load(Ordering::SeqCst);
        let manager = self.clone();
        let written = tokio::task::spawn_blocking(move || manager.write()).await;
        written.unwrap_or_else(|cause| {
            error!("recording devices ended early: {cause}");
            let path = self.inner.dir.join(FILE);
            Err(durable::Error::Io { action: "write", path, cause: io::Error::other(cause) })
        })?;
        *done = asked;
        Ok(())
    }

    fn write(&self) -> durable::Result<()> {
        let mut written = lock(&self.inner.saves.written);
        let state = self.state();
        let checkpoint =
            Checkpoint { allocations: state.allocations().clone(), registered: state.registered() };
        drop(state);
        let text = checkpoint.to_json();
        if *written == text {
            return Ok(());
        }
        let path = self.inner.dir.join(FILE);
        // The next process would not start on a larger one.
        if u64::try_from(text.len()).is_ok_and(|length| length > LARGEST) {
            return Err(durable::Error::TooLarge { path, limit: LARGEST });
        }
        AtomicFile::at(&path).replace(&text)?;
        *written = text;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use telemetry::metrics::Registry;
    use tokio::time::Instant;

    use super::*;
    use crate::state::{Allocations, Device, Devices, Health, State};

    fn devices(count: usize) -> Devices {
        let device = Device { health: Health::Healthy, numa: Vec::new() };
        (0..count).map(|index| (format!("d{index}"), device.clone())).collect()
    }

    /// Each list of a plugin kept a thread busy until it was written.
    #[tokio::test]
    async fn changes_while_the_checkpoint_is_written_are_written_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let manager = DeviceManager::open(dir.path(), &Registry::default()).unwrap();
        let resources = vec!["example.com/gpu".to_owned()];
        *manager.state() = State::recorded(resources, Allocations::default(), Instant::now());
        let writing = manager.inner.saves.done.lock().await;
        for _ in 0..100 {
            manager.save_soon();
            tokio::task::yield_now().await;
        }
        let waiting: Vec<_> = (0..8)
            .map(|_| {
                let manager = manager.clone();
                tokio::spawn(async move { manager.save().await })
            })
            .collect();
        while manager.inner.saves.asked.load(Ordering::SeqCst) < 9 {
            tokio::task::yield_now().await;
        }
        drop(writing);
        for save in waiting {
            save.await.unwrap().unwrap();
        }
        let text = std::fs::read(dir.path().join(FILE)).unwrap();
        assert!(Checkpoint::parse(&text).unwrap().registered.contains_key("example.com/gpu"));
        while manager.inner.saves.is_served.load(Ordering::SeqCst) {
            tokio::time::sleep(PAUSE).await;
        }
        // One of each caller that waits, and two for all changes: the second for those after the first has begun.
        let asked = manager.inner.saves.asked.load(Ordering::SeqCst);
        assert!((9..=10).contains(&asked), "{asked}");
        assert_eq!(*manager.inner.saves.done.lock().await, asked);
    }

    #[test]
    fn the_devices_of_all_plugins_fit_into_a_checkpoint() {
        let mut state = State::recorded(Vec::new(), Allocations::default(), Instant::now());
        let socket = Path::new("/dp/a.sock");
        for name in ["example.com/a", "example.com/b"] {
            state.connect(name, socket, 1).unwrap();
        }
        let check = |state: &State<i32>, name: &str, devices: &Devices| {
            state.check_list(name, socket, devices).map_err(|cause| cause.contains(name))
        };
        let most = devices(100_000);
        assert_eq!(check(&state, "example.com/a", &most), Ok(()));
        assert_eq!(check(&state, "example.com/a", &devices(100_001)), Err(true));
        // A byte may take six in JSON.
        let long = |bytes: usize| -> Devices {
            let device = Device { health: Health::Healthy, numa: Vec::new() };
            Devices::from([("\u{1}".repeat(bytes), device)])
        };
        let half = long(9 << 20);
        assert_eq!(check(&state, "example.com/a", &half), Ok(()));
        state.list("example.com/a", socket, half.clone());
        assert_eq!(check(&state, "example.com/a", &half), Ok(()), "it takes the place of the one before");
        assert_eq!(check(&state, "example.com/b", &half), Err(true));
        let registered = state.registered();
        let text = Checkpoint { registered, ..Checkpoint::default() }.to_json();
        assert!(u64::try_from(text.len()).unwrap() < LARGEST / 2);
    }
}

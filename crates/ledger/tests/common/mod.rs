//! A node for tests: a witness and a clock that say what they are told, over a real directory.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs
)]

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ids::pool::{IdPool, NamedSpan, PoolOrigin, PoolRequest};
use ids::witness::{Hold, Sighting, Use, Witness, WitnessError};
use ids::{BlockLength, HostSpan, IdKind};
use ledger::{BootId, Clock, Holder, Lease, LeaseRequest, Ledger, Options};

pub const UNIT: u64 = 65_536;

#[derive(Default)]
pub struct Told {
    pub uses: Mutex<Vec<Use>>,
    pub blind: Mutex<Vec<String>>,
    pub remaining: Mutex<Vec<PathBuf>>,
    pub looks: AtomicU64,
    /// How many of them were bounded.
    pub bounded_looks: AtomicU64,
}

impl Witness for Told {
    fn look(&self) -> Result<Sighting, WitnessError> {
        self.looks.fetch_add(1, Ordering::SeqCst);
        Ok(Sighting::new(self.uses.lock().unwrap().clone(), self.blind.lock().unwrap().clone()))
    }

    fn look_to_lease(&self) -> Result<Sighting, WitnessError> {
        self.bounded_looks.fetch_add(1, Ordering::SeqCst);
        self.look()
    }

    fn remaining(&self, places: &[PathBuf]) -> Result<Vec<PathBuf>, WitnessError> {
        let left = self.remaining.lock().unwrap();
        Ok(places.iter().filter(|p| left.contains(p)).cloned().collect())
    }
}

impl Told {
    pub fn sees(&self, kind: IdKind, first: u64, n: u64, hold: Hold) {
        let ids = HostSpan::new(first, n).unwrap();
        self.uses.lock().unwrap().push(Use { kind, ids, hold, by: format!("somebody with {kind}s {ids}") });
    }

    pub fn sees_nobody(&self) {
        self.uses.lock().unwrap().clear();
    }
}

pub struct Hand(pub AtomicU64);

impl Clock for Hand {
    fn now(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

pub struct Node {
    pub dir: tempfile::TempDir,
    pub witness: Arc<Told>,
    pub clock: Arc<Hand>,
}

impl Node {
    pub fn new() -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
            witness: Arc::new(Told::default()),
            clock: Arc::new(Hand(AtomicU64::new(1_000_000))),
        }
    }

    pub fn state(&self) -> PathBuf {
        self.dir.path().join("state")
    }

    pub fn options(&self, pool: IdPool) -> Options {
        let mut options =
            Options::new(&self.state(), pool, BootId("boot-1".to_owned()), Arc::clone(&self.witness) as _);
        options.clock = Arc::clone(&self.clock) as _;
        options.quarantine = Duration::from_secs(60);
        options
    }

    pub fn open(&self, pool: IdPool) -> Ledger {
        Ledger::open(self.options(pool)).unwrap()
    }

    pub fn pass(&self, seconds: u64) {
        self.clock.0.fetch_add(seconds, Ordering::SeqCst);
    }
}

pub fn default_pool() -> IdPool {
    IdPool::default_for(BlockLength::DEFAULT, vec![]).unwrap()
}

pub fn pool(first: u64, blocks: u64) -> IdPool {
    split_pool((first, blocks), (first, blocks))
}

pub fn split_pool(uids: (u64, u64), gids: (u64, u64)) -> IdPool {
    let span = |(first, n): (u64, u64)| {
        vec![NamedSpan { ids: HostSpan::new(first * UNIT, n * UNIT).unwrap(), origin: "test".to_owned() }]
    };
    IdPool::new(PoolRequest {
        block: BlockLength::DEFAULT,
        uids: span(uids),
        gids: span(gids),
        excluded: vec![],
        origin: PoolOrigin::Default,
    })
    .unwrap()
}

pub fn holder(name: &str) -> Holder {
    Holder::new(name).unwrap()
}

pub fn lease(ledger: &Ledger, name: &str) -> Lease {
    ledger.lease(LeaseRequest::new(holder(name))).unwrap()
}

pub fn unit(lease: &Lease) -> u64 {
    u64::from(lease.uids.base()) / UNIT
}

pub fn copy_dir(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

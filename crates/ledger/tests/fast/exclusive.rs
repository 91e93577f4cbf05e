//! A ledger that no process keeps open: every change is made by a process that opens it exclusively.

use crate::common;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use common::{Node, UNIT, default_pool, holder, lease, unit};
use ids::IdKind;
use ids::witness::{Hold, Sighting, Witness, WitnessError};
use ledger::{Ledger, LedgerError, OpenMode, Options};

fn options(node: &Node, mode: OpenMode) -> Options {
    Options { mode, patience: Duration::from_millis(200), ..node.options(default_pool()) }
}

fn exclusive(node: &Node) -> Ledger {
    Ledger::open_to_lease(options(node, OpenMode::Exclusive)).unwrap()
}

#[test]
fn what_one_process_changes_the_next_one_finds() {
    let node = Node::new();
    let units: Vec<u64> = (0..9).map(|i| unit(&lease(&exclusive(&node), &format!("pod-{i}")))).collect();
    assert_eq!(units, (1..=9).collect::<Vec<_>>());
    exclusive(&node).release(holder("pod-3")).unwrap();
    let ledger = node.open(default_pool());
    assert_eq!(unit(&lease(&ledger, "pod-8")), 9);
    assert_eq!(ledger.counts().unwrap().leased, 8);
}

#[test]
fn a_process_that_keeps_the_ledger_open_and_one_that_opens_it_exclusively_see_each_others_changes() {
    let node = Node::new();
    let shared = node.open(default_pool());
    for i in 0..9 {
        let name = format!("pod-{i}");
        let leased = if i % 2 == 0 { lease(&exclusive(&node), &name) } else { lease(&shared, &name) };
        assert_eq!(unit(&leased), i + 1);
    }
    let seen = exclusive(&node).list().unwrap();
    assert_eq!(seen, shared.list().unwrap());
}

#[test]
fn others_wait_while_the_ledger_is_open_exclusively() {
    let node = Node::new();
    let here = exclusive(&node);
    for mode in [OpenMode::Shared, OpenMode::Exclusive] {
        let other = Ledger::open(options(&node, mode));
        assert!(other.is_err_and(|e| matches!(e, LedgerError::Stuck { .. })), "{mode:?}");
    }
    lease(&here, "pod-1");
    drop(here);
    assert_eq!(unit(&lease(&exclusive(&node), "pod-2")), 2);
}

/// A witness who sees nothing and says so.
struct Blind;

impl Witness for Blind {
    fn look(&self) -> Result<Sighting, WitnessError> {
        Err(WitnessError { what: "cannot look".to_owned(), source: std::io::Error::other("it is dark") })
    }

    fn remaining(&self, _: &[PathBuf]) -> Result<Vec<PathBuf>, WitnessError> {
        Ok(Vec::new())
    }
}

#[test]
fn a_host_that_cannot_be_scanned_is_an_error_and_makes_no_ledger() {
    let node = Node::new();
    let blind = Options { witness: Arc::new(Blind), ..options(&node, OpenMode::Exclusive) };
    let refused = Ledger::open_to_lease(blind).err().unwrap();
    assert!(matches!(refused, LedgerError::Witness(_)), "{refused}");
    assert!(!Ledger::exists(&node.state()));
}

#[test]
fn places_that_are_gone_are_left_out_when_one_is_added() {
    let node = Node::new();
    lease(&exclusive(&node), "pod-1");
    let add = |place: &str| {
        node.witness.remaining.lock().unwrap().push(place.into());
        exclusive(&node).add_places(holder("pod-1"), vec![place.into()]).unwrap().places
    };
    assert_eq!(add("/a"), [PathBuf::from("/a")]);
    assert_eq!(add("/b"), ["/a", "/b"].map(PathBuf::from));
    node.witness.remaining.lock().unwrap().retain(|place| place != "/a");
    assert_eq!(add("/c"), ["/b", "/c"].map(PathBuf::from));
}

#[test]
fn a_lease_that_has_waited_for_the_lock_for_a_second_is_chosen_by_a_new_scan() {
    let node = Node::new();
    let here = exclusive(&node);
    let patient = Options { patience: Duration::from_secs(60), ..options(&node, OpenMode::Exclusive) };
    let leased = std::thread::scope(|scope| {
        let waiting = scope.spawn(move || lease(&Ledger::open_to_lease(patient).unwrap(), "pod-1"));
        std::thread::sleep(Duration::from_millis(1500));
        node.witness.sees(IdKind::Uid, UNIT, 1, Hold::Live);
        drop(here);
        waiting.join().unwrap()
    });
    assert_eq!(unit(&leased), 2, "the first block is somebody's by now");
}

/// A witness who does something else before each look.
struct Visited {
    witness: Arc<common::Told>,
    visit: Box<dyn Fn() + Send + Sync>,
}

impl Witness for Visited {
    fn look(&self) -> Result<Sighting, WitnessError> {
        (self.visit)();
        self.witness.look()
    }

    fn remaining(&self, places: &[PathBuf]) -> Result<Vec<PathBuf>, WitnessError> {
        self.witness.remaining(places)
    }
}

#[test]
fn others_go_on_while_it_is_looked_whether_a_block_is_vacant() {
    let node = Arc::new(Node::new());
    lease(&exclusive(&node), "pod-1");
    exclusive(&node).release(holder("pod-1")).unwrap();
    let (leased, other) = (Arc::new(AtomicU64::new(0)), Arc::clone(&node));
    let visit = {
        let leased = Arc::clone(&leased);
        Box::new(move || leased.store(unit(&lease(&exclusive(&other), "pod-2")), Ordering::SeqCst))
    };
    let witness = Arc::new(Visited { witness: Arc::clone(&node.witness), visit });
    let verdicts =
        Ledger::open(Options { witness, ..options(&node, OpenMode::Exclusive) }).unwrap().settle().unwrap();
    assert_eq!((verdicts.len(), leased.load(Ordering::SeqCst)), (1, 2));
}

/// A scan that takes long is old by the time the lock is had. The next one was made under the lock: on a host with many
/// processes every lease waited for the scans of all others.
#[test]
fn others_go_on_while_the_host_is_scanned_for_a_lease() {
    let node = Arc::new(Node::new());
    let (leased, other) = (Arc::new(AtomicU64::new(0)), Arc::clone(&node));
    let visit = {
        let leased = Arc::clone(&leased);
        Box::new(move || leased.store(unit(&lease(&exclusive(&other), "pod-2")), Ordering::SeqCst))
    };
    let witness = Arc::new(Visited { witness: Arc::clone(&node.witness), visit });
    let ledger = Ledger::open(Options { witness, ..options(&node, OpenMode::Exclusive) }).unwrap();
    assert_eq!((unit(&lease(&ledger, "pod-1")), leased.load(Ordering::SeqCst)), (2, 1));
}

/// How many pages the next process that opens the ledger has to read.
fn pages_in_log(node: &Node) -> u32 {
    let db = rusqlite::Connection::open(node.state().join("ledger.db")).unwrap();
    db.set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).unwrap();
    db.query_row("PRAGMA wal_checkpoint(NOOP)", [], |row| row.get(1)).unwrap()
}

#[test]
fn a_ledger_that_no_process_keeps_open_has_a_short_log() {
    for mode in [OpenMode::Exclusive, OpenMode::Shared] {
        let (node, mut longest) = (Node::new(), 0);
        for i in 0..120 {
            let name = format!("pod-{}", i % 3);
            lease(&Ledger::open(options(&node, mode)).unwrap(), &name);
            Ledger::open(options(&node, mode)).unwrap().release(holder(&name)).unwrap();
            node.pass(100);
            longest = longest.max(pages_in_log(&node));
        }
        // It is truncated neither too late nor by every process.
        assert!((50..=110).contains(&longest), "{mode:?}: {longest}");
        let ledger = Ledger::open(options(&node, mode)).unwrap();
        assert_eq!(ledger.counts().unwrap().leased, 0);
    }
}

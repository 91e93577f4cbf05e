//! A ledger that nobody stays with: every change is made by a process that opens it for that alone.

use crate::common;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use common::{Node, UNIT, default_pool, holder, lease, unit};
use ids::IdKind;
use ids::witness::{Hold, Sighting, Witness, WitnessError};
use ledger::{LeaseRequest, Ledger, LedgerError, Options, Stay, Told};

fn options(node: &Node, stay: Stay) -> Options {
    Options { stay, patience: Duration::from_millis(200), ..node.options(default_pool()) }
}

fn brief(node: &Node) -> Ledger {
    Ledger::open_to_lease(options(node, Stay::Brief)).unwrap()
}

#[test]
fn what_is_changed_briefly_is_seen_by_all_who_come_after() {
    let node = Node::new();
    let units: Vec<u64> = (0..9).map(|i| unit(&lease(&brief(&node), &format!("pod-{i}")))).collect();
    assert_eq!(units, (1..=9).collect::<Vec<_>>());
    brief(&node).release(holder("pod-3")).unwrap();
    assert!(!node.state().join("ledger.db-shm").exists());
    let log = std::fs::metadata(node.state().join("ledger.db-wal")).unwrap().len();
    assert!(log > 400_000, "made as long as it will be: {log}");
    let ledger = node.open(default_pool());
    assert_eq!(unit(&lease(&ledger, "pod-8")), 9);
    assert_eq!(ledger.counts().unwrap().leased, 8);
}

#[test]
fn who_comes_briefly_can_work_beside_who_stays() {
    let node = Node::new();
    let long = node.open(default_pool());
    for i in 0..9 {
        let name = format!("pod-{i}");
        let leased = if i % 2 == 0 { lease(&brief(&node), &name) } else { lease(&long, &name) };
        assert_eq!(unit(&leased), i + 1);
    }
    let seen = brief(&node).list().unwrap();
    assert_eq!(seen, long.list().unwrap());
}

#[test]
fn others_wait_while_somebody_is_here_briefly() {
    let node = Node::new();
    let here = brief(&node);
    let stuck = |e: &LedgerError| matches!(e, LedgerError::Stuck { .. });
    assert!(Ledger::open(options(&node, Stay::Long)).is_err_and(|e| stuck(&e)));
    let there = brief(&node);
    assert!(there.list().is_err_and(|e| stuck(&e)), "it is opened, and waits when it is to do something");
    lease(&here, "pod-1");
    drop(here);
    assert_eq!(unit(&lease(&there, "pod-2")), 2);
}

#[test]
fn what_another_one_has_seen_counts_for_a_second() {
    let node = Node::new();
    node.witness.sees(IdKind::Uid, UNIT, 1, Hold::Live);
    let seen = Arc::new(node.witness.look().unwrap());
    node.witness.sees_nobody();
    let looks = || node.witness.looks.load(Ordering::SeqCst);
    let ago = |age: u64| {
        let ledger = Ledger::open(options(&node, Stay::Brief)).unwrap();
        ledger.has_seen(Instant::now().checked_sub(Duration::from_millis(age)).unwrap(), seen.clone());
        ledger
    };
    assert_eq!(unit(&lease(&ago(10), "pod-1")), 2, "the first block is somebody's, by that look");
    assert_eq!(looks(), 1);
    assert_eq!(unit(&lease(&ago(1000), "pod-2")), 1);
    assert_eq!(looks(), 2);
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
fn where_nobody_can_look_the_ledger_opens_and_gives_nothing() {
    let node = Node::new();
    let blind = Options { witness: Arc::new(Blind), ..options(&node, Stay::Brief) };
    let ledger = Ledger::open_to_lease(blind).unwrap();
    let refused = ledger.lease(LeaseRequest::new(holder("pod-1"))).unwrap_err();
    assert!(matches!(refused, LedgerError::Witness(_)), "{refused}");
}

#[test]
fn who_waits_for_a_lease_is_told_what_it_will_be_and_when_it_is_on_disk() {
    let node = Node::new();
    let (tell, told) = channel();
    let ledger = brief(&node);
    let leased = ledger.lease_telling(LeaseRequest::new(holder("pod-1")), &tell).unwrap();
    assert_eq!(told.try_iter().collect::<Vec<_>>(), [Told::Chosen(leased.clone()), Told::OnDisk]);
    let again = ledger.lease_telling(LeaseRequest::new(holder("pod-1")), &tell).unwrap();
    assert_eq!(told.try_iter().collect::<Vec<_>>(), [Told::Chosen(again), Told::OnDisk]);
    // Nothing is told of one that cannot be had.
    node.witness.sees(IdKind::Uid, 0, u64::from(u32::MAX), Hold::Live);
    drop(ledger);
    assert!(brief(&node).lease_telling(LeaseRequest::new(holder("pod-2")), &tell).is_err());
    assert_eq!(told.try_iter().count(), 0);
}

#[test]
fn places_that_are_gone_are_left_out_when_one_is_added() {
    let node = Node::new();
    lease(&brief(&node), "pod-1");
    let add = |place: &str| {
        node.witness.remaining.lock().unwrap().push(place.into());
        brief(&node).add_places(holder("pod-1"), vec![place.into()]).unwrap().places
    };
    assert_eq!(add("/a"), [PathBuf::from("/a")]);
    assert_eq!(add("/b"), ["/a", "/b"].map(PathBuf::from));
    node.witness.remaining.lock().unwrap().retain(|place| place != "/a");
    assert_eq!(add("/c"), ["/b", "/c"].map(PathBuf::from));
}

#[test]
fn who_has_waited_for_its_turn_looks_once_more() {
    let node = Node::new();
    let here = brief(&node);
    let patient = Options { patience: Duration::from_secs(60), ..options(&node, Stay::Brief) };
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
    lease(&brief(&node), "pod-1");
    brief(&node).release(holder("pod-1")).unwrap();
    let (leased, other) = (Arc::new(AtomicU64::new(0)), Arc::clone(&node));
    let visit = {
        let leased = Arc::clone(&leased);
        Box::new(move || leased.store(unit(&lease(&brief(&other), "pod-2")), Ordering::SeqCst))
    };
    let witness = Arc::new(Visited { witness: Arc::clone(&node.witness), visit });
    let verdicts =
        Ledger::open(Options { witness, ..options(&node, Stay::Brief) }).unwrap().settle().unwrap();
    assert_eq!((verdicts.len(), leased.load(Ordering::SeqCst)), (1, 2));
}

/// What the next one who opens it has to read.
fn pages_in_log(node: &Node) -> u32 {
    let db = rusqlite::Connection::open(node.state().join("ledger.db")).unwrap();
    db.set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).unwrap();
    db.query_row("PRAGMA wal_checkpoint(NOOP)", [], |row| row.get(1)).unwrap()
}

#[test]
fn a_ledger_that_nobody_stays_with_has_a_short_log() {
    for stay in [Stay::Brief, Stay::Long] {
        let node = Node::new();
        for i in 0..120 {
            let name = format!("pod-{}", i % 3);
            lease(&Ledger::open(options(&node, stay)).unwrap(), &name);
            Ledger::open(options(&node, stay)).unwrap().release(holder(&name)).unwrap();
            node.pass(100);
        }
        let log = std::fs::metadata(node.state().join("ledger.db-wal")).unwrap().len();
        assert!(log < 600_000, "{stay:?}: {log}");
        assert!(pages_in_log(&node) <= 110, "{stay:?}");
        let ledger = Ledger::open(options(&node, Stay::Brief)).unwrap();
        assert_eq!(ledger.counts().unwrap().leased, 0);
        ledger.tidy();
        drop(ledger);
        assert!(pages_in_log(&node) <= 16, "{stay:?}");
        assert_eq!(
            std::fs::metadata(node.state().join("ledger.db-wal")).unwrap().len(),
            log,
            "it keeps its length"
        );
    }
}

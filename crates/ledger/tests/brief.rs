//! A ledger that nobody stays with: every change is made by a process that opens it for that alone.

#![allow(clippy::unwrap_used)]

mod common;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use common::{Node, Told, UNIT, default_pool, holder, lease, unit};
use ids::IdKind;
use ids::witness::{Hold, Sighting, Witness, WitnessError};
use ledger::{Ledger, LedgerError, Options, Stay};

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
    let seen = node.witness.look().unwrap();
    node.witness.sees_nobody();
    let looks = || node.witness.looks.load(Ordering::SeqCst);
    let kept = |age: u64| {
        let began = Instant::now().checked_sub(Duration::from_millis(age)).unwrap();
        *node.witness.kept.lock().unwrap() = Some((began, seen.clone()));
    };
    kept(10);
    assert_eq!(unit(&lease(&brief(&node), "pod-1")), 2, "the first block is somebody's, by that look");
    assert_eq!(looks(), 1);
    kept(1000);
    assert_eq!(unit(&lease(&brief(&node), "pod-2")), 1);
    assert_eq!(looks(), 2);
}

/// A witness who sees nothing and says so.
struct Blind;

impl Witness for Blind {
    fn look(&self) -> Result<Sighting, WitnessError> {
        Err(WitnessError { what: "cannot look".to_owned(), source: std::io::Error::other("it is dark") })
    }

    fn look_while(
        &self,
        _: &mut (dyn FnMut() + Send),
        _: &mut dyn FnMut(),
    ) -> Result<Sighting, WitnessError> {
        self.look()
    }

    fn remaining(&self, _: &[PathBuf]) -> Result<Vec<PathBuf>, WitnessError> {
        Ok(Vec::new())
    }
}

#[test]
fn what_is_to_be_done_meanwhile_is_done_once_whatever_becomes_of_the_opening() {
    let node = Node::new();
    let times_of = |options: Options| {
        let mut times = 0;
        let opened = Ledger::open_to_lease_while(options, &mut || times += 1);
        (opened.is_ok(), times)
    };
    let brief = || options(&node, Stay::Brief);
    assert_eq!(times_of(brief()), (true, 1), "somebody looks");
    *node.witness.kept.lock().unwrap() = Some((Instant::now(), Sighting::default()));
    assert_eq!(times_of(brief()), (true, 1), "somebody has looked");
    let elsewhere = || Options { dir: PathBuf::from("/proc/nowhere"), ..brief() };
    assert_eq!(times_of(elsewhere()), (false, 1), "it cannot be opened");
    *node.witness.kept.lock().unwrap() = None;
    assert_eq!(times_of(elsewhere()), (false, 1), "it cannot be opened");
    assert_eq!(times_of(Options { witness: Arc::new(Blind), ..brief() }), (true, 1), "nobody can look");
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
    witness: Arc<Told>,
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
    }
}

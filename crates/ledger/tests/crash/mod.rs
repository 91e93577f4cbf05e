//! Processes under test, what they acknowledged, and what must be true of the ledger they leave.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs
)]

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ids::allocator::State;
use ids::pool::IdPool;
use ledger::{BootId, Lease, LeaseRequest, Ledger, Options, PairUser};
use selinux::CategoryPair;

use crate::common::{Told, holder};

/// The program `examples/actor.rs`.
pub fn actor() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| testkit::example("actor", env!("CARGO_MANIFEST_DIR")))
}

/// A command that is strace over the actor.
pub fn traced(options: &[impl AsRef<OsStr>], dir: &Path, ops: &[String]) -> Command {
    let mut command = testkit::strace();
    command.args(options).arg(actor()).arg(dir).args(ops);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

pub fn spawn_actor(dir: &Path, ops: &[String]) -> Child {
    let mut command = Command::new(actor());
    command.arg(dir).args(ops).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// Runs the operations to their end and returns what was acknowledged.
pub fn act(dir: &Path, ops: &[String]) -> String {
    let done = spawn_actor(dir, ops).wait_with_output().unwrap();
    assert!(done.status.success(), "{ops:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

/// Leases by one process each until SQLite's log is so long that the next process to open the ledger truncates it.
pub fn act_until_the_log_is_long(dir: &Path) -> String {
    const LONG: u64 = 32 + 100 * (24 + 4096);
    let mut said = String::new();
    for i in 0..100 {
        said += &act(dir, &ops(&[&format!("lease:old-{i}")]));
        if std::fs::metadata(dir.join("ledger.db-wal")).unwrap().len() > LONG {
            return said;
        }
    }
    panic!("the log does not grow");
}

pub fn ops(words: &[&str]) -> Vec<String> {
    words.iter().map(|w| (*w).to_owned()).collect()
}

/// What actors were told to do and what they said they had done.
#[derive(Debug, Clone, Default)]
pub struct Promises {
    /// The first host ID of every lease that was acknowledged, by its holder.
    pub leased: BTreeMap<String, u32>,
    pub released: BTreeSet<String>,
    /// Holders whose release was asked for, acknowledged or not.
    pub leaving: BTreeSet<String>,
    /// The category pair without a block of every user to whom it was acknowledged.
    pub pairs: BTreeMap<String, CategoryPair>,
    /// Users whose pair was given back, and those for whom that was asked.
    pub unpaired: BTreeSet<String>,
    pub unpairing: BTreeSet<String>,
}

impl Promises {
    pub fn asked(&mut self, ops: &[String]) {
        self.leaving.extend(ops.iter().filter_map(|op| op.strip_prefix("release:")).map(str::to_owned));
        self.unpairing.extend(ops.iter().filter_map(|op| op.strip_prefix("unpair:")).map(str::to_owned));
    }

    /// Takes in whole lines; a line cut short was never said.
    pub fn heard(&mut self, said: &str) {
        for line in said.split_inclusive('\n').filter_map(|l| l.strip_suffix('\n')) {
            match line.split(' ').collect::<Vec<_>>()[..] {
                ["ack", "lease" | "join", name, id] => {
                    self.leased.insert(name.to_owned(), id.parse().unwrap());
                }
                ["ack", "release", name] => {
                    self.released.insert(name.to_owned());
                }
                ["ack", "pair", name, low, high] => {
                    let pair = CategoryPair::new(low.parse().unwrap(), high.parse().unwrap()).unwrap();
                    self.pairs.insert(name.to_owned(), pair);
                }
                ["ack", "unpair", name] => {
                    self.unpaired.insert(name.to_owned());
                }
                ["ack", ..] => {}
                _ => panic!("not an acknowledgement: {line}"),
            }
        }
    }
}

pub fn open_at(dir: &Path, pool: IdPool) -> Ledger {
    Ledger::open(options_at(dir, pool)).unwrap_or_else(|e| panic!("{} does not open: {e}", dir.display()))
}

pub fn options_at(dir: &Path, pool: IdPool) -> Options {
    let mut options =
        Options::new(dir, pool, BootId("boot-1".to_owned()), Arc::new(Told::default()) as Arc<_>);
    options.patience = Duration::from_secs(20);
    options
}

/// Opens what a crash has left, and checks that every promise was kept, that no two leases overlap,
/// that nothing was taken for damage, and that the next lease is nobody else's.
pub fn check_kept(dir: &Path, pool: IdPool, promises: &Promises) {
    let ledger = open_at(dir, pool);
    assert_eq!(ledger.take_notices(), Vec::<String>::new(), "a crash was taken for damage");
    check_promises(&ledger, promises);
    let before = ledger.list().unwrap();
    let probe = ledger.lease(LeaseRequest::new(holder("probe"))).unwrap();
    assert!(!before.iter().any(|l| overlaps(l, &probe)), "{probe:?} is somebody's: {before:?}");
    let user = PairUser { holder: holder("probe"), place: "/nowhere/probe".into() };
    let pair = ledger.allocate_pair(user, vec![]).unwrap();
    let others = ledger.pairs().unwrap().into_iter().filter(|held| held.holder.as_str() != "probe");
    let taken = others.map(|held| held.pair).chain(before.iter().filter_map(|lease| lease.categories));
    assert!(taken.into_iter().all(|taken| taken != pair), "{pair} is another's");
    check_disjoint(&ledger.list().unwrap());
}

pub fn check_promises(ledger: &Ledger, promises: &Promises) {
    check_pairs(ledger, promises);
    let held = ledger.list().unwrap();
    check_disjoint(&held);
    assert!(held.iter().all(|l| l.state != State::Pinned), "pinned without a reason: {held:?}");
    let by_name: BTreeMap<&str, &Lease> = held.iter().flat_map(|l| names(l).map(move |n| (n, l))).collect();
    for (name, base) in &promises.leased {
        let lease = by_name.get(name.as_str());
        if promises.released.contains(name) {
            assert!(lease.is_none_or(|l| l.state != State::Leased), "{name} was released");
        } else if !promises.leaving.contains(name) {
            let lease = lease.unwrap_or_else(|| panic!("the acknowledged lease of {name} is gone"));
            assert_eq!((lease.uids.base().get(), lease.state), (*base, State::Leased), "{name}");
        }
    }
}

/// Every pair that was acknowledged is its user's, and no two that were allocated are equal.
fn check_pairs(ledger: &Ledger, promises: &Promises) {
    let held = ledger.pairs().unwrap();
    assert_eq!(ledger.pair_conflicts().unwrap(), []);
    for (name, pair) in &promises.pairs {
        let found = held.iter().find(|held| held.holder.as_str() == name);
        if promises.unpaired.contains(name) {
            assert_eq!(found, None, "{name} was given back");
        } else if !promises.unpairing.contains(name) {
            let found = found.unwrap_or_else(|| panic!("the acknowledged pair of {name} is gone"));
            assert_eq!((found.pair, found.released), (*pair, false), "{name}");
        }
    }
}

fn names(lease: &Lease) -> impl Iterator<Item = &str> {
    lease.holder.iter().chain(lease.members.iter().flatten()).map(ledger::Holder::as_str)
}

pub fn check_disjoint(leases: &[Lease]) {
    for (i, a) in leases.iter().enumerate() {
        for b in &leases[i + 1..] {
            assert!(!overlaps(a, b), "{a:?} and {b:?} overlap");
        }
    }
}

pub fn overlaps(a: &Lease, b: &Lease) -> bool {
    a.uids.span().overlaps(b.uids.span()) || a.gids.span().overlaps(b.gids.span())
}

/// Says where it happened, if it happened.
pub struct Where(String);

impl Where {
    pub fn new(what: String) -> Self {
        Self(what)
    }

    /// Nothing happened.
    pub fn over(mut self) {
        self.0.clear();
    }
}

impl Drop for Where {
    fn drop(&mut self) {
        if !self.0.is_empty() {
            println!("it happened here: {}", self.0);
        }
    }
}

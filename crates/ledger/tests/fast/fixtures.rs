//! Ledgers of every version that ever wrote one, read for ever.
//!
//! `tests/fixtures/vN` is a state directory as version N of the layout left it, `tests/fixtures/vN.txt`
//! what was in it. A fixture is written once, by `actor DIR story` of its time, with
//! `ACTOR_NOW=1000000 ACTOR_POOL=1,16`, and never changed.

use crate::common;
use crate::crash;

use std::path::{Path, PathBuf};

use common::{Node, copy_dir, holder, lease, pool};
use ledger::{HeldPair, Lease, Ledger, PairUser};
use selinux::CategoryPair;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

fn line(lease: &Lease) -> String {
    let named =
        |names: &[ledger::Holder]| names.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    format!(
        "{} {} {:?} uids {} gids {} members {} categories {} since {}\n",
        lease.id.0,
        lease.holder.as_ref().map_or("-", |h| h.as_str()),
        lease.state,
        lease.uids,
        lease.gids,
        lease.members.as_ref().map_or("-".to_owned(), |m| named(m)),
        lease.categories.map_or("-".to_owned(), |c| c.to_string()),
        lease.since,
    )
}

fn pair_line(held: &HeldPair) -> String {
    let HeldPair { holder, pair, origin, released, place, since, .. } = held;
    format!("{holder} {pair} {origin:?} released {released} place {} since {since}\n", place.display())
}

fn told(ledger: &Ledger) -> String {
    let list: String = ledger.list().unwrap().iter().map(line).collect();
    let pairs: String = ledger.pairs().unwrap().iter().map(pair_line).collect();
    format!("{list}{pairs}{:?}\n", ledger.counts().unwrap())
}

fn opened(version: &str) -> (Node, Ledger) {
    let node = Node::new();
    copy_dir(&fixtures().join(version), &node.state());
    node.pass(70);
    let ledger = node.open(pool(1, 16));
    (node, ledger)
}

fn expected(version: &str) -> String {
    std::fs::read_to_string(fixtures().join(format!("{version}.txt"))).unwrap()
}

fn layout(node: &Node) -> u32 {
    let db = rusqlite::Connection::open(node.state().join("ledger.db")).unwrap();
    db.query_row("SELECT version FROM head", [], |row| row.get(0)).unwrap()
}

fn says_what_it_always_said(version: &str) {
    let (node, ledger) = opened(version);
    assert_eq!(ledger.take_notices(), Vec::<String>::new());
    assert_eq!(told(&ledger), expected(version));
    drop(ledger);
    assert_eq!(layout(&node), 2, "it is migrated");
}

#[test]
fn a_ledger_of_version_1_says_what_it_always_said() {
    says_what_it_always_said("v1");
}

#[test]
fn a_ledger_of_version_2_says_what_it_always_said() {
    says_what_it_always_said("v2");
}

fn can_be_rebuilt(version: &str) {
    let (node, first) = opened(version);
    drop(first);
    std::fs::remove_file(node.state().join("ledger.db")).unwrap();
    let ledger = node.open(pool(1, 16));
    assert_eq!(told(&ledger), expected(version));
}

#[test]
fn a_ledger_of_version_1_can_be_rebuilt_from_its_copy_alone() {
    can_be_rebuilt("v1");
}

#[test]
fn a_ledger_of_version_2_can_be_rebuilt_from_its_copy_alone() {
    can_be_rebuilt("v2");
}

#[test]
fn a_ledger_of_version_1_is_rebuilt_from_a_copy_that_knew_no_pairs() {
    let node = Node::new();
    copy_dir(&fixtures().join("v1"), &node.state());
    std::fs::write(node.state().join("ledger.db"), b"rubbish").unwrap();
    let ledger = node.open(pool(1, 16));
    assert!(!ledger.take_notices().is_empty());
    assert_eq!(told(&ledger), expected("v1"));
}

fn goes_on(version: &str) {
    let (node, ledger) = opened(version);
    let before = ledger.list().unwrap();
    let new = lease(&ledger, "new");
    assert!(!before.iter().any(|l| crash::overlaps(l, &new)));
    ledger.release(holder("pod-a")).unwrap();
    ledger.release(holder("pod-kept")).unwrap();
    ledger.settle().unwrap();
    let user = PairUser { holder: holder("new"), place: "/nowhere/new".into() };
    let pair = ledger.allocate_pair(user, vec![]).unwrap();
    let others = before.iter().filter_map(|l| l.categories);
    assert!(others.chain(expected_pairs(version)).all(|taken| taken != pair));
    // Another process reads the same.
    assert_eq!(node.open(pool(1, 16)).pairs().unwrap(), ledger.pairs().unwrap());
}

#[test]
fn a_ledger_of_version_1_goes_on() {
    goes_on("v1");
}

#[test]
fn a_ledger_of_version_2_goes_on() {
    goes_on("v2");
}

fn expected_pairs(version: &str) -> Vec<CategoryPair> {
    opened(version).1.pairs().unwrap().iter().map(|held| held.pair).collect()
}

//! Ledgers of every version that ever wrote one, read for ever.
//!
//! `tests/fixtures/vN` is a state directory as version N of the layout left it, `tests/fixtures/vN.txt`
//! what was in it. A fixture is written once, by `actor DIR story` of its time, with
//! `ACTOR_NOW=1000000 ACTOR_POOL=1,16`, and never changed.

use crate::common;
use crate::crash;

use std::path::{Path, PathBuf};

use common::{Node, copy_dir, holder, lease, pool};
use ledger::{Lease, Ledger};

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

fn told(ledger: &Ledger) -> String {
    let list: String = ledger.list().unwrap().iter().map(line).collect();
    format!("{list}{:?}\n", ledger.counts().unwrap())
}

fn opened(version: &str) -> (Node, Ledger) {
    let node = Node::new();
    copy_dir(&fixtures().join(version), &node.state());
    node.pass(70);
    let ledger = node.open(pool(1, 16));
    (node, ledger)
}

#[test]
fn a_ledger_of_version_1_says_what_it_always_said() {
    let (_node, ledger) = opened("v1");
    assert_eq!(ledger.take_notices(), Vec::<String>::new());
    let expected = std::fs::read_to_string(fixtures().join("v1.txt")).unwrap();
    assert_eq!(told(&ledger), expected);
}

#[test]
fn a_ledger_of_version_1_can_be_rebuilt_from_its_copy_alone() {
    let (node, first) = opened("v1");
    drop(first);
    std::fs::remove_file(node.state().join("ledger.db")).unwrap();
    let ledger = node.open(pool(1, 16));
    assert_eq!(told(&ledger), std::fs::read_to_string(fixtures().join("v1.txt")).unwrap());
}

#[test]
fn a_ledger_of_version_1_goes_on() {
    let (_node, ledger) = opened("v1");
    let before = ledger.list().unwrap();
    let new = lease(&ledger, "new");
    assert!(!before.iter().any(|l| crash::overlaps(l, &new)));
    ledger.release(holder("pod-a")).unwrap();
    ledger.release(holder("pod-kept")).unwrap();
    ledger.settle().unwrap();
}

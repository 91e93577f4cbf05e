//! Blocks that another agent of the node has given to pods while this one did not run.

use crate::common;

use std::collections::BTreeSet;

use common::{Node, UNIT, default_pool, holder, lease, pool, unit};
use ids::IdBlock;
use ids::allocator::{Blocks, State};
use ledger::{Holder, Lease, LeaseRequest, Ledger, LedgerError};

fn block(unit: u64) -> Blocks {
    Blocks::same(IdBlock::new(unit * UNIT, UNIT).unwrap())
}

fn gone(names: &[&str]) -> BTreeSet<Holder> {
    names.iter().map(|name| holder(name)).collect()
}

fn take_over(ledger: &Ledger, name: &str, unit: u64, gone_names: &[&str]) -> Result<Lease, LedgerError> {
    let request = LeaseRequest { places: vec!["/root/pods".into()], ..LeaseRequest::new(holder(name)) };
    ledger.take_over(request, block(unit), gone(gone_names))
}

#[test]
fn a_block_that_is_taken_over_is_given_to_nobody_else() {
    let node = Node::new();
    let ledger = node.open(pool(1, 3));
    let first = take_over(&ledger, "kubelets", 1, &[]).unwrap();
    assert_eq!((unit(&first), first.state), (1, State::Leased));
    assert_eq!(take_over(&ledger, "kubelets", 1, &[]).unwrap(), first, "again");
    assert_eq!([unit(&lease(&ledger, "a")), unit(&lease(&ledger, "b"))], [2, 3]);
    assert!(ledger.lease(LeaseRequest::new(holder("c"))).is_err());
    assert_eq!(node.open(pool(1, 3)).get(holder("kubelets")).unwrap().unwrap().places, first.places);
}

/// `wardlet ids import` enters them without places, by which their pod's end releases them.
#[test]
fn a_lease_that_was_imported_before_gets_its_places() {
    let node = Node::new();
    let ledger = node.open(default_pool());
    ledger.adopt(LeaseRequest::new(holder("pod")), block(7)).unwrap();
    assert_eq!(take_over(&ledger, "pod", 7, &[]).unwrap().places, [std::path::Path::new("/root/pods")]);
}

/// A pod ended while a kubelet ran the node, and the kubelet gave its block to another one.
#[test]
fn the_block_of_a_pod_that_is_gone_belongs_to_the_pod_that_has_it_now() {
    let node = Node::new();
    let ledger = node.open(pool(1, 2));
    lease(&ledger, "gone");
    lease(&ledger, "released");
    ledger.release(holder("released")).unwrap();
    let before = take_over(&ledger, "new", 1, &[]).unwrap_err();
    assert!(matches!(before, LedgerError::Adoption { .. }), "{before}");
    assert_eq!(ledger.get(holder("gone")).unwrap().unwrap().state, State::Leased, "nothing has changed");
    assert_eq!(unit(&take_over(&ledger, "new", 1, &["gone"]).unwrap()), 1);
    assert_eq!(ledger.get(holder("gone")).unwrap(), None);
    // Whether the block rests or drains does not matter: the pod uses it.
    assert_eq!(unit(&take_over(&ledger, "other", 2, &[]).unwrap()), 2);
    ledger.settle().unwrap();
    let held: Vec<u64> = node.open(pool(1, 2)).list().unwrap().iter().map(unit).collect();
    assert_eq!(held, [1, 2]);
}

#[test]
fn a_block_is_not_taken_from_a_holder_that_exists_or_in_part() {
    let node = Node::new();
    let ledger = node.open(default_pool());
    assert_eq!(unit(&lease(&ledger, "lives")), 1);
    assert!(take_over(&ledger, "new", 1, &["another"]).is_err());
    // Twice as long: the other half would be freed unseen.
    let long = Blocks::same(IdBlock::new(4 * UNIT, 2 * UNIT).unwrap());
    ledger.adopt(LeaseRequest::new(holder("long")), long).unwrap();
    assert!(take_over(&ledger, "new", 4, &["long"]).is_err());
    assert_eq!(ledger.get(holder("long")).unwrap().unwrap().state, State::Leased);
    // A holder has one block: that of its record and that of its sandbox cannot both be its own.
    lease(&ledger, "gone");
    take_over(&ledger, "pod", 9, &[]).unwrap();
    assert!(take_over(&ledger, "pod", 2, &["gone"]).is_err());
    assert!(ledger.get(holder("gone")).unwrap().is_some(), "nothing has changed");
}

//! The copy is not synced with each lease. After a power loss it may end early, at a whole line, and look
//! complete. If the same accident also cost the database, a rebuild that believed such a copy gave the
//! last acknowledged block out once more. Only a copy of this boot counts as complete.

use crate::common;

use common::{Node, holder, lease, pool, unit};
use ids::allocator::State;
use ledger::{BootId, LeaseRequest, Ledger};

/// Five leases, then the power goes: the copy lacks its last line and the database is rubbish.
fn after_power_loss() -> Node {
    let node = Node::new();
    let ledger = node.open(pool(1, 8));
    for i in 0..5 {
        assert_eq!(unit(&lease(&ledger, &format!("a-{i}"))), i + 1);
    }
    drop(ledger);
    let copies = std::fs::read_to_string(node.state().join("copies")).unwrap();
    let kept: Vec<&str> = copies.lines().collect();
    std::fs::write(node.state().join("copies"), format!("{}\n", kept[..kept.len() - 1].join("\n"))).unwrap();
    std::fs::write(node.state().join("ledger.db"), "rubbish").unwrap();
    std::fs::remove_file(node.state().join("ledger.db-wal")).unwrap();
    node
}

#[test]
fn a_copy_that_lost_its_end_with_the_power_gives_nothing_out_again() {
    let node = after_power_loss();
    let mut options = node.options(pool(1, 8));
    options.boot = BootId("boot-2".to_owned());
    let ledger = Ledger::open(options).unwrap();
    for i in 0..4 {
        assert_eq!(unit(&lease(&ledger, &format!("a-{i}"))), i + 1, "what the copy has is known");
    }
    let new = ledger.lease(LeaseRequest::new(holder("new")));
    assert!(new.is_err(), "nobody knows who has the other four blocks: {new:?}");
    let pinned = ledger.list().unwrap().into_iter().filter(|l| l.state == State::Pinned);
    assert!(pinned.map(|l| l.note.unwrap()).all(|n| n.contains("ids gc --unpin")));
}

#[test]
fn the_first_opening_after_a_boot_makes_the_copy_whole_again() {
    let node = Node::new();
    lease(&node.open(pool(1, 8)), "a-0");
    let in_boot_2 = || {
        let mut options = node.options(pool(1, 8));
        options.boot = BootId("boot-2".to_owned());
        Ledger::open(options).unwrap()
    };
    drop(in_boot_2());
    std::fs::write(node.state().join("ledger.db"), "rubbish").unwrap();
    std::fs::remove_file(node.state().join("ledger.db-wal")).unwrap();
    let ledger = in_boot_2();
    assert_eq!((unit(&lease(&ledger, "a-0")), unit(&lease(&ledger, "a-1"))), (1, 2), "nothing is pinned");
}

#[test]
fn a_copy_that_could_not_be_written_does_not_pass_for_whole() {
    let node = Node::new();
    let ledger = node.open(pool(1, 8));
    lease(&ledger, "a-0");
    // A directory in its place: it cannot be appended to.
    std::fs::remove_file(node.state().join("copies")).unwrap();
    std::fs::create_dir(node.state().join("copies")).unwrap();
    lease(&ledger, "a-1");
    assert!(ledger.take_notices().iter().any(|n| n.contains("copy is behind")));
    std::fs::remove_dir(node.state().join("copies")).unwrap();
    lease(&ledger, "a-2");
    let copies = std::fs::read_to_string(node.state().join("copies")).unwrap();
    assert!(["a-0", "a-1", "a-2"].iter().all(|h| copies.contains(h)), "the next change writes all of it");
}

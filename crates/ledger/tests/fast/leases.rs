//! What the ledger promises its callers, one sentence a test.

use crate::common;

use std::path::PathBuf;

use common::{Node, UNIT, default_pool, holder, lease, pool, split_pool, unit};
use ids::allocator::{LeaseError, State};
use ids::witness::Hold;
use ids::{BlockLength, IdKind};
use ledger::{Categories, LeaseRequest, LedgerError, Outcome, Released, Tenure};

fn outcomes(verdicts: &[ledger::Verdict]) -> Vec<&Outcome> {
    verdicts.iter().map(|v| &v.outcome).collect()
}

#[test]
fn a_lease_is_the_same_however_often_it_is_asked_for() {
    let node = Node::new();
    let first = lease(&node.open(default_pool()), "pod-1");
    let again = lease(&node.open(default_pool()), "pod-1");
    assert_eq!(first, again);
    assert_eq!(unit(&first), 1);
}

#[test]
fn holders_have_blocks_of_their_own() {
    let node = Node::new();
    let ledger = node.open(default_pool());
    let units: Vec<u64> = (0..50).map(|i| unit(&lease(&ledger, &format!("pod-{i}")))).collect();
    assert_eq!(units, (1..=50).collect::<Vec<_>>());
}

#[test]
fn two_open_ledgers_see_each_others_leases() {
    let node = Node::new();
    let (a, b) = (node.open(default_pool()), node.open(default_pool()));
    for i in 0..20 {
        let l = lease(if i % 2 == 0 { &a } else { &b }, &format!("pod-{i}"));
        assert_eq!(unit(&l), i + 1);
    }
    a.release(holder("pod-3")).unwrap();
    assert_eq!(b.get(holder("pod-3")).unwrap().unwrap().state, State::Draining);
    assert_eq!(a.list().unwrap(), b.list().unwrap());
}

#[test]
fn a_released_block_is_given_out_again_only_after_drain_and_quarantine() {
    let node = Node::new();
    let ledger = node.open(pool(1, 1));
    lease(&ledger, "old");
    ledger.release(holder("old")).unwrap();
    let e = ledger.lease(LeaseRequest::new(holder("new"))).unwrap_err();
    assert!(matches!(e, LedgerError::Lease { source: LeaseError::Exhausted(_), .. }), "{e}");
    assert!(matches!(ledger.get(holder("old")).unwrap().unwrap().state, State::Quarantined { .. }));
    node.pass(59);
    assert!(ledger.lease(LeaseRequest::new(holder("new"))).is_err());
    node.pass(1);
    assert_eq!(unit(&lease(&ledger, "new")), 1, "the ledger settles by itself when nothing is free");
}

#[test]
fn whoever_is_seen_in_a_draining_block_keeps_it_from_being_freed() {
    let node = Node::new();
    let ledger = node.open(pool(1, 2));
    lease(&ledger, "pod");
    ledger.release(holder("pod")).unwrap();
    node.witness.sees(IdKind::Gid, 2 * UNIT - 1, 1, Hold::Live);
    for _ in 0..3 {
        let verdicts = ledger.settle().unwrap();
        let [Outcome::InUse(by)] = outcomes(&verdicts)[..] else { panic!("{verdicts:?}") };
        assert!(by[0].contains("somebody with gids"), "{by:?}");
        node.pass(1000);
    }
    node.witness.sees_nobody();
    assert!(matches!(outcomes(&ledger.settle().unwrap())[..], [Outcome::Quarantined { .. }]));
}

#[test]
fn whoever_turns_up_during_quarantine_starts_it_over() {
    let node = Node::new();
    let ledger = node.open(pool(1, 2));
    lease(&ledger, "pod");
    ledger.release(holder("pod")).unwrap();
    ledger.settle().unwrap();
    node.witness.sees(IdKind::Uid, UNIT + 5, 1, Hold::Live);
    node.pass(100);
    ledger.settle().unwrap();
    assert_eq!(ledger.get(holder("pod")).unwrap().unwrap().state, State::Draining);
}

#[test]
fn what_cannot_be_looked_into_frees_nothing() {
    let node = Node::new();
    let ledger = node.open(pool(1, 2));
    lease(&ledger, "pod");
    ledger.release(holder("pod")).unwrap();
    node.witness.blind.lock().unwrap().push("process 7".to_owned());
    assert!(matches!(outcomes(&ledger.settle().unwrap())[..], [Outcome::Unseen(_)]));
    assert_eq!(ledger.get(holder("pod")).unwrap().unwrap().state, State::Draining);
}

#[test]
fn leasing_goes_by_a_bounded_look_and_freeing_by_a_complete_one() {
    let node = Node::new();
    let ledger = node.open(pool(1, 2));
    let looks = || {
        let count = |looks: &std::sync::atomic::AtomicU64| looks.load(std::sync::atomic::Ordering::SeqCst);
        (count(&node.witness.looks), count(&node.witness.bounded_looks))
    };
    lease(&ledger, "pod");
    assert_eq!(looks(), (1, 1));
    ledger.release(holder("pod")).unwrap();
    ledger.settle().unwrap();
    assert_eq!(looks(), (2, 1));
}

#[test]
fn a_place_that_still_exists_keeps_the_block() {
    let node = Node::new();
    let ledger = node.open(pool(1, 2));
    let place = node.dir.path().join("upper");
    let mut request = LeaseRequest::new(holder("pod"));
    request.places = vec![place.clone()];
    ledger.lease(request).unwrap();
    ledger.release(holder("pod")).unwrap();
    node.witness.remaining.lock().unwrap().push(place.clone());
    let verdicts = ledger.settle().unwrap();
    let [Outcome::InUse(by)] = outcomes(&verdicts)[..] else { panic!("{verdicts:?}") };
    assert_eq!(by[..], [format!("{} still exists", place.display())]);
    node.witness.remaining.lock().unwrap().clear();
    assert!(matches!(outcomes(&ledger.settle().unwrap())[..], [Outcome::Quarantined { .. }]));
}

#[test]
fn a_preview_changes_nothing() {
    let node = Node::new();
    let ledger = node.open(pool(1, 2));
    lease(&ledger, "pod");
    ledger.release(holder("pod")).unwrap();
    assert!(matches!(outcomes(&ledger.preview().unwrap())[..], [Outcome::Quarantined { .. }]));
    assert_eq!(ledger.get(holder("pod")).unwrap().unwrap().state, State::Draining);
}

#[test]
fn a_holder_that_comes_back_in_time_gets_its_own_block_back() {
    let node = Node::new();
    let ledger = node.open(default_pool());
    let before = lease(&ledger, "static-pod");
    lease(&ledger, "other");
    ledger.release(holder("static-pod")).unwrap();
    ledger.settle().unwrap();
    let after = lease(&ledger, "static-pod");
    assert_eq!((before.uids, after.state), (after.uids, State::Leased));
}

#[test]
fn blocks_that_others_use_or_claim_are_passed_over() {
    let node = Node::new();
    node.witness.sees(IdKind::Uid, 100_000, 65_536, Hold::Claimed);
    node.witness.sees(IdKind::Gid, 5 * UNIT, 1, Hold::Live);
    let ledger = node.open(default_pool());
    let units: Vec<u64> = (0..3).map(|i| unit(&lease(&ledger, &format!("pod-{i}")))).collect();
    assert_eq!(units, [3, 4, 6]);
}

#[test]
fn sizes_are_powers_of_two_of_the_blocks_and_a_holder_keeps_its_size() {
    let node = Node::new();
    let ledger = node.open(default_pool());
    let sized = |name: &str, n: u64| LeaseRequest {
        length: Some(BlockLength::try_from(n).unwrap()),
        ..LeaseRequest::new(holder(name))
    };
    let big = ledger.lease(sized("nested", 4 * UNIT)).unwrap();
    assert_eq!((unit(&big), big.uids.length().get()), (4, 262_144));
    assert_eq!(unit(&lease(&ledger, "small")), 1);
    assert!(matches!(ledger.lease(sized("nested", 2 * UNIT)), Err(LedgerError::OtherLength { .. })));
    let e = ledger.lease(sized("three", 3 * UNIT)).unwrap_err();
    assert_eq!(e.hint().unwrap(), "ask for 131072 or 262144");
}

#[test]
fn the_cap_counts_leased_pods_only() {
    let node = Node::new();
    let mut options = node.options(default_pool());
    options.cap = Some(2);
    let ledger = ledger::Ledger::open(options).unwrap();
    lease(&ledger, "a");
    lease(&ledger, "b");
    let e = ledger.lease(LeaseRequest::new(holder("c"))).unwrap_err();
    assert_eq!(e.to_string(), "c: 2 isolated pods are running and userNamespaces.maxPods allows 2");
    ledger.release(holder("a")).unwrap();
    lease(&ledger, "c");
}

#[test]
fn a_shared_lease_is_one_block_for_all_and_drains_after_the_last_has_left() {
    let node = Node::new();
    let ledger = node.open(pool(1, 4));
    let join = |name: &str| ledger.join(holder("nfs"), LeaseRequest::new(holder(name))).unwrap();
    let (a, b) = (join("a"), join("b"));
    assert_eq!(a.uids, b.uids);
    assert_eq!(b.members, Some(vec![holder("a"), holder("b")]));
    assert_ne!(lease(&ledger, "own").uids, a.uids);
    assert!(matches!(ledger.release(holder("nfs")), Err(LedgerError::HasMembers { members: 2, .. })));
    assert!(matches!(ledger.release(holder("a")).unwrap(), Released::Left(_)));
    assert_eq!(ledger.get(holder("a")).unwrap(), None);
    assert!(matches!(ledger.release(holder("b")).unwrap(), Released::Draining(_)));
    ledger.settle().unwrap();
    node.pass(60);
    ledger.settle().unwrap();
    assert_eq!(ledger.get(holder("nfs")).unwrap(), None);
    // A process that had it open all along, and one that opens it now, agree.
    assert_eq!(ledger.list().unwrap(), node.open(pool(1, 4)).list().unwrap());
}

#[test]
fn a_name_is_a_lease_or_a_shared_lease_or_a_member_never_two_of_them() {
    let node = Node::new();
    let ledger = node.open(default_pool());
    lease(&ledger, "own");
    let join = |shared: &str, name: &str| ledger.join(holder(shared), LeaseRequest::new(holder(name)));
    assert!(join("own", "x").is_err());
    assert!(join("nfs", "own").is_err());
    join("nfs", "a").unwrap();
    assert!(matches!(join("smb", "a"), Err(LedgerError::Joined { .. })));
    assert!(matches!(ledger.lease(LeaseRequest::new(holder("a"))), Err(LedgerError::Joined { .. })));
    assert!(matches!(ledger.lease(LeaseRequest::new(holder("nfs"))), Err(LedgerError::OtherSort { .. })));
    assert!(join("a", "b").is_err());
    assert!(join("loop", "loop").is_err());
    assert_eq!(ledger.get(holder("loop")).unwrap(), None);
    assert_eq!(ledger.list().unwrap().len(), node.open(default_pool()).list().unwrap().len());
}

#[test]
fn releasing_what_nobody_holds_is_no_error() {
    let node = Node::new();
    assert_eq!(node.open(default_pool()).release(holder("nobody")).unwrap(), Released::NothingHeld);
}

#[test]
fn category_pairs_are_unique_and_go_with_the_block() {
    let node = Node::new();
    let ledger = node.open(default_pool());
    let labelled = |name: &str| {
        let request = LeaseRequest { categories: Categories::Pair, ..LeaseRequest::new(holder(name)) };
        ledger.lease(request).unwrap().categories.unwrap()
    };
    let pairs: std::collections::HashSet<_> = (0..100).map(|i| labelled(&format!("pod-{i}"))).collect();
    assert_eq!(pairs.len(), 100);
    assert!(pairs.contains(&labelled("pod-7")), "asked again, the same pair");
    // A pair that was given back is not the next one to be given out.
    let mine = labelled("pod-99");
    ledger.release(holder("pod-99")).unwrap();
    ledger.settle().unwrap();
    node.pass(60);
    ledger.settle().unwrap();
    assert_ne!(labelled("pod-100"), mine);
}

#[test]
fn leases_until_reboot_drain_by_themselves_and_durable_ones_stay() {
    let node = Node::new();
    let ledger = node.open(default_pool());
    lease(&ledger, "durable");
    let brief = |name: &str| LeaseRequest { tenure: Tenure::UntilReboot, ..LeaseRequest::new(holder(name)) };
    ledger.lease(brief("sandbox")).unwrap();
    ledger.join(holder("nfs"), brief("member")).unwrap();
    let mut options = node.options(default_pool());
    options.boot = ledger::BootId("boot-2".to_owned());
    let after = ledger::Ledger::open(options).unwrap();
    let state = |name: &str| after.get(holder(name)).unwrap().unwrap().state;
    assert_eq!(
        (state("durable"), state("sandbox"), state("nfs")),
        (State::Leased, State::Draining, State::Draining)
    );
    assert_eq!(after.earlier_boots().unwrap(), [holder("durable")]);
    assert!(after.get(holder("durable")).unwrap().unwrap().earlier_boot);
    lease(&after, "durable");
    assert_eq!(after.earlier_boots().unwrap(), []);
}

#[test]
fn user_and_group_blocks_of_different_pools_differ() {
    let node = Node::new();
    let ledger = node.open(split_pool((1, 4), (16, 2)));
    let l = lease(&ledger, "a");
    assert_eq!((u64::from(l.uids.base()), u64::from(l.gids.base())), (UNIT, 16 * UNIT));
    lease(&ledger, "b");
    assert!(ledger.lease(LeaseRequest::new(holder("c"))).is_err());
}

/// kubernetes#141941, #132966: with a changed range or block length the kubelet refuses to start.
#[test]
fn a_changed_pool_or_block_length_opens_and_keeps_what_was_leased() {
    let node = Node::new();
    let old = lease(&node.open(pool(1, 4)), "old");
    let elsewhere = node.open(pool(100, 4));
    let kept = elsewhere.get(holder("old")).unwrap().unwrap();
    assert_eq!(kept.uids, old.uids);
    assert!(kept.note.unwrap().contains("outside the pool"));
    assert_eq!(unit(&lease(&elsewhere, "new")), 100);
    let longer = ids::pool::IdPool::default_for(BlockLength::try_from(2 * UNIT).unwrap(), vec![]).unwrap();
    let longer = node.open(longer);
    let l = lease(&longer, "long");
    assert_eq!((unit(&l), l.uids.length().get()), (2, 131_072), "units 0-1 are held in part, so 2-3");
    assert_eq!(longer.list().unwrap().len(), 3);
}

/// One lease past the pool's end is an error with numbers, never a wrapped or foreign block.
#[test]
fn a_pool_of_three_gives_three() {
    let node = Node::new();
    let ledger = node.open(pool(7, 3));
    for i in 0..3 {
        assert_eq!(unit(&lease(&ledger, &format!("pod-{i}"))), 7 + i);
    }
    let e = ledger.lease(LeaseRequest::new(holder("pod-3"))).unwrap_err();
    assert!(e.to_string().contains("of 3 blocks 3 are leased"), "{e}");
}

#[test]
fn a_place_is_added_to_what_is_held_and_to_nothing_else() {
    let node = Node::new();
    let ledger = node.open(default_pool());
    let place = vec![PathBuf::from("/upper")];
    let nobody = ledger.add_places(holder("pod-1"), place.clone());
    assert!(matches!(nobody, Err(LedgerError::NotHeld { .. })), "{nobody:?}");
    lease(&ledger, "pod-1");
    assert_eq!(ledger.add_places(holder("pod-1"), place.clone()).unwrap().places, place);
    assert_eq!(node.open(default_pool()).get(holder("pod-1")).unwrap().unwrap().places, place);
    ledger.release(holder("pod-1")).unwrap();
    assert!(ledger.add_places(holder("pod-1"), place).is_err(), "it is on its way to being free");
}

#[test]
fn a_ledger_that_was_opened_to_lease_has_looked_by_then_and_judges_vacancy_by_another_look() {
    let node = Node::new();
    node.witness.sees(IdKind::Uid, UNIT, 1, Hold::Live);
    let ledger = ledger::Ledger::open_to_lease(node.options(default_pool())).unwrap();
    let looks = || node.witness.looks.load(std::sync::atomic::Ordering::SeqCst);
    assert_eq!(looks(), 1);
    assert_eq!(unit(&lease(&ledger, "pod-1")), 2, "the first is in use");
    ledger.release(holder("pod-1")).unwrap();
    let before = looks();
    node.witness.sees(IdKind::Uid, 2 * UNIT, 1, Hold::Live);
    ledger.settle().unwrap();
    assert_eq!(looks(), before + 1);
    assert_eq!(ledger.get(holder("pod-1")).unwrap().unwrap().state, State::Draining);
}

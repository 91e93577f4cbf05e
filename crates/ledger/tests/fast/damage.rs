//! A flipped byte anywhere: opens, pins, never frees.
//!
//! A ledger with leases in every state is damaged in every way we could think of, one copy at a time.
//! As long as one of its files is whole, nothing is lost. Where two are damaged, whatever nobody can
//! speak for is pinned. It opens always, gives out nobody's block, and keeps the damaged files.
//!
//! Offsets are sampled here; `slow_damage` goes through more of them.

use crate::common;
use crate::crash;
use crate::damaged;

use std::path::PathBuf;

use common::{UNIT, default_pool, holder, lease, unit};
use crash::Where;
use damaged::{FILES, Log, Specimen, fold};
use ids::allocator::State;
use ledger::{LeaseRequest, Ledger, LedgerError, OpenMode, Options};

fn each_file(specimen: &Specimen, mut damage: impl FnMut(&str, usize)) {
    FILES.iter().for_each(|file| damage(file, specimen.length(file)));
}

#[test]
fn a_flipped_byte_in_one_file_loses_nothing() {
    for (log, samples) in [(Log::Short, 230), (Log::Long, 80)] {
        let specimen = Specimen::new(log);
        let mut flipped = 0;
        each_file(&specimen, |file, length| {
            for at in (0..length).step_by((length / samples).max(1)) {
                let copy = specimen.copy();
                copy.flip(file, at, 1 << (at % 8));
                let context = Where::new(format!("{log:?} log, {file} byte {at}"));
                copy.loses_nothing(&specimen.held);
                context.over();
                flipped += 1;
            }
        });
        println!("{log:?} log: {flipped} bytes flipped");
    }
}

#[test]
fn a_flipped_byte_loses_nothing_to_one_who_comes_for_a_single_change() {
    for log in [Log::Short, Log::Long] {
        let specimen = Specimen::new(log);
        let (mut flipped, mut twice) = (0, 0);
        each_file(&specimen, |file, length| {
            for at in (0..length).step_by((length / 150).max(1)) {
                let copy = specimen.copy();
                copy.flip(file, at, 1 << (at % 8));
                let context = Where::new(format!("{log:?} log, {file} byte {at}"));
                twice += usize::from(copy.serves_exclusively(&specimen.held) == 2);
                context.over();
                flipped += 1;
            }
        });
        println!("{log:?} log: {flipped} bytes flipped, {twice} times it had to come twice");
    }
}

/// The digests vouch for rows, and not for how SQLite finds them: a page that is in use is listed as free here, and is taken
/// by the next row that needs one.
#[test]
fn pages_that_do_not_hang_together_are_found_by_those_who_come_for_a_single_change() {
    let specimen = Specimen::new(Log::Short);
    let copy = specimen.copy();
    fold(copy.home.path());
    let mut bytes = std::fs::read(copy.path("ledger.db")).unwrap();
    bytes[32..40].copy_from_slice(&[0, 0, 0, 2, 0, 0, 0, 1]);
    copy.write("ledger.db", &bytes);
    let mut rebuilt = 0;
    for i in 0..40 {
        let exclusive = || Ledger::open(Options { mode: OpenMode::Exclusive, ..copy.options() }).unwrap();
        let places: Vec<PathBuf> = (0..60).map(|n| format!("/{}/{i}/{n}", "x".repeat(80)).into()).collect();
        let request = LeaseRequest { places, ..LeaseRequest::new(holder("a")) };
        let first = exclusive();
        let leased = first.lease(request.clone());
        rebuilt += first.take_notices().iter().filter(|notice| notice.contains("rebuilt")).count();
        drop(first);
        let leased = match leased {
            Err(e @ LedgerError::Rebuilt { .. }) => {
                println!("lease {i}: {e}");
                assert!(e.hint().unwrap().contains("try again"));
                exclusive().lease(request).unwrap()
            }
            leased => leased.unwrap(),
        };
        assert_eq!(leased.places.len(), 60 * (i + 1));
    }
    assert_eq!(rebuilt, 1);
    let listed = copy.open().list().unwrap();
    for held in &specimen.held {
        assert!(listed.iter().any(|l| l.holder == held.holder && l.uids == held.uids), "{held:?}");
    }
}

#[test]
fn a_flipped_bit_in_the_header_of_the_database_loses_nothing() {
    let specimen = Specimen::new(Log::Short);
    for at in 0..100 {
        for bit in [0, 1, 4] {
            let flipped = || {
                let copy = specimen.copy();
                copy.flip("ledger.db", at, 1 << bit);
                copy
            };
            let context = Where::new(format!("byte {at} bit {bit}"));
            flipped().loses_nothing(&specimen.held);
            flipped().serves_exclusively(&specimen.held);
            context.over();
        }
    }
}

#[test]
fn a_file_cut_short_loses_nothing() {
    for log in [Log::Short, Log::Long] {
        let specimen = Specimen::new(log);
        each_file(&specimen, |file, length| {
            for to in (0..length).step_by((length / 25).max(1)) {
                let copy = specimen.copy();
                copy.write(file, &specimen.read(file)[..to]);
                let context = Where::new(format!("{log:?} log, {file} cut to {to}"));
                copy.loses_nothing(&specimen.held);
                context.over();
            }
        });
    }
}

#[test]
fn a_missing_file_or_one_of_rubbish_loses_nothing() {
    for log in [Log::Short, Log::Long] {
        let specimen = Specimen::new(log);
        each_file(&specimen, |file, length| {
            let context = Where::new(format!("{log:?} log, {file}"));
            let missing = specimen.copy();
            missing.remove(file);
            missing.loses_nothing(&specimen.held);
            for rubbish in [vec![], vec![0; length], vec![0xa5; length], b"not a ledger\n".to_vec()] {
                let copy = specimen.copy();
                copy.write(file, &rubbish);
                copy.loses_nothing(&specimen.held);
            }
            context.over();
        });
    }
}

#[test]
fn with_database_and_copy_damaged_what_nobody_speaks_for_is_pinned() {
    let specimen = Specimen::new(Log::Short);
    let length = specimen.read("copies").len();
    let mut tried = 0;
    for at in (0..length).step_by(19) {
        let copy = specimen.copy();
        copy.write("ledger.db", b"rubbish");
        copy.flip("copies", at, 0x10);
        let context = Where::new(format!("copies byte {at}"));
        copy.frees_nothing(&specimen.held);
        context.over();
        tried += 1;
    }
    // A lost newline makes one line of two.
    for at in specimen.read("copies").iter().enumerate().filter(|(_, b)| **b == b'\n').map(|(at, _)| at) {
        let copy = specimen.copy();
        copy.remove("ledger.db");
        copy.flip("copies", at, 0x01);
        let context = Where::new(format!("copies newline {at}"));
        copy.frees_nothing(&specimen.held);
        context.over();
        tried += 1;
    }
    println!("{tried} copies with a hole");
}

#[test]
fn with_everything_gone_but_the_mark_all_below_it_is_pinned() {
    let specimen = Specimen::new(Log::Short);
    for keep in ["mark", "ledger.db"] {
        let copy = specimen.copy();
        FILES.iter().filter(|f| **f != keep).for_each(|f| copy.remove(f));
        if keep == "ledger.db" {
            copy.write(keep, b"rubbish");
        }
        let ledger = copy.open();
        assert_eq!(ledger.counts().unwrap().free, 0, "only {keep} was left");
        assert!(ledger.list().unwrap().iter().all(|l| l.state == State::Pinned && l.note.is_some()));
        drop(ledger);
        copy.frees_nothing(&specimen.held);
    }
}

#[test]
fn blocks_above_the_mark_are_free_after_all_else_is_lost() {
    let specimen = Specimen::new(Log::Short);
    let copy = specimen.copy();
    FILES.iter().filter(|f| **f != "mark").for_each(|f| copy.remove(f));
    let mut options = copy.options();
    options.pool = default_pool();
    let ledger = ledger::Ledger::open(options).unwrap();
    let highest = specimen.held.iter().map(|l| u64::from(l.uids.last()) / UNIT).max().unwrap();
    let next = unit(&lease(&ledger, "new"));
    assert!((highest + 1..=highest + 66).contains(&next), "{next}");
}

/// A mark that was lost and made anew must cover what was leased before, or the next accident frees it.
#[test]
fn a_lost_mark_is_made_good_before_it_is_needed() {
    let specimen = Specimen::new(Log::Short);
    let state = tempfile::tempdir().unwrap();
    let node = common::Node {
        dir: state,
        witness: specimen.node.witness.clone(),
        clock: specimen.node.clock.clone(),
    };
    let ledger = node.open(default_pool());
    for i in 0..200 {
        lease(&ledger, &format!("pod-{i}"));
    }
    ledger.release(holder("pod-0")).unwrap();
    drop(ledger);
    std::fs::remove_file(node.state().join("mark")).unwrap();
    // A reopened ledger that leases a low block only.
    lease(&node.open(common::pool(1000, 4)), "late");
    lease(&node.open(common::pool(1000, 4)), "later");
    std::fs::remove_file(node.state().join("mark")).unwrap();
    lease(&node.open(default_pool()), "pod-0");
    for file in ["ledger.db", "ledger.db-wal", "copies"] {
        std::fs::remove_file(node.state().join(file)).unwrap();
    }
    let next = unit(&lease(&node.open(default_pool()), "new"));
    assert!(next > 1001, "block {next} may be somebody's");
}

#[test]
fn the_kubelets_records_speak_where_the_copy_does_not() {
    let specimen = Specimen::new(Log::Short);
    let copy = specimen.copy();
    FILES.iter().filter(|f| **f != "mark").for_each(|f| copy.remove(f));
    let pods = tempfile::tempdir().unwrap();
    let pod = "0d1c2b3a-0000-4000-8000-000000000001";
    let a = specimen.held.iter().find(|l| l.holder == Some(holder("a"))).unwrap();
    ledger::kubelet::write_record(pods.path(), &holder(pod), a).unwrap();
    let mut options = copy.options();
    options.kubelet_pods = Some(pods.path().to_owned());
    let ledger = ledger::Ledger::open(options).unwrap();
    let found = ledger.get(holder(pod)).unwrap().unwrap();
    assert_eq!((found.uids, found.state), (a.uids, State::Leased));
}

#[test]
fn who_has_the_ledger_open_while_another_rebuilds_it_goes_on() {
    let specimen = Specimen::new(Log::Short);
    let copy = specimen.copy();
    let agent = copy.open();
    lease(&agent, "before");
    fold(copy.home.path());
    copy.write("ledger.db", b"rubbish");
    let other = copy.open();
    assert!(other.take_notices().iter().any(|n| n.contains("rebuilt")));
    lease(&other, "theirs");
    lease(&agent, "ours");
    assert_eq!(agent.list().unwrap(), other.list().unwrap());
    assert_eq!(agent.list().unwrap().len(), specimen.held.len() + 3);
    assert_eq!(agent.take_notices(), Vec::<String>::new());
}

/// SQLite checks its log only when it recovers it: who reads along must check for itself.
#[test]
fn a_row_garbled_under_an_open_ledger_is_not_believed() {
    let specimen = Specimen::new(Log::Short);
    let copy = specimen.copy();
    let (agent, other) = (copy.open(), copy.open());
    lease(&agent, "before");
    let theirs = lease(&other, "garbled-on-disk");
    let mut log = std::fs::read(copy.path("ledger.db-wal")).unwrap();
    let at = log.windows(15).rposition(|w| w == b"garbled-on-disk").unwrap();
    log[at] = b'm';
    copy.write("ledger.db-wal", &log);
    let ours = lease(&agent, "after");
    assert!(!crash::overlaps(&theirs, &ours));
    assert_eq!(agent.get(holder("garbled-on-disk")).unwrap().map(|l| l.uids), Some(theirs.uids));
    assert_eq!(agent.list().unwrap(), copy.open().list().unwrap());
}

#[test]
fn a_lost_line_about_a_shared_lease_leaves_no_member_behind() {
    let specimen = Specimen::new(Log::Short);
    let text = String::from_utf8(specimen.read("copies")).unwrap();
    let about_nfs = |line: &&str| line.contains(r#""holder":"nfs""#);
    assert!(text.lines().any(|l| about_nfs(&l)));
    let copy = specimen.copy();
    copy.remove("ledger.db");
    let rest: Vec<&str> = text.lines().filter(|l| !about_nfs(l)).collect();
    copy.write("copies", (rest.join("\n") + "\n").as_bytes());
    let opened = |boot: &str| {
        let mut options = copy.options();
        options.pool = default_pool();
        options.boot = ledger::BootId(boot.to_owned());
        ledger::Ledger::open(options).unwrap()
    };
    let ledger = opened("boot-1");
    assert_eq!(ledger.get(holder("m")).unwrap(), None);
    let own = lease(&ledger, "m");
    assert!(specimen.held.iter().all(|h| !crash::overlaps(h, &own)));
    ledger.release(holder("n")).unwrap();
    opened("boot-2");
}

#[test]
fn what_a_killed_rebuild_left_is_in_nobodys_way() {
    let specimen = Specimen::new(Log::Short);
    let copy = specimen.copy();
    copy.write("ledger.db.new", b"left by a rebuild that was killed");
    copy.write("copies.new", b"left by a copy that was killed");
    copy.loses_nothing(&specimen.held);
    let damaged = specimen.copy();
    damaged.write("ledger.db", b"rubbish");
    damaged.write("ledger.db.new", b"left by a rebuild that was killed");
    damaged.write("ledger.db.new-wal", b"left by a rebuild that was killed");
    damaged.loses_nothing(&specimen.held);
}

#[test]
fn the_next_lease_after_a_rebuild_is_a_lease_like_any_other() {
    let specimen = Specimen::new(Log::Long);
    let copy = specimen.copy();
    copy.write("ledger.db", b"rubbish");
    let ledger = copy.open();
    let new = ledger.lease(LeaseRequest::new(holder("new"))).unwrap();
    assert!(specimen.held.iter().all(|h| h.id < new.id), "a lease's number is never used twice");
}

//! Power loss: every prefix of the recorded write and sync sequence, with unsynced writes dropped,
//! torn and reordered, is opened and checked.
//!
//! A run of the actor is recorded with strace: every byte it wrote, every sync, every name it gave,
//! and when it acknowledged what. A disk is played from that. Whenever the power might go, images are
//! made of what may be found afterwards: only what was synced; everything; any of the unsynced writes;
//! any of their sectors. A name that was given counts as lost until its directory was synced, and, to
//! be fair to other file systems, also as safe at once. Each image must open without being taken for
//! damage, with all that was acknowledged before, and the next lease must be nobody else's.

use crate::common;
use crate::crash;
use crate::power;

use std::path::Path;

use common::{copy_dir, default_pool};
use crash::{
    Promises, Where, act, act_until_the_log_is_long, check_kept, check_promises, open_at, ops, overlaps,
};
use power::{Disk, Luck, Names, Op, record};
use testkit::{Dice, rounds};

const LUCKS: [Luck; 5] =
    [Luck::Nothing, Luck::Everything, Luck::SomeWrites, Luck::SomeSectors, Luck::SomeSectors];

/// Memory is as good a place as any for an image, and much faster.
fn image_dir() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.unwrap()
}

struct Loss<'a> {
    start: Disk,
    ops: Vec<Op>,
    promises: Promises,
    check: &'a dyn Fn(&Path, &Promises),
}

impl Loss<'_> {
    /// Loses power after every operation that `wanted` picks.
    fn sweep(&self, wanted: impl Fn(usize, &Op) -> bool) {
        let mut dice = Dice::thrown("power");
        let (mut disk, mut promises, mut images) = (self.start.clone(), self.promises.clone(), 0);
        let mut prefixes = 0;
        for (i, op) in self.ops.iter().enumerate() {
            disk.run(op);
            if let Op::Said(line) = op {
                promises.heard(line);
            }
            if !wanted(i, op) {
                continue;
            }
            prefixes += 1;
            for names in [Names::Strict, Names::AtOnce] {
                for luck in LUCKS.iter().copied().cycle().take(LUCKS.len() * rounds().min(20)) {
                    let dir = image_dir();
                    disk.image(dir.path(), names, luck, &mut dice);
                    let context =
                        Where::new(format!("after operation {i} ({}), {names:?}, {luck:?}", brief(op)));
                    (self.check)(dir.path(), &promises);
                    context.over();
                    images += 1;
                }
            }
        }
        println!("{} operations, {prefixes} prefixes, {images} images checked", self.ops.len());
        assert!(prefixes > 0);
    }
}

fn brief(op: &Op) -> String {
    match op {
        Op::Write { name, offset, bytes } => format!("write {name} at {offset}, {} bytes", bytes.len()),
        Op::Append { name, bytes } => format!("append {} bytes to {name}", bytes.len()),
        other => format!("{other:?}"),
    }
}

fn kept(dir: &Path, promises: &Promises) {
    check_kept(dir, default_pool(), promises);
}

fn promised(words: &[String], said: &str) -> Promises {
    let mut promises = Promises::default();
    promises.asked(words);
    promises.heard(said);
    promises
}

#[test]
fn power_lost_while_the_ledger_is_made_and_first_used() {
    let home = tempfile::tempdir().unwrap();
    let words = ops(&[
        "lease:a",
        "lease:b",
        "release:a",
        "join:nfs:m",
        "join:nfs:n",
        "release:m",
        "settle",
        "lease:c",
    ]);
    let promises = promised(&words, "");
    let recorded = record(home.path(), &words);
    Loss { start: Disk::default(), ops: recorded, promises, check: &kept }.sweep(|_, _| true);
}

/// The first process that opens a ledger of version 1 migrates it.
#[test]
fn power_lost_while_a_ledger_is_migrated_and_category_pairs_change_hands() {
    let home = tempfile::tempdir().unwrap();
    copy_dir(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/v1"), home.path());
    let start = Disk::holding(home.path());
    let words = ops(&["pair:a", "pair:b", "name:c:7:8", "unpair:b", "known:a,c", "labelled:pod", "unpair:c"]);
    let recorded = record(home.path(), &words);
    let check = |dir: &Path, promises: &Promises| {
        kept(dir, promises);
        let held = open_at(dir, default_pool()).list().unwrap();
        assert!(held.iter().any(|l| l.holder == Some(common::holder("pod-kept"))), "{held:?}");
    };
    Loss { start, ops: recorded, promises: promised(&words, ""), check: &check }.sweep(|_, _| true);
}

/// SQLite folds its log into the database once it has a hundred pages, and starts it over.
#[test]
fn power_lost_while_the_log_is_folded_in_and_started_over() {
    let home = tempfile::tempdir().unwrap();
    let said = act(home.path(), &ops(&["leases:old:100"]));
    let start = Disk::holding(home.path());
    let recorded = record(home.path(), &ops(&["leases:new:60"]));
    let folding = |op: &Op| matches!(op, Op::Write { name, .. } if name == "ledger.db");
    let first = recorded.iter().position(folding).expect("the log is folded in");
    let last = recorded.iter().rposition(folding).unwrap();
    let promises = promised(&[], &said);
    println!("folded in by operations {first} to {last} of {}", recorded.len());
    let loss = Loss { start, ops: recorded, promises, check: &kept };
    let near = first.saturating_sub(8)..=last + 25;
    loss.sweep(|i, op| near.contains(&i) && (rounds() > 1 || !folding(op) || i % 3 == 0) || i % 29 == 0);
}

/// Whoever looks into the database with SQLite's own program takes the log away; the next lease begins another.
#[test]
fn power_lost_while_a_log_is_begun_anew() {
    let home = tempfile::tempdir().unwrap();
    let said = act(home.path(), &ops(&["leases:old:3", "fold"]));
    assert!(!home.path().join("ledger.db-wal").exists());
    let start = Disk::holding(home.path());
    let recorded = record(home.path(), &ops(&["lease:new", "lease:newer"]));
    assert!(
        !recorded.iter().any(|op| matches!(op, Op::Rename(_, to) if to == "mark")),
        "it would sync names"
    );
    Loss { start, ops: recorded, promises: promised(&[], &said), check: &kept }.sweep(|_, _| true);
}

/// The first of them checkpoints the log and truncates it; the next begins another.
#[test]
fn power_lost_between_exclusive_changes() {
    let home = tempfile::tempdir().unwrap();
    let said = act(home.path(), &ops(&["lease:x"])) + &act_until_the_log_is_long(home.path());
    let start = Disk::holding(home.path());
    let words = ops(&["exclusive", "lease:a", "release:a", "lease:b", "release:x"]);
    let recorded = record(home.path(), &words);
    let folding = |op: &Op| matches!(op, Op::Write { name, .. } if name == "ledger.db");
    assert!(recorded.iter().any(folding), "the log is folded in");
    Loss { start, ops: recorded, promises: promised(&words, &said), check: &kept }.sweep(|_, _| true);
}

/// Somebody is killed before its change is on disk; who comes next finds it all the same, in memory, and answers by it.
#[test]
fn power_lost_after_somebody_was_killed() {
    let home = tempfile::tempdir().unwrap();
    let said = act(home.path(), &ops(&["leases:old:3"]));
    let mut disk = Disk::holding(home.path());
    let words = ops(&["exclusive", "lease:a"]);
    let whole = record(home.path(), &words);
    let is_log = |op: &Op| matches!(op, Op::Write { name, .. } if name == "ledger.db-wal");
    let written = whole.iter().rposition(is_log).expect("the change is written to the log");
    whole[..=written].iter().for_each(|op| disk.run(op));
    let left = tempfile::tempdir().unwrap();
    disk.image(left.path(), Names::AtOnce, Luck::Everything, &mut Dice::thrown("killed"));
    let recorded = record(left.path(), &words);
    Loss { start: disk, ops: recorded, promises: promised(&words, &said), check: &kept }.sweep(|_, _| true);
}

/// Past 64 blocks the high-water mark is raised.
#[test]
fn power_lost_while_the_mark_is_raised() {
    let home = tempfile::tempdir().unwrap();
    let said = act(home.path(), &ops(&["leases:old:62"]));
    let start = Disk::holding(home.path());
    let recorded = record(home.path(), &ops(&["leases:new:5"]));
    assert!(recorded.contains(&Op::Rename("mark.new".to_owned(), "mark".to_owned())));
    Loss { start, ops: recorded, promises: promised(&[], &said), check: &marked }.sweep(|_, _| true);
}

/// Were all but the mark lost as well, it still covers every lease that was acknowledged.
fn marked(dir: &Path, promises: &Promises) {
    let alone = image_dir();
    std::fs::copy(dir.join("mark"), alone.path().join("mark")).unwrap();
    kept(dir, promises);
    let pinned = open_at(alone.path(), default_pool()).list().unwrap();
    for (name, base) in &promises.leased {
        let id = ids::HostId::try_from(u64::from(*base)).unwrap();
        assert!(pinned.iter().any(|l| l.uids.span().contains(id)), "the mark is below the block of {name}");
    }
    assert!(
        pinned.iter().all(|l| u64::from(l.uids.last()) < 200 * common::UNIT),
        "the mark is lost: {pinned:?}"
    );
}

/// The copy is written anew once it has grown by 4096 changes.
#[test]
fn power_lost_while_the_copy_is_made_compact() {
    let home = tempfile::tempdir().unwrap();
    let said = act(home.path(), &ops(&["leases:old:20"]));
    let turn = ["lease:x", "release:x"].repeat(2035);
    let said = said + &act(home.path(), &ops(&turn));
    let start = Disk::holding(home.path());
    let words = ops(&["leases:new:15"]);
    let recorded = record(home.path(), &words);
    let compacted = recorded.iter().position(|op| matches!(op, Op::Rename(from, _) if from == "copies.new"));
    let compacted = compacted.expect("the copy is made compact");
    let promises = promised(&ops(&["release:x"]), &said);
    Loss { start, ops: recorded, promises, check: &kept }
        .sweep(|i, _| i.abs_diff(compacted) < 30 || i % 7 == 0);
}

/// A rebuild may be interrupted too, and once more; whoever comes next begins again.
#[test]
fn power_lost_while_a_damaged_ledger_is_rebuilt() {
    for holed in [false, true] {
        let home = tempfile::tempdir().unwrap();
        let said = act(home.path(), &ops(&["leases:old:12", "join:nfs:m", "fold"]));
        damage(&home.path().join("ledger.db"), 0);
        if holed {
            damage(&home.path().join("copies"), 400);
        }
        let start = Disk::holding(home.path());
        let recorded = record(home.path(), &ops(&["lease:new"]));
        assert!(recorded.iter().any(|op| matches!(op, Op::Rename(_, to) if to.contains(".damaged-"))));
        let held = held_or_pinned(holed);
        Loss { start, ops: recorded, promises: promised(&[], &said), check: &held }.sweep(|_, _| true);
    }
}

fn damage(path: &Path, at: usize) {
    let mut bytes = std::fs::read(path).unwrap();
    bytes[at..at + 8].fill(0x55);
    std::fs::write(path, bytes).unwrap();
}

/// Of a copy with a hole, the one lease whose line is lost may be pinned instead.
fn held_or_pinned(holed: bool) -> impl Fn(&Path, &Promises) {
    move |dir, promises| {
        let ledger = open_at(dir, default_pool());
        if !holed {
            check_promises(&ledger, promises);
        }
        let before = ledger.list().unwrap();
        let known = |name: &str| ledger.get(common::holder(name)).unwrap();
        let lost = promises.leased.iter().filter(|(name, base)| {
            let kept = known(name).is_some_and(|l| l.uids.base().get() == **base);
            let id = ids::HostId::try_from(u64::from(**base)).unwrap();
            assert!(before.iter().any(|l| l.uids.span().contains(id)), "the block of {name} is free");
            !kept
        });
        assert!(lost.count() <= usize::from(holed) * 2, "{before:?}");
        let probe = ledger.lease(ledger::LeaseRequest::new(common::holder("probe"))).unwrap();
        assert!(!before.iter().any(|l| overlaps(l, &probe)), "{probe:?}");
    }
}

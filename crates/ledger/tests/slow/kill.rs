//! Killed at system call N, N swept over a whole lease and release.
//!
//! A process that is killed leaves whatever its last system call left. The run is recorded once; then
//! it is repeated as often as it made system calls since it first touched the ledger, and killed at
//! the entry of another one each time. Whatever it had acknowledged until then must be there, the
//! ledger must open without taking the crash for damage, and the next lease must be nobody else's.

use crate::common;
use crate::crash;

use std::io::Read;
use std::path::Path;
use std::time::Duration;

use common::{copy_dir, default_pool, pool};
use crash::{
    Promises, act, act_until_the_log_is_long, check_kept, check_promises, open_at, ops, spawn_actor, traced,
};
use testkit::{Call, Dice, rounds};

fn record(before: &Path, words: &[String]) -> Vec<Call> {
    let home = tempfile::tempdir().unwrap();
    let (dir, log) = (home.path().join("state"), home.path().join("log"));
    copy_dir(before, &dir);
    let done = traced(&["-o", log.to_str().unwrap()], &dir, words).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    testkit::calls_since(&std::fs::read_to_string(&log).unwrap(), &dir)
}

struct Sweep {
    before: tempfile::TempDir,
    promises: Promises,
    words: Vec<String>,
    check: fn(&Path, &Promises),
}

impl Sweep {
    fn run(&self) -> usize {
        let calls = record(self.before.path(), &self.words);
        assert!(calls.len() > 50, "the recording shows too little: {calls:?}");
        let killed = calls.iter().filter(|call| self.kill_at(call)).count();
        println!("{} system calls, killed at {killed} of them: {:?}", calls.len(), self.words);
        // A call may come a little earlier or later than in the recording; most must hit.
        assert!(killed * 10 > calls.len() * 9, "only {killed} of {} calls killed anything", calls.len());
        killed
    }

    fn kill_at(&self, call: &Call) -> bool {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("state");
        copy_dir(self.before.path(), &dir);
        let done = traced(&call.kill(), &dir, &self.words).output().unwrap();
        let mut promises = self.promises.clone();
        promises.asked(&self.words);
        promises.heard(&String::from_utf8(done.stdout).unwrap());
        println!("killed at {call}: {}", !done.status.success());
        (self.check)(&dir, &promises);
        !done.status.success()
    }
}

fn kept(dir: &Path, promises: &Promises) {
    check_kept(dir, default_pool(), promises);
}

#[test]
fn killed_at_any_call_of_the_first_lease_ever() {
    let sweep = Sweep {
        before: tempfile::tempdir().unwrap(),
        promises: Promises::default(),
        words: ops(&["lease:a", "release:a"]),
        check: kept,
    };
    sweep.run();
}

#[test]
fn killed_at_any_call_of_a_lease_and_release_among_others() {
    let before = tempfile::tempdir().unwrap();
    let mut promises = Promises::default();
    promises.heard(&act(before.path(), &ops(&["leases:old:20", "join:nfs:m", "lease:x"])));
    let words = ops(&["lease:a", "release:a", "join:nfs:n", "release:x"]);
    Sweep { before, promises, words, check: kept }.run();
}

/// The log is so long that the first change truncates it.
#[test]
fn killed_at_any_call_of_exclusive_changes() {
    let before = tempfile::tempdir().unwrap();
    let mut promises = Promises::default();
    promises.heard(&act(before.path(), &ops(&["lease:x"])));
    promises.heard(&act_until_the_log_is_long(before.path()));
    let words = ops(&["exclusive", "lease:a", "release:a", "release:x", "lease:b"]);
    Sweep { before, promises, words, check: kept }.run();
}

#[test]
fn killed_at_any_call_while_category_pairs_change_hands() {
    let before = tempfile::tempdir().unwrap();
    let mut promises = Promises::default();
    let words = ops(&["pairs:old:20", "name:named:7:8", "labelled:pod", "pair:x", "pair:gone"]);
    promises.heard(&act(before.path(), &words));
    // The runtime was killed after `gone` was removed and before it gave its pair back.
    promises.unpairing.insert("gone".to_owned());
    let known: Vec<String> = (0..20).map(|i| format!("old-{i}")).collect();
    let known = format!("known:named,x,a,{}", known.join(","));
    let words = ops(&["pair:a", "name:b:7:8", "unpair:b", "unpair:x", "pair:x", &known]);
    // `x` is given back and taken again: whatever was acknowledged last counts.
    Sweep { before, promises, words, check: pairs_kept }.run();
}

fn pairs_kept(dir: &Path, promises: &Promises) {
    let mut promises = promises.clone();
    promises.unpaired.remove("x");
    check_kept(dir, default_pool(), &promises);
}

/// A ledger of the first version gets the table of pairs from the first process that opens it.
#[test]
fn killed_at_any_call_of_a_migration() {
    let before = tempfile::tempdir().unwrap();
    copy_dir(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/v1"), before.path());
    let words = ops(&["pair:a", "unpair:a", "pair:b"]);
    Sweep {
        before,
        promises: Promises::default(),
        words,
        check: |dir, promises| {
            check_kept(dir, pool(1, 16), promises);
            let held: Vec<_> = open_at(dir, pool(1, 16)).list().unwrap();
            let names: Vec<_> = held.iter().filter_map(|l| l.holder.as_ref().map(|h| h.as_str())).collect();
            for name in ["pod-kept", "pod-labelled", "nfs", "pod-resting", "pod-draining"] {
                assert!(names.contains(&name), "{name} is gone: {names:?}");
            }
        },
    }
    .run();
}

/// Whoever comes after a rebuild that was killed begins it again, from the same copy.
#[test]
fn killed_at_any_call_of_a_rebuild() {
    let before = tempfile::tempdir().unwrap();
    let mut promises = Promises::default();
    promises.heard(&act(before.path(), &ops(&["leases:old:20", "pairs:box:5", "join:nfs:m", "fold"])));
    std::fs::write(before.path().join("ledger.db"), b"rubbish").unwrap();
    let words = ops(&["lease:a"]);
    Sweep {
        before,
        promises,
        words,
        check: |dir, promises| {
            let ledger = open_at(dir, default_pool());
            check_promises(&ledger, promises);
            let aside = |name: &str| name.starts_with("ledger.db.damaged-");
            let names =
                std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
            assert_eq!(names.filter(|n| aside(n)).count(), 1, "the damaged file is kept, once");
        },
    }
    .run();
}

#[test]
fn killed_at_random_times_while_four_work_at_once() {
    let mut dice = Dice::thrown("kills");
    for round in 0..10 * rounds() {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("state");
        let mut promises = Promises::default();
        let words = |n: usize| -> Vec<String> {
            (0..40)
                .flat_map(|i| {
                    [
                        format!("lease:p{n}-{i}"),
                        format!("pair:box{n}-{i}"),
                        format!("lease:gone{n}-{i}"),
                        format!("release:gone{n}-{i}"),
                    ]
                })
                .collect()
        };
        let mut actors: Vec<_> = (0..4).map(|n| spawn_actor(&dir, &words(n))).collect();
        (0..4).for_each(|n| promises.asked(&words(n)));
        for actor in &mut actors {
            std::thread::sleep(Duration::from_millis(dice.number() % 60));
            actor.kill().unwrap();
        }
        for mut actor in actors {
            let mut said = String::new();
            actor.stdout.take().unwrap().read_to_string(&mut said).unwrap();
            actor.wait().unwrap();
            promises.heard(&said);
        }
        println!("round {round}: {} leases acknowledged before the end", promises.leased.len());
        check_kept(&dir, pool(1, 1000), &promises);
    }
}

//! Many at once: no lost and no double lease, whoever asks, and nobody waits for ever.
//!
//! Agents that live long, hundreds of commands that live for one lease, and threads that share a
//! commit all use one ledger. `WARDLET_ROUNDS` of 10 and more makes it 64 processes of 200 leases
//! each instead of 16 of 50.

use crate::common;
use crate::crash;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::process::Child;
use std::time::{Duration, Instant};

use common::{default_pool, holder, lease};
use crash::{Promises, act, check_disjoint, check_promises, open_at, ops, options_at, spawn_actor, traced};
use ledger::{Ledger, LedgerError};

fn crowd() -> (usize, usize) {
    if testkit::rounds() >= 10 { (64, 200) } else { (16, 50) }
}

fn hear_all(actors: Vec<Child>, promises: &mut Promises) {
    for actor in actors {
        let done = actor.wait_with_output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        promises.heard(&String::from_utf8(done.stdout).unwrap());
    }
}

#[test]
fn leases_of_many_processes_are_all_distinct_and_all_there() {
    let home = tempfile::tempdir().unwrap();
    let (processes, each) = crowd();
    let began = Instant::now();
    let words = |n: usize| ops(&[&format!("leases:p{n}:{each}")]);
    let actors = (0..processes).map(|n| spawn_actor(home.path(), &words(n))).collect();
    let mut promises = Promises::default();
    hear_all(actors, &mut promises);
    println!("{processes} processes with {each} leases each: {:?}", began.elapsed());
    let blocks: BTreeSet<u32> = promises.leased.values().copied().collect();
    assert_eq!(blocks.len(), processes * each, "a block was given twice");
    let ledger = open_at(home.path(), default_pool());
    assert_eq!(ledger.list().unwrap().len(), processes * each);
    assert_eq!(ledger.take_notices(), Vec::<String>::new());
    check_promises(&ledger, &promises);
}

#[test]
fn processes_that_lease_release_and_settle_at_once_never_share_a_block() {
    let home = tempfile::tempdir().unwrap();
    let (processes, each) = crowd();
    let words = |n: usize| -> Vec<String> {
        let one = |i: usize| {
            let (kept, gone) = (format!("kept-{n}-{i}"), format!("gone-{n}-{i}"));
            let joiner = format!("join:shared-{}:member-{n}-{i}", i % 3);
            [
                format!("lease:{kept}"),
                format!("lease:{gone}"),
                joiner,
                format!("release:{gone}"),
                "settle".to_owned(),
            ]
        };
        (0..each / 5).flat_map(one).collect()
    };
    let mut promises = Promises::default();
    (0..processes).for_each(|n| promises.asked(&words(n)));
    let actors = (0..processes).map(|n| spawn_actor(home.path(), &words(n))).collect();
    hear_all(actors, &mut promises);
    let ledger = open_at(home.path(), default_pool());
    check_promises(&ledger, &promises);
    let kept = ledger.list().unwrap().iter().filter(|l| l.state == ids::allocator::State::Leased).count();
    assert_eq!(kept, processes * (each / 5) + 3);
}

#[test]
fn hundreds_of_short_commands_go_beside_an_agent() {
    let home = tempfile::tempdir().unwrap();
    let agent = open_at(home.path(), default_pool());
    let commands = 200 * testkit::rounds().min(10);
    let mut promises = Promises::default();
    for batch in 0..commands / 4 {
        let actors =
            (0..4).map(|n| spawn_actor(home.path(), &ops(&[&format!("lease:c{batch}-{n}")]))).collect();
        let ours = lease(&agent, &format!("agent-{batch}"));
        promises.leased.insert(format!("agent-{batch}"), ours.uids.base().get());
        hear_all(actors, &mut promises);
    }
    assert_eq!(agent.list().unwrap().len(), commands / 4 * 5);
    check_promises(&agent, &promises);
    check_promises(&open_at(home.path(), default_pool()), &promises);
    check_disjoint(&agent.list().unwrap());
    assert_eq!(agent.take_notices(), Vec::<String>::new());
}

#[test]
fn threads_of_one_process_share_commits() {
    let home = tempfile::tempdir().unwrap();
    let log = tempfile::NamedTempFile::new().unwrap();
    let options = ["-e", "trace=fsync,fdatasync", "-o", log.path().to_str().unwrap()];
    let done = traced(&options, home.path(), &ops(&["threads:16:50"])).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let mut promises = Promises::default();
    promises.heard(&String::from_utf8(done.stdout).unwrap());
    let trace = std::fs::read_to_string(log.path()).unwrap();
    let syncs = trace.lines().filter(|l| l.contains("sync(")).count();
    println!("{} leases of 16 threads took {syncs} syncs", promises.leased.len());
    assert_eq!(promises.leased.values().collect::<BTreeSet<_>>().len(), 800);
    assert!(syncs < 800 / 2, "{syncs} syncs for 800 leases");
    check_promises(&open_at(home.path(), default_pool()), &promises);
}

#[test]
fn who_finds_the_ledger_locked_for_ever_is_told_by_whom() {
    let home = tempfile::tempdir().unwrap();
    act(home.path(), &ops(&["lease:a"]));
    let open = open_at(home.path(), default_pool());
    let mut other = spawn_actor(home.path(), &ops(&["clutch"]));
    let mut said = String::new();
    BufReader::new(other.stdout.as_mut().unwrap()).read_line(&mut said).unwrap();
    assert_eq!(said, "ack clutch\n");
    let mut options = options_at(home.path(), default_pool());
    options.patience = Duration::from_secs(1);
    let began = Instant::now();
    let stuck = Ledger::open(options).err().expect("the ledger is locked");
    let waited = began.elapsed();
    let LedgerError::Stuck { by: Some(by), .. } = &stuck else { panic!("{stuck}") };
    assert!(by.starts_with(&format!("process {} (actor)", other.id())), "{by}");
    assert!((1..5).contains(&waited.as_secs()), "waited {waited:?}");
    drop(other.stdin.take());
    assert!(other.wait().unwrap().success());
    lease(&open, "b");
    assert_eq!(open.get(holder("a")).unwrap().unwrap().holder, Some(holder("a")));
}

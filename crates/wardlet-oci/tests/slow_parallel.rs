//! Many clients at once, with our program, the runtime and the shims killed at random: no leak, no overlap, no
//! lost lease.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod support;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use rustix::process::Signal;
use support::cri::Cri;
use support::pods::Pod;
use support::trail::Trail;
use support::{Node, proc, until};
use testbed::{Containerd, ProcessId};

/// At the same time.
const CLIENTS: usize = 16;

/// Sandboxes made and removed in all.
fn rounds() -> usize {
    let named = std::env::var("WARDLET_ROUNDS").ok().and_then(|rounds| rounds.parse().ok());
    named.unwrap_or(10).clamp(10, 1_000)
}

fn seed() -> u64 {
    let named = std::env::var("WARDLET_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = named.unwrap_or_else(|| u64::from(std::process::id()) + 1);
    println!("WARDLET_SEED={seed}");
    seed
}

/// Marsaglia's xorshift: repeatable, and random enough to choose whom to kill.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// The blocks of the pods that run now, by their sandboxes.
type Blocks = Arc<Mutex<BTreeMap<u64, String>>>;

/// Whose lives are at risk: our program, the runtime that it has become or started, and the shims, of this
/// testbed alone.
fn victims(programs: &[String], testbed: &str) -> Vec<i32> {
    let at_risk = |pid: &i32| {
        let program = proc::program(*pid);
        programs.iter().any(|one| program.ends_with(one)) && proc::words(*pid).contains(testbed)
    };
    let pids = std::fs::read_dir("/proc").unwrap().flatten();
    pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(at_risk).collect()
}

/// Makes one sandbox after the other. A pod that came to life has a block that nobody else has.
fn client(cri: &Cri, pods: &[Pod], blocks: &Blocks, made: &AtomicUsize) {
    for pod in pods {
        let Ok(sandbox) = cri.run_sandbox(pod) else { continue };
        if let Some(block) = own_block(cri, &sandbox) {
            let other = blocks.lock().unwrap().insert(block, sandbox.clone());
            assert_eq!(other, None, "{block} has two pods: {sandbox} and another");
            made.fetch_add(1, Ordering::Relaxed);
            thread::sleep(Duration::from_millis(50));
            blocks.lock().unwrap().remove(&block);
        }
        let _ = cri.remove_sandbox(&sandbox);
    }
}

/// Its shim may have been killed since: then it has none.
fn own_block(cri: &Cri, sandbox: &str) -> Option<u64> {
    let (_, info) = cri.sandbox_status(sandbox).ok()?;
    let map = std::fs::read_to_string(format!("/proc/{}/uid_map", info["pid"].as_i64()?)).ok()?;
    let numbers: Vec<u64> = map.split_whitespace().map(|number| number.parse().unwrap()).collect();
    assert_ne!(numbers.get(1), Some(&0), "an annotated pod with the host's users: {map}");
    numbers.get(1).copied()
}

fn storm(containerd: Containerd) {
    let node = Node::start(containerd);
    let before = Trail::of(&node);
    let (rounds, mut dice) = (rounds(), Dice(seed()));
    let (blocks, made, over) = (Blocks::default(), AtomicUsize::new(0), AtomicBool::new(false));
    let pods = |of: usize| -> Vec<Pod> {
        let names = (0..rounds).filter(|round| round % CLIENTS == of);
        names.map(|round| Pod::annotated(&node, &format!("storm-{round}"))).collect()
    };
    let programs = ["/wardlet-oci", "/runc", "/containerd-shim-runc-v2"].map(str::to_owned);
    // The bundle, the log and the socket in their words are the testbed's own.
    let testbed = format!("{}/", node.testbed.record().places.run.display());
    let killed = thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS.min(rounds))
            .map(|of| {
                let (pods, blocks, made, cri) = (pods(of), blocks.clone(), &made, Cri::of(&node.testbed));
                scope.spawn(move || client(&cri, &pods, &blocks, made))
            })
            .collect();
        let killer = scope.spawn(|| {
            let mut killed = 0;
            while !over.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_millis(dice.below(60)));
                let at_risk = victims(&programs, &testbed);
                if at_risk.is_empty() || dice.below(3) != 0 {
                    continue;
                }
                let index = usize::try_from(dice.below(at_risk.len() as u64)).unwrap();
                killed +=
                    usize::from(ProcessId::of(at_risk[index]).is_some_and(|one| one.signal(Signal::KILL)));
            }
            killed
        });
        let ends: Vec<_> = clients.into_iter().map(thread::ScopedJoinHandle::join).collect();
        over.store(true, Ordering::Relaxed);
        for end in ends {
            end.expect("a client");
        }
        killer.join().expect("the killer")
    });
    println!(
        "{rounds} sandboxes, {} of them came to life, {killed} processes were killed",
        made.into_inner()
    );
    assert_ne!(killed, 0, "nobody was killed");
    calm(&node, &before);
}

/// After the storm: what can be removed is, and the ledger's own rules do the rest.
fn calm(node: &Node, before: &Trail) {
    until("all sandboxes are removed", || {
        let left = node.cri.sandboxes().ok()?;
        let gone = left.iter().filter(|sandbox| node.cri.remove_sandbox(&sandbox.id).is_ok()).count();
        (gone == left.len()).then_some(())
    });
    let pod = Pod::annotated(node, "afterwards");
    let sandbox = node.cri.run_sandbox(&pod).expect("a pod after the storm");
    assert!(node.leased().contains(&proc::block(node.cri.sandbox_pid(&sandbox)).0), "a lost lease");
    node.cri.remove_sandbox(&sandbox).expect("removed");
    let swept = node.wardlet(&["ids", "gc"]).output().unwrap();
    assert!(swept.status.success(), "{}", support::text(&swept));
    before.ends_with_nothing(node, &[]);
}

#[test]
fn sandboxes_of_the_new_pair_in_a_storm_of_kills_leave_no_lease_and_share_no_block() {
    storm(Containerd::Pinned);
}

#[test]
fn sandboxes_of_the_old_pair_in_a_storm_of_kills_leave_no_lease_and_share_no_block() {
    storm(Containerd::Debian);
}

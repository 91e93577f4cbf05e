//! Many clients at once, with our program, the runtime and the shims killed at random: no leak, no overlap, no
//! lost lease.

use crate::support;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rustix::process::Signal;
use support::cri::Cri;
use support::pods::Pod;
use support::{Node, proc, wait_for};
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
type Blocks = Mutex<BTreeMap<u64, String>>;

const PROGRAMS: [&[&str]; 2] = [&["/containerd-shim-runc-v2"], &["/wardlet-oci", "/runc"]];

/// Whose lives are at risk: our program, the runtime that it has become or started, and the shims, of this
/// testbed alone.
fn victims(testbed: &str, programs: &[&str]) -> Vec<i32> {
    let at_risk = |pid: &i32| {
        let program = proc::program(*pid);
        programs.iter().any(|one| program.ends_with(one)) && proc::words(*pid).contains(testbed)
    };
    let pids = std::fs::read_dir("/proc").unwrap().flatten();
    pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(at_risk).collect()
}

/// Makes one sandbox after the other, each until it comes to life, as a kubelet does. Answers how many attempts
/// it took.
fn client(node: &Node, pods: Vec<Pod>, blocks: &Blocks) -> usize {
    let cri = Cri::of(&node.testbed);
    let mut attempts = 0;
    for mut pod in pods {
        let began = std::time::Instant::now();
        while !lived(node, &cri, &pod, blocks) {
            assert!(began.elapsed() < support::PATIENCE, "it never came to life: {:?}", pod.config.metadata);
            pod.config.metadata.as_mut().unwrap().attempt += 1;
            attempts += 1;
        }
        attempts += 1;
    }
    attempts
}

/// Whether the pod came to life: then its block was in the ledger, and nobody else's.
fn lived(node: &Node, cri: &Cri, pod: &Pod, blocks: &Blocks) -> bool {
    let Ok(sandbox) = cri.run_sandbox(pod) else { return false };
    let found = own_block(cri, &sandbox);
    if let Some((pid, block)) = found {
        let other = blocks.lock().unwrap().insert(block, sandbox.clone());
        let leased = node.leased().contains(&block);
        let alive = ProcessId::of(pid).is_some() && own_block(cri, &sandbox) == found;
        // Its shim may have been killed while we looked, and the block given back.
        if alive {
            assert_eq!(other, None, "{block} has two pods: {sandbox} and another");
            assert!(leased, "{block} of {sandbox} is not in the ledger");
        }
        blocks.lock().unwrap().remove(&block);
    }
    let _ = cri.remove_sandbox(&sandbox);
    found.is_some()
}

/// The sandbox's first process and its block. Its shim may have been killed since: then it has none.
fn own_block(cri: &Cri, sandbox: &str) -> Option<(i32, u64)> {
    let (_, info) = cri.sandbox_status(sandbox).ok()?;
    let pid = i32::try_from(info["pid"].as_i64()?).ok().filter(|pid| *pid > 0)?;
    let map = std::fs::read_to_string(format!("/proc/{pid}/uid_map")).ok()?;
    let numbers: Vec<u64> = map.split_whitespace().map(|number| number.parse().unwrap()).collect();
    assert_ne!(numbers.get(1), Some(&0), "an annotated pod with the host's users: {map}");
    Some((pid, *numbers.get(1)?))
}

/// Kills one now and then until it is over, but not so many that nobody ever lives. Answers how many.
fn killer(node: &Node, over: &AtomicBool) -> usize {
    let mut dice = Dice(seed());
    // The bundle, the log and the socket in their words are the testbed's own.
    let testbed = format!("{}/", node.testbed.record().places.run.display());
    let mut killed = 0;
    while !over.load(Ordering::Relaxed) && killed < 2 * rounds() {
        thread::sleep(Duration::from_millis(dice.below(100)));
        // Shims live long and the others do not: each kind has its turn.
        let at_risk = victims(&testbed, PROGRAMS[usize::from(dice.below(4) != 0)]);
        if at_risk.is_empty() {
            continue;
        }
        let index = usize::try_from(dice.below(at_risk.len() as u64)).unwrap();
        killed += usize::from(ProcessId::of(at_risk[index]).is_some_and(|one| one.signal(Signal::KILL)));
    }
    killed
}

fn storm(containerd: Containerd) {
    let node = Node::start(containerd);
    let rounds = rounds();
    let (blocks, over) = (Blocks::default(), AtomicBool::new(false));
    let pods = |of: usize| -> Vec<Pod> {
        let names = (0..rounds).filter(|round| round % CLIENTS == of);
        names.map(|round| Pod::annotated(&node, &format!("storm-{round}"))).collect()
    };
    let (attempts, killed) = thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS.min(rounds))
            .map(|of| (pods(of), &node, &blocks))
            .map(|(pods, node, blocks)| scope.spawn(move || client(node, pods, blocks)))
            .collect();
        let killer = scope.spawn(|| killer(&node, &over));
        let ends: Vec<_> = clients.into_iter().map(thread::ScopedJoinHandle::join).collect();
        over.store(true, Ordering::Relaxed);
        let attempts: usize = ends.into_iter().map(|end| end.expect("a client")).sum();
        (attempts, killer.join().expect("the killer"))
    });
    println!("{rounds} sandboxes came to life in {attempts} attempts, {killed} processes were killed");
    assert_ne!(killed, 0, "nobody was killed");
    calm(&node);
}

/// After the storm: pods are removed, and the next one that comes and goes tidies up after those that were killed.
/// A lease whose processes still live is rightly held: containerd has lost them, and nobody else may have their IDs.
fn calm(node: &Node) {
    wait_for("all sandboxes are removed", || {
        let left = node.cri.sandboxes().ok()?;
        let gone = left.iter().filter(|sandbox| node.cri.remove_sandbox(&sandbox.id).is_ok()).count();
        (gone == left.len()).then_some(())
    });
    let pod = Pod::annotated(node, "afterwards");
    wait_for("no lease and no record is left", || {
        // Each time: a runtime outlives its wrapper, and may only now come to make a process.
        for block in node.leased() {
            for orphan in proc::pids_in(block).into_iter().filter_map(ProcessId::of) {
                println!("{block} is held by the lost process {}", orphan.pid);
                orphan.signal(Signal::KILL);
            }
        }
        let sandbox = node.cri.run_sandbox(&pod).expect("a pod after the storm");
        let own = proc::block(node.cri.sandbox_pid(&sandbox)).0;
        assert!(node.leased().contains(&own), "a lost lease");
        node.cri.remove_sandbox(&sandbox).expect("removed");
        let records = node.said("find", &["/run/wardlet-oci/containers", "-type", "f"]);
        let leased = node.leased();
        if !leased.is_empty() || !records.is_empty() {
            println!("left: leases of {leased:?}, records {records:?}");
        }
        (leased.is_empty() && records.is_empty()).then_some(())
    });
}

#[test]
fn sandboxes_of_the_new_pair_in_a_storm_of_kills_leave_no_lease_and_share_no_block() {
    storm(Containerd::Pinned);
}

#[test]
fn sandboxes_of_the_old_pair_in_a_storm_of_kills_leave_no_lease_and_share_no_block() {
    storm(Containerd::Debian);
}

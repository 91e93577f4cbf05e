//! The memory of an idle monitor with one container.

use crate::support;

use std::path::{Path, PathBuf};
use std::process::Command;

use support::*;

/// The most kibibytes that are a monitor's own.
const MOST_OWN: u64 = 320;
/// The most kibibytes of one monitor of ten, with its part of what they share. The part of a single monitor is not
/// limited: it would be all of the program that happens to be in the page cache, and of the libraries what no other
/// process of the host uses.
const MOST_AMONG_TEN: u64 = 512;

/// A line of `/proc/<pid>/smaps_rollup`, in kibibytes.
fn memory(pid: u32, name: &str) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// A container that has run for a while, has written much, and writes nothing now.
fn idle(pod: &Pod) {
    let mut client = pod.spawn();
    pod.start(
        &mut client,
        "one",
        "head -c 3000000 /dev/zero | tr '\\0' x | fold; echo; echo quiet; sleep 1000",
    );
    wait_until("it is quiet", || {
        pod.log("one").exists() && pod.lines("one").last().is_some_and(|line| line.ends_with("quiet"))
    });
    list(&mut client);
}

/// Waits until the monitor takes no more than this.
fn comes_down_to(pod: &Pod, name: &str, most: u64) -> u64 {
    let pid = pod.monitor().pid;
    wait_until(&format!("{name}: {} KiB come down to {most}", memory(pid, name)), || {
        memory(pid, name) <= most
    });
    memory(pid, name)
}

/// The program as it is shipped.
fn released() -> PathBuf {
    let here = std::env::current_exe().unwrap();
    let target = here.ancestors().nth(3).unwrap();
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| env!("CARGO").to_owned());
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let words = ["build", "-q", "--release", "--bin", "wardlet-monitor", "--manifest-path", manifest];
    let target_dir = ["--target-dir", target.to_str().unwrap()];
    assert!(Command::new(cargo).args(words).args(target_dir).status().unwrap().success());
    let path: &Path = &target.join("release/wardlet-monitor");
    path.to_owned()
}

#[test]
fn an_idle_monitor_has_little_memory_of_its_own_and_shares_the_rest_with_others() {
    let shipped = released();
    let launched = || {
        let mut pod = Pod::new();
        pod.launch.program.clone_from(&shipped);
        idle(&pod);
        pod
    };
    let all: Vec<Pod> = (0..10).map(|_| launched()).collect();
    let most = |name, limit| all.iter().map(|pod| comes_down_to(pod, name, limit)).max();
    println!("as shipped, its own: {:?} KiB", most("Anonymous", MOST_OWN));
    println!("as shipped, one of ten: {:?} KiB", most("Pss", MOST_AMONG_TEN));
}

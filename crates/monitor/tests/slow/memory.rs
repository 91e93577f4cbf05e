//! The memory of an idle monitor with one container.

use crate::support;

use std::path::{Path, PathBuf};
use std::process::Command;

use support::*;

/// Kibibytes.
const MOST: u64 = 1024;

/// Kibibytes of memory that are this process's own, and its part of what it shares with others.
fn pss(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:")).unwrap();
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
fn comes_down_to(pod: &Pod, most: u64) -> u64 {
    let pid = pod.monitor().pid;
    wait_until(&format!("{} KiB come down to {most}", pss(pid)), || pss(pid) <= most);
    pss(pid)
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
fn an_idle_monitor_costs_at_most_a_mebibyte_alone_and_less_among_others() {
    let shipped = released();
    let launched = || {
        let mut pod = Pod::new();
        pod.launch.program.clone_from(&shipped);
        idle(&pod);
        pod
    };
    let first = launched();
    println!("as shipped, alone: {} KiB", comes_down_to(&first, MOST));
    let others: Vec<Pod> = (0..9).map(|_| launched()).collect();
    let all: u64 = others.iter().chain([&first]).map(|pod| comes_down_to(pod, MOST)).sum();
    println!("as shipped, one of ten: {} KiB", all / 10);
}

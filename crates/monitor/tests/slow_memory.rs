//! What an idle monitor with one container costs. Most of one that is alone is the program itself, which all
//! of a node share.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]
#![allow(clippy::wildcard_imports)]

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;

use support::*;

/// Kibibytes of memory that are this process's own, and its part of what it shares with others.
fn pss(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// As it is when a container has run for a while, has written much, and writes nothing now.
fn idle(pod: &Pod) -> u64 {
    let mut client = pod.spawn();
    pod.start(
        &mut client,
        "one",
        "head -c 3000000 /dev/zero | tr '\\0' x | fold; echo; echo quiet; sleep 1000",
    );
    soon("it is quiet", || {
        pod.log("one").exists() && pod.lines("one").last().is_some_and(|line| line.ends_with("quiet"))
    });
    list(&mut client);
    pss(pod.monitor().pid)
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
fn one_of_ten_idle_monitors_costs_at_most_half_a_mebibyte() {
    let plain = idle(&Pod::new());
    println!("not optimised, alone: {plain} KiB");
    assert!(plain < 4096, "{plain} KiB");
    let mut pod = Pod::new();
    pod.launch.program = released();
    let first = idle(&pod);
    println!("as shipped, alone: {first} KiB");
    let others: Vec<Pod> = (0..9)
        .map(|_| {
            let mut pod = Pod::new();
            pod.launch.program = released();
            idle(&pod);
            pod
        })
        .collect();
    let all: u64 = others.iter().map(|pod| pss(pod.monitor().pid)).sum::<u64>() + pss(pod.monitor().pid);
    println!("as shipped, one of ten: {} KiB", all / 10);
    assert!(all / 10 <= 512, "{} KiB", all / 10);
}

//! A dump of any size is checked in bounded memory: what is kept grows with the objects that say something,
//! not with the bytes that they come in. `WARDLET_ROUNDS=32` makes it a dump of one gigabyte.

use crate::support;

use std::io::{Read, Write};
use std::process::{Child, Stdio};

use serde_json::{Value, json};
use support::Host;

const PODS: usize = 1000;
const MEGABYTE: usize = 1 << 20;

fn rounds() -> usize {
    std::env::var("WARDLET_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(1).clamp(1, 32)
}

fn pod(number: usize, filler: &str) -> Value {
    let name = format!("p{number:04}");
    let spec = json!({"containers": [{"name": "c", "image": "i"}]});
    json!({"apiVersion": "v1", "kind": "Pod", "spec": spec, "metadata":
        {"name": name, "namespace": "shop", "uid": name, "annotations": {"filler": filler}}})
}

/// What the process has had of the machine at most so far.
fn peak(child: &Child) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() * 1024
}

/// Checks a dump of so many bytes from standard input: its answer, and its memory before the dump ends.
fn checked(bytes: usize) -> (Value, usize) {
    let host = Host::new();
    let mut command = host.command("check - -o json");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let filler = "x".repeat(bytes / PODS);
    stdin.write_all(b"{\"apiVersion\": \"v1\", \"kind\": \"List\", \"items\": [\n").unwrap();
    for number in 0..PODS {
        let comma = if number == 0 { "" } else { ",\n" };
        stdin.write_all(format!("{comma}{}", pod(number, &filler)).as_bytes()).unwrap();
    }
    let peak = peak(&child);
    stdin.write_all(b"]}\n").unwrap();
    drop(stdin);
    let mut answer = String::new();
    child.stdout.take().unwrap().read_to_string(&mut answer).unwrap();
    assert!(child.wait().unwrap().success());
    (serde_json::from_str(&answer).unwrap(), peak)
}

#[test]
fn memory_does_not_grow_with_the_bytes_of_a_dump() {
    let (small, few) = checked(8 * MEGABYTE);
    let (large, many) = checked(32 * MEGABYTE * rounds());
    println!("8 MB: {few} bytes, {} MB: {many} bytes", 32 * rounds());
    assert_eq!(small["workloads"].as_array().unwrap().len(), PODS);
    assert_eq!((&small["summary"], &small["problems"]), (&large["summary"], &large["problems"]));
    // One object at a time, a few copies of it while it is read.
    let object = 32 * MEGABYTE * rounds() / PODS;
    assert!(many < few + 8 * MEGABYTE + 8 * object, "{many} after {few}");
}

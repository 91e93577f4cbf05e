//! Our default profile beside containerd's own: whatever ours allows, theirs allows.
//!
//! Theirs is printed by `testbed/peers/seccomp-default`, a program linked with containerd's package.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use container::capabilities::{self, RequestedCapabilities, Sets};
use container::seccomp::runtime_default;
use serde_json::Value;

const ADDED: &[&str] = &[
    "AUDIT_CONTROL",
    "AUDIT_READ",
    "BLOCK_SUSPEND",
    "BPF",
    "CHECKPOINT_RESTORE",
    "DAC_READ_SEARCH",
    "IPC_LOCK",
    "IPC_OWNER",
    "LEASE",
    "LINUX_IMMUTABLE",
    "MAC_ADMIN",
    "MAC_OVERRIDE",
    "NET_ADMIN",
    "NET_BROADCAST",
    "PERFMON",
    "SYSLOG",
    "SYS_ADMIN",
    "SYS_BOOT",
    "SYS_MODULE",
    "SYS_NICE",
    "SYS_PACCT",
    "SYS_PTRACE",
    "SYS_RAWIO",
    "SYS_RESOURCE",
    "SYS_TIME",
    "SYS_TTY_CONFIG",
    "WAKE_ALARM",
    "ALL",
];

fn build(dir: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testbed/peers/seccomp-default");
    let program = dir.join("seccomp-default");
    let built = Command::new("go")
        .args(["build", "-mod=readonly", "-buildvcs=false", "-trimpath", "-o"])
        .arg(&program)
        .arg(".")
        .env("GOTOOLCHAIN", "local")
        .current_dir(&source)
        .status();
    let built =
        built.unwrap_or_else(|error| panic!("this test needs Go, to build containerd's side: {error}"));
    assert!(built.success());
    program
}

/// containerd's profile for each of these.
fn theirs(all: &[Sets]) -> Vec<Value> {
    let dir = tempfile::tempdir().unwrap();
    let mut program =
        Command::new(build(dir.path())).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let asked: String = all.iter().map(|sets| sets.bounding.join(" ") + "\n").collect();
    program.stdin.take().unwrap().write_all(asked.as_bytes()).unwrap();
    let out = program.wait_with_output().unwrap();
    assert!(out.status.success());
    let profiles: Vec<Value> =
        String::from_utf8(out.stdout).unwrap().lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!(profiles.len(), all.len());
    profiles
}

fn names(profile: &Value) -> BTreeSet<String> {
    let rules = profile["syscalls"].as_array().unwrap();
    let of = |rule: &Value| rule["names"].as_array().unwrap().clone();
    rules.iter().flat_map(of).map(|name| name.as_str().unwrap().to_owned()).collect()
}

fn holds(argument: &Value, given: u64) -> bool {
    assert!(matches!(argument["index"].as_u64(), Some(0)), "no rule looks at another argument");
    let value = argument["value"].as_u64().unwrap();
    match argument["op"].as_str().unwrap() {
        "SCMP_CMP_EQ" => given == value,
        "SCMP_CMP_NE" => given != value,
        "SCMP_CMP_LT" => given < value,
        "SCMP_CMP_LE" => given <= value,
        "SCMP_CMP_GT" => given > value,
        "SCMP_CMP_GE" => given >= value,
        "SCMP_CMP_MASKED_EQ" => given & value == argument["valueTwo"].as_u64().unwrap_or(0),
        other => panic!("unknown comparison {other}"),
    }
}

/// The rules that may let a call through, each as its arguments.
fn allowing(profile: &Value, name: &str) -> Vec<Vec<Value>> {
    assert_eq!(profile["defaultAction"], "SCMP_ACT_ERRNO");
    let named = |rule: &&Value| {
        rule["action"] == "SCMP_ACT_ALLOW" && rule["names"].as_array().unwrap().iter().any(|n| n == name)
    };
    let arguments = |rule: &Value| rule["args"].as_array().cloned().unwrap_or_default();
    profile["syscalls"].as_array().unwrap().iter().filter(named).map(arguments).collect()
}

/// Whether one of the rules holds for a call whose first argument is this.
fn allows(rules: &[Vec<Value>], first: u64) -> bool {
    rules.iter().any(|arguments| arguments.iter().all(|argument| holds(argument, first)))
}

/// Values that any rule of either profile tells apart: each that is named with its neighbours, each bit,
/// each pair of bits, and small numbers.
fn arguments(profiles: [&Value; 2]) -> BTreeSet<u64> {
    let bits = || (0..64).map(|bit| 1_u64 << bit);
    let mut all: BTreeSet<u64> = (0..512).chain([u64::MAX, u64::from(u32::MAX)]).chain(bits()).collect();
    all.extend(bits().flat_map(|one| bits().map(move |other| one | other)));
    for rule in profiles.iter().flat_map(|profile| profile["syscalls"].as_array().unwrap()) {
        for argument in rule["args"].as_array().into_iter().flatten() {
            let value = argument["value"].as_u64().unwrap();
            all.extend([value.wrapping_sub(1), value, value.wrapping_add(1), !value]);
            all.extend(bits().map(|bit| value ^ bit));
        }
    }
    all
}

#[test]
fn what_ours_allows_containerds_default_allows_call_by_call() {
    let add =
        |name: &str| RequestedCapabilities { add: vec![name.to_owned()], ..RequestedCapabilities::default() };
    let nothing = RequestedCapabilities { drop: vec!["ALL".into()], ..RequestedCapabilities::default() };
    let asked =
        [RequestedCapabilities::default(), nothing].into_iter().chain(ADDED.iter().map(|name| add(name)));
    let sets: Vec<Sets> = asked.map(|asked| capabilities::of(&asked).unwrap()).collect();
    let (mut compared, mut allowed) = (0_u64, 0_u64);
    for (sets, theirs) in sets.iter().zip(theirs(&sets)) {
        let ours = runtime_default(sets);
        let values = arguments([&ours, &theirs]);
        for name in names(&ours).union(&names(&theirs)) {
            let (our_rules, their_rules) = (allowing(&ours, name), allowing(&theirs, name));
            for value in &values {
                let (we, they) = (allows(&our_rules, *value), allows(&their_rules, *value));
                assert!(!we || they, "{name}({value:#x}) with {:?}", sets.bounding);
                compared += 1;
                allowed += u64::from(we);
            }
        }
        let refused: Vec<_> = names(&theirs).difference(&names(&ours)).cloned().collect();
        assert_eq!(refused, Vec::<String>::new(), "refused by ours only, with {:?}", sets.bounding);
        assert_eq!(ours["architectures"], theirs["architectures"]);
    }
    assert!(allowed > 0 && allowed < compared);
    println!("{compared} comparisons, {allowed} allowed by ours");
}

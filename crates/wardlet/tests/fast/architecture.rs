//! Dependencies between the crates of the workspace: only those listed here are allowed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use crate::file_graph::Files;

/// Each crate of the workspace with the crates that it may depend on.
const DEPENDENCIES: &[(&str, &[&str])] = &[
    ("types", &[]),
    ("ids", &[]),
    ("selinux", &[]),
    ("durable", &[]),
    ("procfs", &[]),
    ("telemetry", &["procfs"]),
    ("kernel", &["types", "ids", "procfs"]),
    ("cgroups", &["kernel"]),
    ("census", &["ids", "procfs", "kernel"]),
    ("ledger", &["ids", "selinux", "durable"]),
    ("plan", &["types", "ids", "selinux"]),
    ("manifest", &["types", "plan", "selinux"]),
    ("conflicts", &["types", "selinux"]),
    ("cri", &["durable"]),
    ("images", &["types", "ids", "durable", "kernel"]),
    ("container", &["types", "ids", "durable", "kernel", "cgroups"]),
    ("volumes", &["types", "ids", "plan", "durable", "kernel"]),
    ("lifecycle", &["types"]),
    ("network", &["durable", "procfs"]),
    ("streaming", &[]),
    ("oci-records", &["ids", "durable", "procfs", "ledger"]),
    ("monitor", &["durable", "procfs", "kernel"]),
    ("wardlet-container", &["ids", "durable", "procfs", "kernel", "cgroups", "container"]),
    ("node", &["types", "ids", "selinux", "durable", "procfs", "kernel", "census", "ledger", "plan"]),
    (
        "wardlet-oci",
        &[
            "types",
            "ids",
            "durable",
            "procfs",
            "kernel",
            "census",
            "ledger",
            "plan",
            "container",
            "node",
            "oci-records",
        ],
    ),
    (
        "runtime",
        &[
            "types",
            "ids",
            "selinux",
            "durable",
            "procfs",
            "telemetry",
            "kernel",
            "cgroups",
            "cri",
            "images",
            "container",
            "network",
            "streaming",
            "monitor",
        ],
    ),
    (
        "agent",
        &[
            "types",
            "ids",
            "durable",
            "telemetry",
            "kernel",
            "cgroups",
            "ledger",
            "cri",
            "manifest",
            "plan",
            "lifecycle",
            "volumes",
            "admission",
        ],
    ),
    ("kubelet-api", &["durable", "telemetry", "cgroups", "node", "agent"]),
    (
        "apiserver",
        &[
            "types",
            "durable",
            "procfs",
            "telemetry",
            "cgroups",
            "lifecycle",
            "plan",
            "manifest",
            "volumes",
            "cri",
            "node",
            "admission",
            "doctor",
            "agent",
            "kubelet-api",
            "report",
        ],
    ),
    ("admission", &["types", "plan", "manifest"]),
    ("inventory", &["types", "selinux", "plan", "manifest", "conflicts"]),
    ("check", &["types", "ids", "selinux", "plan", "conflicts", "inventory"]),
    ("doctor", &["types", "ids", "kernel", "census", "ledger", "plan", "network", "cri", "node"]),
    ("verify", &["types", "ids", "procfs", "kernel", "census", "ledger", "cri", "node", "oci-records"]),
    (
        "report",
        &[
            "types",
            "ids",
            "plan",
            "census",
            "ledger",
            "images",
            "admission",
            "agent",
            "check",
            "verify",
            "doctor",
        ],
    ),
    (
        "wardlet",
        &[
            "report",
            "admission",
            "inventory",
            "check",
            "telemetry",
            "types",
            "agent",
            "apiserver",
            "ids",
            "plan",
            "manifest",
            "kernel",
            "census",
            "ledger",
            "cri",
            "images",
            "container",
            "network",
            "runtime",
            "node",
            "oci-records",
            "verify",
            "doctor",
            "streaming",
        ],
    ),
];

/// Crates that a pure crate must not depend on directly: they bring in I/O, clocks, threads or logs.
const IMPURE: &[&str] =
    &["rustix", "libc", "nix", "tokio", "tracing", "log", "rusqlite", "procfs", "tempfile"];
const PURE: &[&str] =
    &["types", "ids", "selinux", "plan", "manifest", "conflicts", "lifecycle", "admission", "inventory"];

const WITHOUT_FILE_CYCLES: &[&str] = &["agent", "cgroups", "conflicts", "ledger", "runtime"];

fn metadata() -> serde_json::Value {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Every crate under crates/ with what it depends on outside of its tests.
pub(crate) fn dependencies() -> BTreeMap<String, BTreeSet<String>> {
    let text = |v: &serde_json::Value| v.as_str().unwrap().to_owned();
    let metadata = metadata();
    let ours = metadata["packages"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|p| text(&p["manifest_path"]).contains("/crates/"));
    ours.map(|package| {
        let normal = package["dependencies"].as_array().unwrap().iter().filter(|d| d["kind"] != "dev");
        (text(&package["name"]), normal.map(|d| text(&d["name"])).collect())
    })
    .collect()
}

#[test]
fn crates_depend_only_on_allowed_crates() {
    let dependencies = dependencies();
    let ours: BTreeSet<&String> = dependencies.keys().collect();
    for (name, imports) in &dependencies {
        let allowed = DEPENDENCIES.iter().find(|(n, _)| n == name);
        let allowed = allowed.unwrap_or_else(|| panic!("crate {name} is not in DEPENDENCIES")).1;
        for import in imports.iter().filter(|i| ours.contains(i)) {
            assert!(allowed.contains(&import.as_str()), "{name} must not import {import}");
        }
    }
    assert_eq!(ours.len(), DEPENDENCIES.len(), "DEPENDENCIES names a crate that does not exist");
}

/// The command line parses, wires and prints; what decides is in a library that other programs can import.
#[test]
fn the_command_line_has_at_most_4000_lines() {
    fn lines(dir: &std::path::Path) -> usize {
        let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
        entries
            .map(|path| {
                if path.is_dir() {
                    lines(&path)
                } else {
                    std::fs::read_to_string(&path).unwrap().lines().count()
                }
            })
            .sum()
    }
    let lines = lines(&std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
    assert!(lines <= 4000, "crates/wardlet/src has {lines} lines: move what decides into a library");
}

#[test]
fn every_allowed_dependency_is_used() {
    let dependencies = dependencies();
    let unused: Vec<_> = DEPENDENCIES
        .iter()
        .flat_map(|(name, allowed)| allowed.iter().map(move |import| (*name, *import)))
        .filter(|(name, import)| !dependencies.get(*name).is_some_and(|all| all.contains(*import)))
        .collect();
    assert!(unused.is_empty(), "no Cargo.toml has these (crate, import): {unused:?}");
}

#[test]
fn no_file_cycles() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    for name in WITHOUT_FILE_CYCLES {
        let circle = Files::of_crate(&crates.join(name).join("src")).circle();
        assert_eq!(circle, None, "files of crates/{name}/src import each other");
    }
}

#[test]
fn pure_crates_do_no_io() {
    for (name, imports) in dependencies() {
        if PURE.contains(&name.as_str()) {
            let impure: Vec<_> = imports.iter().filter(|i| IMPURE.contains(&i.as_str())).collect();
            assert!(impure.is_empty(), "{name} imports {impure:?}");
        }
    }
}

/// It is started for every call of a runtime.
#[test]
fn the_wrapper_has_no_machinery_for_servers() {
    let output = Command::new(env!("CARGO"))
        .args([
            "tree",
            "--offline",
            "-p",
            "wardlet-oci",
            "-e",
            "normal",
            "--prefix",
            "none",
            "--format",
            "{p}",
        ])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let names: BTreeSet<&str> = text.lines().filter_map(|line| line.split(' ').next()).collect();
    assert!(names.contains("rusqlite"), "{names:?}");
    let heavy: Vec<_> = ["tokio", "tonic", "hyper", "k8s-openapi", "prost"]
        .into_iter()
        .filter(|n| names.contains(n))
        .collect();
    assert!(heavy.is_empty(), "{heavy:?}");
}

/// `unsafe_code` is forbidden by the workspace's lints; only the kernel crate may have lints of its own.
#[test]
fn only_the_kernel_crate_may_be_unsafe() {
    let crates = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    for entry in std::fs::read_dir(crates).unwrap() {
        let path = entry.unwrap().path();
        if !path.is_dir() {
            continue;
        }
        let manifest = std::fs::read_to_string(path.join("Cargo.toml")).unwrap();
        let inherits = manifest.contains("[lints]\nworkspace = true");
        assert_eq!(inherits, !path.ends_with("kernel"), "{}", path.display());
    }
    let workspace = std::fs::read_to_string(crates.parent().unwrap().join("Cargo.toml")).unwrap();
    assert!(workspace.contains("unsafe_code = \"forbid\""));
}

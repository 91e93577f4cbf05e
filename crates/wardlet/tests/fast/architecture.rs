//! The arrows between our crates, and nothing but them.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// Who may import whom: the plan of the house. A crate that is not listed has no place in it yet.
const ARROWS: &[(&str, &[&str])] = &[
    ("types", &[]),
    ("ids", &[]),
    ("labels", &[]),
    ("durable", &[]),
    ("procfs", &[]),
    ("kernel", &["types", "ids", "procfs"]),
    ("census", &["ids", "procfs", "kernel"]),
    ("ledger", &["ids", "labels", "durable"]),
    ("plan", &["types", "ids", "labels"]),
    ("manifest", &["types", "plan", "labels"]),
    ("conflicts", &["types", "labels"]),
    ("wire", &[]),
    ("images", &["types", "ids", "durable", "kernel"]),
    ("bundle", &["types", "ids", "labels", "plan", "durable", "kernel"]),
    ("volumes", &["types", "ids", "labels", "plan", "durable", "kernel", "wire"]),
    ("lifecycle", &["types"]),
    ("network", &["durable", "procfs"]),
    ("streaming", &[]),
    ("monitor", &["durable", "procfs", "kernel"]),
    ("wardlet-container", &["ids", "durable", "procfs", "kernel", "bundle"]),
    ("settings", &["ids", "procfs", "census", "ledger", "plan"]),
    (
        "wardlet-oci",
        &["types", "ids", "durable", "procfs", "kernel", "census", "ledger", "plan", "bundle", "settings"],
    ),
    (
        "runtime",
        &[
            "types",
            "ids",
            "labels",
            "durable",
            "procfs",
            "kernel",
            "wire",
            "images",
            "bundle",
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
            "labels",
            "durable",
            "kernel",
            "census",
            "ledger",
            "wire",
            "manifest",
            "plan",
            "lifecycle",
            "volumes",
        ],
    ),
    (
        "wardlet",
        &[
            "procfs",
            "types",
            "agent",
            "ids",
            "labels",
            "plan",
            "manifest",
            "kernel",
            "census",
            "ledger",
            "volumes",
            "wire",
            "images",
            "conflicts",
            "bundle",
            "network",
            "runtime",
            "settings",
            "wardlet-oci",
            "streaming",
        ],
    ),
];

/// Crates that a pure room must not have, directly: they bring in I/O, clocks, threads or logs.
const IMPURE: &[&str] =
    &["rustix", "libc", "nix", "tokio", "tracing", "log", "rusqlite", "procfs", "tempfile"];
const PURE: &[&str] = &["types", "ids", "labels", "plan", "manifest", "conflicts", "lifecycle"];

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
fn dependencies() -> BTreeMap<String, BTreeSet<String>> {
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
fn crates_import_only_what_the_plan_of_the_house_allows() {
    let dependencies = dependencies();
    let ours: BTreeSet<&String> = dependencies.keys().collect();
    for (name, imports) in &dependencies {
        let allowed = ARROWS.iter().find(|(n, _)| n == name);
        let allowed = allowed.unwrap_or_else(|| panic!("crate {name} is not in the plan of the house")).1;
        for import in imports.iter().filter(|i| ours.contains(i)) {
            assert!(allowed.contains(&import.as_str()), "{name} must not import {import}");
        }
    }
    assert_eq!(ours.len(), ARROWS.len(), "the plan names a crate that does not exist");
}

#[test]
fn pure_rooms_have_no_dependency_that_touches_the_machine() {
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
        let manifest = std::fs::read_to_string(path.join("Cargo.toml")).unwrap();
        let inherits = manifest.contains("[lints]\nworkspace = true");
        assert_eq!(inherits, !path.ends_with("kernel"), "{}", path.display());
    }
    let workspace = std::fs::read_to_string(crates.parent().unwrap().join("Cargo.toml")).unwrap();
    assert!(workspace.contains("unsafe_code = \"forbid\""));
}

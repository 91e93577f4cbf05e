//! What deploy/ has, in the hands of the programs that it is for: kubectl, a real API server, promtool.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use testbed::yardstick;

fn deploy(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(path)
}

fn said(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned()).concat()
}

#[test]
fn rules_give_what_their_tests_expect() {
    let below = |dir: &str| -> Vec<PathBuf> {
        let entries = std::fs::read_dir(deploy(dir)).unwrap();
        entries.map(|entry| entry.unwrap().path()).collect()
    };
    for (words, dir) in [(["check", "rules"], "monitoring/rules"), (["test", "rules"], "monitoring/tests")] {
        let files = below(dir);
        assert_eq!(files.len(), 2, "{files:?}");
        let output = Command::new("promtool").args(words).args(files).output().unwrap();
        assert!(output.status.success(), "{words:?}: {}", said(&output));
    }
}

#[test]
fn kubectl_builds_the_base_and_an_api_server_would_take_it() {
    let testbed = testbed::shared().unwrap();
    let built = testbed.command("kubectl").arg("kustomize").arg(deploy("controller/base")).output().unwrap();
    assert!(built.status.success(), "{}", said(&built));
    // What is in a namespace needs the namespace, also where nothing is kept.
    let namespace = std::fs::read_to_string(deploy("controller/base/namespace.yaml")).unwrap();
    yardstick::apply(&testbed, &namespace).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let manifest = dir.path().join("base.yaml");
    std::fs::write(&manifest, &built.stdout).unwrap();
    let mut apply = testbed.command("kubectl");
    apply.args(["apply", "--dry-run=server", "-o", "json", "-f", "-"]);
    apply.stdin(std::fs::File::open(&manifest).unwrap());
    let output = apply.output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    // Pod Security would say here what its namespace does not allow.
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    let list: Value = serde_json::from_slice(&output.stdout).unwrap();
    let kinds: Vec<&str> =
        list["items"].as_array().unwrap().iter().filter_map(|one| one["kind"].as_str()).collect();
    for kind in ["Deployment", "ClusterRole", "NetworkPolicy", "PodDisruptionBudget", "Service"] {
        assert!(kinds.contains(&kind), "{kind}: {kinds:?}");
    }
}

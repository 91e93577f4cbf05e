//! Manifests that everybody knows get verdicts that a person would give.
//!
//! `WARDLET_SNAPSHOTS=1` writes the reasons anew, for a person to read before they are kept.

use crate::support;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use serde_json::Value;
use support::Host;

/// Each workload with its verdict, and why a person who knows it would say the same.
const REVIEWED: &[(&str, &str, &str)] = &[
    ("Deployment default/argocd-redis", "ready", "a cache in memory, restricted already"),
    ("Deployment default/argocd-repo-server", "ready", "emptyDir, ConfigMaps and Secrets only"),
    ("DaemonSet cadvisor/cadvisor", "risky", "reads the host's root, sockets and disks"),
    ("DaemonSet kube-system/calico-node", "blocked", "is the host's network, privileged"),
    ("Deployment kube-system/calico-kube-controllers", "ready", "talks to the API only"),
    ("StatefulSet default/cassandra", "risky", "locks memory; a claim on who knows what"),
    ("StatefulSet default/csi-hostpathplugin", "risky", "mounts for the host, privileged"),
    ("CronJob kube-system/descheduler-cronjob", "ready", "talks to the API only"),
    ("DaemonSet default/csi-gce-pd-node", "risky", "formats and mounts the host's disks"),
    ("Deployment ingress-nginx/ingress-nginx-controller", "ready", "NET_BIND_SERVICE is enough inside"),
    ("Job ingress-nginx/ingress-nginx-admission-create", "ready", "makes a Secret through the API"),
    ("Job ingress-nginx/ingress-nginx-admission-patch", "ready", "changes a webhook through the API"),
    (
        "Deployment local-path-storage/local-path-provisioner",
        "ready",
        "its helper pods touch disks, not itself",
    ),
    ("Deployment default/local-path-rwx-example", "risky", "a claim on who knows what"),
    ("Deployment kube-system/metrics-server", "ready", "an emptyDir and the network"),
    ("DaemonSet kube-system/nvidia-gpu-device-plugin", "risky", "hands out the host's devices"),
    ("Deployment default/prometheus-operator", "ready", "talks to the API only"),
    ("Deployment nginx-example/nginx-deployment", "risky", "a privileged container freezes its filesystem"),
    ("DaemonSet velero/node-agent", "risky", "reads other pods' volumes on the host"),
];

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/public-manifests")
}

fn files() -> Vec<PathBuf> {
    let all = std::fs::read_dir(directory()).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = all.filter(|path| path.extension().is_some_and(|e| e == "yaml")).collect();
    files.sort();
    files
}

fn report() -> Value {
    let ran = Host::new().run(&format!("check {} --from 1.36 --to 1.37 -o json", directory().display()));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    serde_json::from_str(&ran.stdout).unwrap()
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap()
}

fn who(workload: &Value) -> String {
    format!("{} {}/{}", text(workload, "kind"), text(workload, "namespace"), text(workload, "name"))
}

/// The verdicts with the fields that they rest on.
fn written(report: &Value) -> String {
    let mut out = String::new();
    for workload in report["workloads"].as_array().unwrap() {
        let security = &workload["podSecurity"];
        let (now, inside) = (text(security, "now"), text(security, "withUserNamespace"));
        let verdict = text(&workload["userNamespace"], "verdict");
        writeln!(out, "{}: {verdict}, {now}, {inside} in a user namespace", who(workload)).unwrap();
        for reason in workload["userNamespace"]["reasons"].as_array().unwrap() {
            writeln!(out, "  {} {}", text(reason, "weight"), text(reason, "field")).unwrap();
        }
    }
    out
}

#[test]
fn every_public_manifest_gets_the_verdict_that_a_person_gives() {
    let report = report();
    let verdict = |w: &Value| (who(w), text(&w["userNamespace"], "verdict").to_owned());
    let found: BTreeMap<String, String> =
        report["workloads"].as_array().unwrap().iter().map(verdict).collect();
    let reviewed: BTreeMap<String, String> =
        REVIEWED.iter().map(|(who, verdict, _)| ((*who).to_owned(), (*verdict).to_owned())).collect();
    assert_eq!(found, reviewed);
}

#[test]
fn the_verdicts_rest_on_the_same_fields_as_when_they_were_reviewed() {
    let kept = directory().join("verdicts.txt");
    let found = written(&report());
    if std::env::var_os("WARDLET_SNAPSHOTS").is_some() {
        std::fs::write(&kept, &found).unwrap();
    }
    assert_eq!(found, std::fs::read_to_string(&kept).unwrap());
}

#[test]
fn nothing_of_a_public_manifest_is_not_understood() {
    let report = report();
    assert_eq!(report["problems"], serde_json::json!([]));
    assert_eq!(report["conflicts"], serde_json::json!([]));
    assert!(files().len() >= 12);
}

#[test]
fn every_ready_one_gets_the_one_line_patch() {
    for workload in report()["workloads"].as_array().unwrap() {
        if text(&workload["userNamespace"], "verdict") == "ready" {
            assert_eq!(workload["patch"]["fields"], 1, "{}", who(workload));
            assert!(workload["patch"]["body"].to_string().contains("\"hostUsers\":false"), "{workload}");
        }
    }
}

#[test]
fn every_public_manifest_names_its_source_and_its_licence() {
    let notice = std::fs::read_to_string(directory().join("NOTICE.md")).unwrap();
    for file in files() {
        let text = std::fs::read_to_string(&file).unwrap();
        let name = file.file_name().unwrap().to_str().unwrap().to_owned();
        let source = text.lines().next().unwrap().strip_prefix("# Source: ").unwrap();
        let module = source.split(',').next().unwrap();
        assert!(text.lines().nth(1).unwrap().starts_with("# Licence: Apache-2.0"), "{name}");
        assert!(notice.lines().any(|l| l.contains(&format!("`{name}`")) && l.contains(module)), "{name}");
    }
}

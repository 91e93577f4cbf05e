//! Published manifests of well-known projects get the verdicts that an administrator who knows them gives.
//!
//! The manifests are files of Go modules that `testbed install public-manifests` downloads; `testbed::manifests` has
//! their modules, paths and digests. `WARDLET_SNAPSHOTS=1` writes the snapshot anew, to be read before it is kept.

use crate::support;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use serde_json::Value;
use support::Host;
use testbed::manifests;

/// A workload with its verdict, and why an administrator who knows it says the same.
struct Reviewed {
    workload: &'static str,
    verdict: &'static str,
    because: &'static str,
}

const fn ready(workload: &'static str, because: &'static str) -> Reviewed {
    Reviewed { workload, verdict: "ready", because }
}

const fn risky(workload: &'static str, because: &'static str) -> Reviewed {
    Reviewed { workload, verdict: "risky", because }
}

const fn blocked(workload: &'static str, because: &'static str) -> Reviewed {
    Reviewed { workload, verdict: "blocked", because }
}

const REVIEWED: &[Reviewed] = &[
    risky("DaemonSet cadvisor/cadvisor", "reads the host's root, sockets and disks"),
    blocked("DaemonSet kube-system/calico-node", "is the host's network, privileged"),
    ready("Deployment kube-system/calico-kube-controllers", "talks to the API server only"),
    risky(
        "StatefulSet default/cassandra",
        "locks memory; its claim may have a volume that cannot be idmapped",
    ),
    risky("StatefulSet default/csi-hostpathplugin", "mounts for the host, privileged"),
    risky(
        "StatefulSet default/csi-mockplugin",
        "registers a driver in directories of the kubelet, privileged",
    ),
    ready("CronJob kube-system/descheduler-cronjob", "talks to the API server only"),
    risky("DaemonSet default/csi-gce-pd-node", "formats and mounts the host's disks"),
    ready("Deployment hello/hello-populator", "talks to the API server only"),
    ready(
        "Deployment ingress-nginx/ingress-nginx-controller",
        "NET_BIND_SERVICE inside the namespace is enough",
    ),
    ready("Job ingress-nginx/ingress-nginx-admission-create", "creates a Secret through the API server"),
    ready("Job ingress-nginx/ingress-nginx-admission-patch", "changes a webhook through the API server"),
    blocked("DaemonSet kube-system/ip-masq-agent", "writes the host's packet filter, in the host's network"),
    blocked(
        "DaemonSet kube-system/kube-network-policies",
        "filters the host's packets, in the host's network",
    ),
    ready(
        "Deployment local-path-storage/local-path-provisioner",
        "its helper pods write to disks, it does not",
    ),
    risky("Deployment default/local-path-rwx-example", "its claim may have a volume that cannot be idmapped"),
    ready("Deployment kube-system/metrics-server", "an emptyDir and the network"),
    risky("StatefulSet default/mysql", "its claim may have a volume that cannot be idmapped"),
    risky("DaemonSet kube-system/nvidia-gpu-device-plugin", "hands out the host's devices"),
    ready("Deployment default/prometheus-operator", "talks to the API server only"),
    risky("DaemonSet kube-system/sample-device-plugin-beta", "hands out the host's devices, privileged"),
    ready("StatefulSet kube-system/volume-snapshot-controller", "talks to the API server only"),
];

/// The manifests, verified by digest.
fn published() -> PathBuf {
    manifests::directory().unwrap_or_else(|error| {
        panic!("{error}\n\nhint: {}", error.hint().unwrap_or_else(|| "make components".to_owned()))
    })
}

fn snapshot() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots/public-manifests/verdicts.txt")
}

fn report() -> Value {
    let ran = Host::new().run(&format!("check {} --from 1.36 --to 1.37 -o json", published().display()));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    serde_json::from_str(&ran.stdout).unwrap()
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap()
}

fn title(workload: &Value) -> String {
    format!("{} {}/{}", text(workload, "kind"), text(workload, "namespace"), text(workload, "name"))
}

/// The verdicts with the fields that they rest on.
fn verdicts(report: &Value) -> String {
    let mut out = String::new();
    for workload in report["workloads"].as_array().unwrap() {
        let security = &workload["podSecurity"];
        let (now, inside) = (text(security, "now"), text(security, "withUserNamespace"));
        let verdict = text(&workload["userNamespace"], "verdict");
        writeln!(out, "{}: {verdict}, {now}, {inside} in a user namespace", title(workload)).unwrap();
        for reason in workload["userNamespace"]["reasons"].as_array().unwrap() {
            writeln!(out, "  {} {}", text(reason, "weight"), text(reason, "field")).unwrap();
        }
    }
    out
}

#[test]
fn every_published_manifest_gets_the_verdict_of_its_review() {
    let report = report();
    let verdict = |w: &Value| (title(w), text(&w["userNamespace"], "verdict").to_owned());
    let found: BTreeMap<String, String> =
        report["workloads"].as_array().unwrap().iter().map(verdict).collect();
    for Reviewed { workload, verdict, because } in REVIEWED {
        assert_eq!(found.get(*workload).map(String::as_str), Some(*verdict), "{workload}: {because}");
    }
    let reviewed = |workload: &String| REVIEWED.iter().any(|review| review.workload == workload);
    let unreviewed: Vec<&String> = found.keys().filter(|workload| !reviewed(workload)).collect();
    assert!(unreviewed.is_empty(), "no review of {unreviewed:?}");
}

#[test]
fn the_verdicts_rest_on_the_same_fields_as_when_they_were_reviewed() {
    let found = verdicts(&report());
    if std::env::var_os("WARDLET_SNAPSHOTS").is_some() {
        std::fs::write(snapshot(), &found).unwrap();
    }
    assert_eq!(found, std::fs::read_to_string(snapshot()).unwrap());
}

#[test]
fn every_field_of_every_published_manifest_is_understood() {
    let report = report();
    // metrics-server's is the base of a kustomization, which adds the selector: no API server takes it as it is.
    let problems = report["problems"].as_array().unwrap();
    let is_known = |problem: &Value| problem.to_string().contains("spec.selector");
    assert!(problems.len() == 1 && problems.iter().all(is_known), "{problems:?}");
    assert_eq!(report["conflicts"], serde_json::json!([]));
}

#[test]
fn every_published_manifest_is_read() {
    let names = manifests::MODULES.iter().flat_map(|module| module.files).map(|file| file.name);
    let mut expected: Vec<&str> = names.collect();
    expected.sort_unstable();
    let mut found: Vec<String> = std::fs::read_dir(published())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    found.sort_unstable();
    assert_eq!(found, expected);
}

#[test]
fn every_ready_one_gets_the_one_line_patch() {
    for workload in report()["workloads"].as_array().unwrap() {
        if text(&workload["userNamespace"], "verdict") == "ready" {
            assert_eq!(workload["patch"]["fields"], 1, "{}", title(workload));
            assert!(workload["patch"]["body"].to_string().contains("\"hostUsers\":false"), "{workload}");
        }
    }
}

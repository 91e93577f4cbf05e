//! The Pod Security Standards beside upstream's own evaluator, on every version.
//!
//! The pods are the fixtures of the evaluator's tests, which `testbed install pod-security-fixtures` takes out of its Go
//! module, and pods with each pair of settings that a check looks at. The evaluator is linked into
//! `testbed/peers/pod-security`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use manifest::{Level, Reading, read, violations};
use plan::KubernetesVersion;
use serde_json::{Value, json};

/// A pod of the fixtures, and the verdict that its path states.
struct Fixture {
    level: Level,
    version: String,
    passes: bool,
    text: String,
}

fn fixtures() -> Vec<(PathBuf, Fixture)> {
    let root = testbed::manifests::pod_security_fixtures().unwrap_or_else(|error| {
        panic!("{error}\n\nhint: {}", error.hint().unwrap_or_else(|| "make components".to_owned()))
    });
    let mut found = Vec::new();
    for (name, level) in [("baseline", Level::Baseline), ("restricted", Level::Restricted)] {
        for version in entries(&root.join(name)) {
            for (verdict, passes) in [("pass", true), ("fail", false)] {
                for path in entries(&version.join(verdict)) {
                    let version = version.file_name().unwrap().to_str().unwrap();
                    let version = version.strip_prefix('v').unwrap().to_owned();
                    let text = fs::read_to_string(&path).unwrap();
                    found.push((path, Fixture { level, version, passes, text }));
                }
            }
        }
    }
    found
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect()
}

fn pod(text: &str) -> Reading {
    let reading = read("pod.yaml", text.as_bytes());
    assert!(reading.findings.is_empty(), "{text}\n{:?}", reading.findings);
    reading
}

/// The names of the checks that a pod fails.
fn ours(pod: &Reading, level: Level, version: KubernetesVersion) -> BTreeSet<String> {
    let pod = pod.objects[0].pod().unwrap();
    violations(&pod, level, version).into_iter().map(|violation| violation.check.to_owned()).collect()
}

/// Upstream's evaluator, built once for all tests of this process.
fn evaluator() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(build)
}

fn build() -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testbed/peers/pod-security");
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pod-security");
    let built = Command::new("go")
        .args(["build", "-mod=readonly", "-buildvcs=false", "-trimpath", "-o"])
        .arg(&program)
        .arg(".")
        .env("GOTOOLCHAIN", "local")
        .current_dir(&source)
        .status();
    let built = built.unwrap_or_else(|error| panic!("this test needs Go, to build upstream's side: {error}"));
    assert!(built.success());
    program
}

/// Compares our checks with the evaluator's for every pod at both levels of each version.
fn compare(pods: &BTreeSet<String>, versions: &[KubernetesVersion]) {
    let dir = tempfile::tempdir().unwrap();
    let names: Vec<String> = versions.iter().map(|version| format!("v{version}")).collect();
    let asked: String =
        pods.iter().map(|text| format!("{}\n", json!({"manifest": text, "versions": names}))).collect();
    let questions = dir.path().join("questions");
    fs::write(&questions, asked).unwrap();
    let output = Command::new(evaluator())
        .stdin(File::open(&questions).unwrap())
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    assert!(output.status.success());
    let answers = String::from_utf8(output.stdout).unwrap();
    assert_eq!(answers.lines().count(), pods.len());
    for (text, line) in pods.iter().zip(answers.lines()) {
        let verdicts: Vec<Value> = serde_json::from_str(line).unwrap();
        assert_eq!(verdicts.len(), 2 * versions.len());
        let pod = pod(text);
        for verdict in verdicts {
            let version = verdict["version"].as_str().unwrap();
            let level = if verdict["level"] == "baseline" { Level::Baseline } else { Level::Restricted };
            let theirs: BTreeSet<String> = serde_json::from_value(verdict["fails"].clone()).unwrap();
            assert_eq!(ours(&pod, level, version.parse().unwrap()), theirs, "{level:?} {version}\n{text}");
        }
    }
}

#[test]
fn every_fixture_gets_the_verdict_that_its_path_states() {
    let known: BTreeMap<String, KubernetesVersion> =
        KubernetesVersion::all().map(|version| (version.to_string(), version)).collect();
    let mut seen = BTreeSet::new();
    for (path, fixture) in fixtures() {
        let Some(version) = known.get(&fixture.version) else { continue };
        let fails = ours(&pod(&fixture.text), fixture.level, *version);
        assert_eq!(fails.is_empty(), fixture.passes, "{}: {fails:?}", path.display());
        seen.insert(fixture.version);
    }
    assert_eq!(seen, known.into_keys().collect(), "a version has no fixtures");
}

#[test]
fn every_fixture_fails_the_same_checks_as_upstream_on_every_version() {
    let pods: BTreeSet<String> = fixtures().into_iter().map(|(_, fixture)| fixture.text).collect();
    assert!(pods.len() > 300, "{}", pods.len());
    let versions: Vec<_> = KubernetesVersion::all().collect();
    compare(&pods, &versions);
    let counts = format!("{} pods on {} versions, all alike", pods.len(), versions.len());
    testbed::conformance::record("pod-security", &counts).unwrap();
}

/// What a check looks at: a place in the pod, and a value to put there.
type Setting = (&'static str, Value);

fn settings() -> Vec<Setting> {
    let own = "/spec/containers/0/securityContext";
    let mut all = vec![
        ("/spec/hostUsers", json!(false)),
        ("/spec/hostNetwork", json!(true)),
        ("/spec/hostPID", json!(true)),
        ("/spec/os", json!({"name": "windows"})),
        ("/metadata/annotations", json!({"container.apparmor.security.beta.kubernetes.io/c": "unconfined"})),
        ("/metadata/annotations", json!({"container.apparmor.security.beta.kubernetes.io/c": "localhost/x"})),
        ("/spec/containers/0/ports", json!([{"containerPort": 1, "hostPort": 1}])),
        (
            "/spec/initContainers",
            json!([{"name": "i", "image": "i", "ports": [{"containerPort": 1, "hostPort": 2}]}]),
        ),
        ("/spec/ephemeralContainers", json!([{"name": "e", "securityContext": {"privileged": true}}])),
        (own, json!({"privileged": true})),
        (own, json!({"windowsOptions": {"hostProcess": true}})),
        (own, json!({"runAsNonRoot": false})),
        (own, json!({"runAsNonRoot": true})),
        (own, json!({"runAsUser": 0})),
        (own, json!({"procMount": "Unmasked"})),
        (own, json!({"procMount": "Default"})),
        (own, json!({"allowPrivilegeEscalation": true})),
        (own, json!({"appArmorProfile": {"type": "Unconfined"}})),
        (own, json!({"seLinuxOptions": {"type": "container_engine_t"}})),
        (own, json!({"seLinuxOptions": {"role": "r"}})),
        (own, json!({"seccompProfile": {"type": "RuntimeDefault"}})),
        (own, json!({"seccompProfile": {"type": "Unconfined"}})),
        (own, json!({"capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]}})),
        (own, json!({"capabilities": {"drop": ["ALL"], "add": ["CHOWN"]}})),
        (own, json!({"capabilities": {"drop": ["all"], "add": ["CAP_CHOWN"]}})),
    ];
    let pod = "/spec/securityContext";
    all.extend([
        (pod, json!({"windowsOptions": {"hostProcess": true}})),
        (pod, json!({"runAsNonRoot": false})),
        (pod, json!({"runAsUser": 0})),
        (pod, json!({"appArmorProfile": {"type": "Unconfined"}})),
        (pod, json!({"seLinuxOptions": {"type": "spc_t", "user": "u"}})),
        (pod, json!({"seccompProfile": {"type": "Unconfined"}})),
        (pod, json!({"seccompProfile": {"type": "Localhost", "localhostProfile": "p"}})),
    ]);
    let sysctls = [
        "kernel.shm_rmid_forced",
        "kernel/shm_rmid_forced",
        "net.ipv4.ip_local_reserved_ports",
        "net.ipv4.tcp_fin_timeout",
        "net.ipv4.tcp_rmem",
        "net.ipv4.tcp_slow_start_after_idle",
        "net.ipv4.tcp_notsent_lowat",
    ];
    all.extend(sysctls.map(|name| (pod, json!({"sysctls": [{"name": name, "value": "1"}]}))));
    let volumes = [
        json!({"emptyDir": {}}),
        json!({"image": {"reference": "r"}}),
        json!({"hostPath": {"path": "/"}}),
        json!({"nfs": {"server": "s", "path": "/"}}),
        json!({"nfs": {"server": "s", "path": "/"}, "secret": {"secretName": "s"}}),
        json!({}),
    ];
    all.extend(volumes.map(|mut volume| {
        volume["name"] = json!("v");
        ("/spec/volumes", json!([volume]))
    }));
    for host in ["", "127.0.0.1", "::1", "other"] {
        let (http, tcp) = (json!({"host": host, "port": 1}), json!({"host": host, "port": 1}));
        all.extend([
            ("/spec/containers/0/startupProbe", json!({"httpGet": http})),
            ("/spec/containers/0/livenessProbe", json!({"tcpSocket": tcp})),
            ("/spec/containers/0/lifecycle", json!({"postStart": {"tcpSocket": tcp}})),
            ("/spec/containers/0/lifecycle", json!({"preStop": {"httpGet": http}})),
        ]);
    }
    all
}

fn put(pod: &mut Value, (pointer, value): &Setting) {
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    let place = &mut pod.pointer_mut(parent).unwrap()[name];
    match (place.as_object_mut(), value.as_object()) {
        (Some(there), Some(more)) => there.extend(more.clone()),
        _ => *place = value.clone(),
    }
}

#[test]
fn every_pair_of_settings_fails_the_same_checks_as_upstream() {
    let bases = [
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
            "spec": {"containers": [{"name": "c", "image": "i"}]}}),
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
            "spec": {"securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
                "containers": [{"name": "c", "image": "i", "securityContext":
                    {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}}}]}}),
    ];
    let settings = settings();
    let mut pods = BTreeSet::new();
    for base in &bases {
        for (index, one) in settings.iter().enumerate() {
            for other in &settings[index..] {
                let mut pod = base.clone();
                put(&mut pod, one);
                put(&mut pod, other);
                pods.insert(pod.to_string());
            }
        }
    }
    // Where a check changes, and the version before.
    let versions = ["1.25", "1.26", "1.27", "1.28", "1.31", "1.33", "1.34", "1.35", "1.36", "1.37"];
    compare(&pods, &versions.map(|version| version.parse().unwrap()));
}

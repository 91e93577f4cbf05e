//! Another pod's block, by annotation.
//!
//! CRI-O writes a pod's annotations and labels over its own keys in the container's configuration. A pod whose
//! annotations named the sandbox of another pod, and said of itself to be a container, was put into that pod's user
//! namespace: it had the victim's block, and the victim's IPC and UTS namespaces. Which sandbox a container is of is
//! now shown by its network namespace, which no annotation chooses.

use std::fs;
use std::path::Path;
use std::process::Output;

use serde_json::{Value, json};

use super::crio::CrioPod;
use crate::asking::{Emptied, RUNC, asking, done, held, init, root};
use crate::isolation::{Host, debians};
use crate::wrapped::{Wrapped, stderr};

const CRIO_KIND: &str = "io.kubernetes.cri-o.ContainerType";
const CRIO_SANDBOX: &str = "io.kubernetes.cri-o.SandboxID";
const CONTAINERD_KIND: &str = "io.kubernetes.cri.container-type";
const CONTAINERD_SANDBOX: &str = "io.kubernetes.cri.sandbox-id";

/// A node with a wrapper before runc, for as long as `attack` lasts.
fn on_a_node(attack: impl FnOnce(&Host, &Wrapped) + Send) {
    Host::play(debians(), |host| {
        let wrapped = Wrapped::before(Path::new(RUNC));
        let _emptied = Emptied(&wrapped);
        attack(host, &wrapped);
    });
}

/// Creates and starts what is in a bundle, and says which process is its first.
#[track_caller]
fn started(wrapped: &Wrapped, (id, bundle): &(String, std::path::PathBuf)) -> u32 {
    done(&wrapped.create(bundle, id));
    done(&wrapped.call(&["--root", &root(wrapped), "start", id]));
    init(bundle)
}

fn namespace(pid: u32, kind: &str) -> std::path::PathBuf {
    fs::read_link(format!("/proc/{pid}/ns/{kind}")).unwrap()
}

/// That a create was refused, by us and not by the runtime, and left nothing.
#[track_caller]
fn refused(wrapped: &Wrapped, output: &Output, (id, bundle): &(String, std::path::PathBuf)) {
    assert_eq!(output.status.code(), Some(1), "the attack worked: {}", in_words(bundle));
    assert!(!bundle.join("init.pid").exists(), "the runtime was run: {}", in_words(bundle));
    assert!(stderr(output).contains("hint: remove annotations"), "{}", stderr(output));
    assert!(wrapped.records().iter().all(|record| record.container != *id), "a record is left");
}

/// Which namespaces an attacker got.
fn in_words(bundle: &Path) -> String {
    let Ok(pid) = fs::read_to_string(bundle.join("init.pid")) else { return "no process".to_owned() };
    let pid: u32 = pid.trim().parse().unwrap();
    ["user", "ipc", "uts", "net"].iter().map(|kind| namespace(pid, kind).display().to_string()).collect()
}

#[test]
fn a_sandbox_that_calls_itself_a_container_of_another_pod_gets_nothing_of_that_pod() {
    on_a_node(|host, wrapped| {
        let victim = CrioPod::asking(host).sandbox();
        let first = started(wrapped, &victim);
        let lies: [&[&str]; 3] = [
            &[CRIO_KIND, CRIO_SANDBOX],
            &[CONTAINERD_KIND, CONTAINERD_SANDBOX],
            &[CRIO_KIND, CRIO_SANDBOX, CONTAINERD_KIND, CONTAINERD_SANDBOX],
        ];
        for lie in lies {
            for pod in [CrioPod::asking(host), CrioPod::silent(host)] {
                let lied = lie.iter().fold(pod, |pod, key| {
                    let is_kind = [CRIO_KIND, CONTAINERD_KIND].contains(key);
                    pod.with(key, if is_kind { "container" } else { &victim.0 })
                });
                let attacker = lied.sandbox();
                let output = wrapped.create(&attacker.1, &attacker.0);
                refused(wrapped, &output, &attacker);
            }
        }
        assert_eq!((held(wrapped), wrapped.records().len()), (1, 1));
        assert!(Path::new(&format!("/proc/{first}")).exists(), "the victim runs");
    });
}

#[test]
fn a_container_that_names_the_sandbox_of_another_pod_does_not_join_it() {
    on_a_node(|host, wrapped| {
        let victim = CrioPod::asking(host).sandbox();
        let first = started(wrapped, &victim);
        for shares_processes in [true, false] {
            let pod = CrioPod::asking(host);
            let own = pod.sandbox();
            let attackers = started(wrapped, &own);
            let lying = pod.with(CRIO_SANDBOX, &victim.0);
            let attacker = lying.bundle(Some(&own.0), |spec| {
                // As far as the attacker's own pod can bring it: in the victim's shape.
                if shares_processes {
                    spec["linux"]["namespaces"][0]["path"] = json!(format!("/proc/{attackers}/ns/pid"));
                }
            });
            let output = wrapped.create(&attacker.1, &attacker.0);
            refused(wrapped, &output, &attacker);
        }
        assert_eq!(wrapped.records().len(), 3);
        done(&wrapped.call(&["--root", &root(wrapped), "exec", &victim.0, "id"]));
        assert_ne!(namespace(first, "user"), namespace(std::process::id(), "user"));
    });
}

/// All pods on the host's network are in one network namespace, which shows nothing.
#[test]
fn a_pod_on_the_hosts_network_joins_no_sandbox() {
    on_a_node(|host, wrapped| {
        let victim = CrioPod::asking(host).sandbox();
        started(wrapped, &victim);
        let changes: [fn(&mut Value); 3] = [
            |spec| spec["linux"]["namespaces"].as_array_mut().unwrap().retain(|s| s["type"] != "network"),
            |spec| network(spec)["path"] = json!("/proc/1/ns/net"),
            // A network of its own, which the runtime would make.
            |spec| network(spec)["path"] = json!(""),
        ];
        for change in changes {
            let lying = CrioPod::silent(host).with(CRIO_KIND, "container").with(CRIO_SANDBOX, &victim.0);
            let attacker = lying.bundle(None, change);
            let output = wrapped.create(&attacker.1, &attacker.0);
            refused(wrapped, &output, &attacker);
        }
    });
}

fn network(spec: &mut Value) -> &mut Value {
    spec["linux"]["namespaces"].as_array_mut().unwrap().iter_mut().find(|s| s["type"] == "network").unwrap()
}

/// Each of these would run a container of an isolated pod with the host's users, or with a block of its own.
#[test]
fn a_container_of_an_isolated_pod_does_not_leave_it_by_what_it_says_of_itself() {
    on_a_node(|host, wrapped| {
        let pod = CrioPod::asking(host);
        let sandbox = pod.sandbox();
        started(wrapped, &sandbox);
        let other = CrioPod::silent(host).sandbox();
        started(wrapped, &other);
        let lies: [&[(&str, &str)]; 8] = [
            &[(CRIO_KIND, "sandbox")],
            &[(CONTAINERD_KIND, "sandbox")],
            &[(CRIO_SANDBOX, "no-such-sandbox")],
            &[(CONTAINERD_SANDBOX, "no-such-sandbox")],
            &[(CRIO_SANDBOX, &other.0)],
            &[(CRIO_SANDBOX, "")],
            &[(CRIO_KIND, "")],
            &[(CRIO_KIND, "pod")],
        ];
        for asks in ["true", "false"] {
            for lie in lies {
                let attacker = pod.bundle(Some(&sandbox.0), |spec| {
                    spec["annotations"]["wardlet.dev/user-namespace"] = json!(asks);
                    for (key, value) in lie {
                        spec["annotations"][*key] = json!(value);
                    }
                });
                let output = wrapped.create(&attacker.1, &attacker.0);
                assert_eq!(output.status.code(), Some(1), "{asks} {lie:?}: {}", in_words(&attacker.1));
                assert!(!attacker.1.join("init.pid").exists(), "{asks} {lie:?}: the runtime was run");
            }
        }
        assert_eq!((held(wrapped), wrapped.records().len()), (1, 1));
    });
}

/// A pod that was made while the gate was closed has a record that says so. Naming it, another pod that asks would
/// have run with the host's users behind an open gate.
#[test]
fn a_pod_does_not_leave_isolation_by_naming_a_pod_from_before_the_gate_was_open() {
    on_a_node(|host, wrapped| {
        wrapped.configure(Path::new(RUNC), "enable_user_namespace_annotation: false", "");
        let early = CrioPod::asking(host);
        let sandbox = early.sandbox();
        started(wrapped, &sandbox);
        wrapped.configure(Path::new(RUNC), "enable_user_namespace_annotation: true", "");
        let attacker =
            CrioPod::asking(host).with(CRIO_KIND, "container").with(CRIO_SANDBOX, &sandbox.0).sandbox();
        let output = wrapped.create(&attacker.1, &attacker.0);
        refused(wrapped, &output, &attacker);
        let own = started(wrapped, &early.container(&sandbox.0));
        assert_eq!(namespace(own, "user"), namespace(std::process::id(), "user"), "as its sandbox");
    });
}

#[test]
fn every_real_container_joins_its_sandbox_also_one_that_is_made_again() {
    on_a_node(|host, wrapped| {
        let crio = CrioPod::asking(host);
        let sandbox = crio.sandbox();
        let first = started(wrapped, &sandbox);
        for _ in 0..2 {
            let container = crio.container(&sandbox.0);
            let pid = started(wrapped, &container);
            for kind in ["user", "ipc", "uts", "net"] {
                assert_eq!(namespace(pid, kind), namespace(first, kind), "{kind}");
            }
            let words = ["--root", &root(wrapped), "exec", &container.0, "cat", "/proc/self/uid_map"];
            done(&wrapped.call(&words));
            done(&wrapped.call(&["--root", &root(wrapped), "delete", "--force", &container.0]));
        }
        // The pod's processes are one namespace, as with shareProcessNamespace.
        let sharing = crio.bundle(Some(&sandbox.0), |spec| {
            spec["linux"]["namespaces"][0]["path"] = json!(format!("/proc/{first}/ns/pid"));
        });
        assert_eq!(namespace(started(wrapped, &sharing), "pid"), namespace(first, "pid"));

        let mut pod = host.pod(0);
        let sandbox = asking(host, &pod, None, |_| {});
        let first = started(wrapped, &sandbox);
        pod.init = Some(first);
        for _ in 0..2 {
            let container = asking(host, &pod, Some(&sandbox.0), |_| {});
            assert_eq!(namespace(started(wrapped, &container), "user"), namespace(first, "user"));
            done(&wrapped.call(&["--root", &root(wrapped), "delete", "--force", &container.0]));
        }
        assert_eq!(held(wrapped), 2);
    });
}

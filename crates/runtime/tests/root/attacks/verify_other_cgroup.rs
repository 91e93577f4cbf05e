//! `wardlet verify` knew the pods of the built-in runtime by the name of their control group, `/wardlet/<id>`.
//!
//! A server that was started with another `--cgroup` has its pods elsewhere: `verify` saw none of them and exited with 0,
//! although the CRI endpoint lists them, and although a process of another user had an ID of a pod's block. It now knows them by
//! the records of the server, or by what the endpoint says; a sandbox that is ready and has no process is unseen (exit 2).

use std::path::Path;
use std::process::{Child, Command, Stdio};

use cri::NamespaceMode;
use serde_json::Value;

use crate::support::pods::{create, in_users, logged, options, pod, remove_pod, run_pod, shell, start};
use crate::support::{House, Options, until};

/// By what `verify` may know of a sandbox.
#[derive(Debug, Clone, Copy)]
enum Source {
    Records,
    Endpoint,
}

/// The exit code, and the answer about the whole node.
fn verify(house: &House, source: Source) -> (Option<i32>, Value) {
    let mut command = Command::new(testkit::programs().join("wardlet"));
    command.args(["verify", "-o", "json"]);
    match source {
        Source::Records => command.arg("--state-dir").arg(house.state()),
        Source::Endpoint => {
            let none = house.dir.join("no-state");
            command.args(["--runtime-endpoint", &house.socket().to_string()]).arg("--state-dir").arg(none)
        }
    };
    let output = command.output().unwrap();
    let report = serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {output:?}"));
    (output.status.code(), report)
}

#[track_caller]
fn found<'a>(report: &'a Value, uid: &str) -> &'a Value {
    let pods = report["pods"].as_array().unwrap();
    pods.iter().find(|pod| pod["uid"] == uid).unwrap_or_else(|| panic!("no {uid} in {report:#}"))
}

/// A process with an ID of a pod's block that is not of the pod.
struct Stranger(Child);

impl Stranger {
    fn with(id: u32) -> Self {
        let id = id.to_string();
        let mut command = Command::new("setpriv");
        command.args(["--reuid", &id, "--regid", &id, "--clear-groups", "sleep", "1000"]);
        Self(command.stdin(Stdio::null()).spawn().unwrap())
    }

    async fn runs(&self) {
        let comm = format!("/proc/{}/comm", self.0.id());
        until("setpriv becomes sleep", async || {
            (std::fs::read_to_string(Path::new(&comm)).unwrap().trim() == "sleep").then_some(())
        })
        .await;
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

async fn pods_elsewhere_are_judged(engine: &str) {
    let house = House::open(Options { engine: engine.into(), ..Options::default() }).await;
    let client = house.client().await;
    let first = house.users().start;
    let mut sandboxes = Vec::new();
    for (at, (name, processes)) in
        [("apart", NamespaceMode::Container), ("together", NamespaceMode::Pod)].into_iter().enumerate()
    {
        let mut config = in_users(pod(&house, name), first + u32::try_from(at).unwrap() * 65_536);
        options(&mut config).pid = processes.into();
        let sandbox = run_pod(&client, &config).await.unwrap();
        for tty in [false, true] {
            let container = format!("tty-{tty}");
            let mut wanted = shell(&container, "echo up; exec sleep 1000", &config);
            wanted.tty = tty;
            let id = create(&client, &sandbox, &wanted, &config).await.unwrap();
            start(&client, &id).await.unwrap();
            until("it is up", async || logged(&house, name, &container).contains("up").then_some(())).await;
        }
        sandboxes.push(sandbox);
    }
    let hosts = pod(&house, "hosts");
    let sandbox = run_pod(&client, &hosts).await.unwrap();
    let id = create(&client, &sandbox, &shell("main", "exec sleep 1000", &hosts), &hosts).await.unwrap();
    start(&client, &id).await.unwrap();
    sandboxes.push(sandbox);

    for source in [Source::Records, Source::Endpoint] {
        let (_, report) = verify(&house, source);
        for name in ["apart", "together"] {
            let pod = found(&report, &format!("uid-of-{name}"));
            assert_eq!(pod["verdict"], "isolated", "{source:?}: {report:#}");
            assert!(pod["mounts"].as_u64() > Some(2) && pod["processes"].as_u64() >= Some(2), "{pod:#}");
        }
        assert_eq!(found(&report, "uid-of-hosts")["verdict"], "notIsolated", "{source:?}: {report:#}");
        let unseen = report["unseen"].to_string();
        assert!(!sandboxes.iter().any(|id| unseen.contains(id)), "{source:?}: {report:#}");
    }
    let stranger = Stranger::with(first + 1000);
    stranger.runs().await;
    for source in [Source::Records, Source::Endpoint] {
        let (code, report) = verify(&house, source);
        let violations = report["violations"].as_array().unwrap();
        let named = |v: &&Value| v["what"] == "foreignProcess" && v["pid"] == stranger.0.id();
        assert!(code == Some(1) && violations.iter().any(|v| named(&v)), "{source:?}: {report:#}");
    }
    for sandbox in sandboxes {
        remove_pod(&client, &sandbox).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_of_a_server_with_another_cgroup_are_judged_with_libcontainer() {
    pods_elsewhere_are_judged("libcontainer").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_of_a_server_with_another_cgroup_are_judged_with_runc() {
    let which = Command::new("sh").args(["-c", "command -v runc"]).output().unwrap();
    let runc = String::from_utf8(which.stdout).unwrap();
    assert!(!runc.is_empty(), "this test needs runc");
    pods_elsewhere_are_judged(runc.trim()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ready_sandbox_without_a_process_is_unseen() {
    let house = House::open(Options::default()).await;
    let client = house.client().await;
    let config = in_users(pod(&house, "empty"), house.users().start);
    let sandbox = run_pod(&client, &config).await.unwrap();
    for source in [Source::Records, Source::Endpoint] {
        let (code, report) = verify(&house, source);
        assert_ne!(code, Some(0), "{source:?}: {report:#}");
        let unseen = report["unseen"].as_array().unwrap();
        assert!(
            unseen.iter().any(|text| text.as_str().unwrap().contains(&sandbox)),
            "{source:?}: {report:#}"
        );
    }
    remove_pod(&client, &sandbox).await;
    let (_, report) = verify(&house, Source::Records);
    assert!(!report["unseen"].to_string().contains(&sandbox), "{report:#}");
}

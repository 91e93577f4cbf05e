//! Sandboxes on containerd without a record: those of this state directory are removed, and no others.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use testkit::{Dice, rounds_or, wait_until};

use crate::foreign::Foreign;
use crate::run_support::{LASTING, Node, Running, text};

const JOB: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: job}\nspec: {restartPolicy: Never, containers: \
                   [{name: app, image: IMAGE, command: ['true']}]}\n";

/// The socket of the testbed's containerd, as this process reaches it.
fn socket(node: &Node) -> PathBuf {
    let inside = node.testbed.containerd_socket();
    let root = format!("/proc/{}/root", node.testbed.supervisor().unwrap().pid);
    PathBuf::from(root).join(inside.strip_prefix("/").unwrap())
}

fn uid(node: &Node) -> String {
    node.await_that("it runs", || node.json(&["ps"])[0]["phase"] == "Running");
    node.json(&["ps"])[0]["uid"].as_str().unwrap().to_owned()
}

/// `run` with another state directory on the same containerd.
fn neighbour(node: &Node, words: &[&str]) -> std::process::Command {
    let mut command = node.testbed.command(env!("CARGO_BIN_EXE_wardlet"));
    command.arg("--state-dir").arg(node.path("neighbour")).args(words);
    command.arg(format!("--run-dir={}", node.path("neighbour-run").display()));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

#[test]
fn sandboxes_of_pods_without_a_record_are_removed_from_containerd_and_no_others() {
    let node = Node::new();
    let mut foreign = Foreign::connect(&socket(&node));
    let theirs = foreign.make("foreign-1");
    // The neighbour's pod: its process is killed, and only its own state directory has a record of it.
    let endpoint = format!("--runtime-endpoint=unix://{}", node.testbed.containerd_socket().display());
    let beside = node.manifest("beside.yaml", &LASTING.replace("name: lasting", "name: beside"));
    let run = Running(Some(neighbour(&node, &["run", &endpoint, beside.to_str().unwrap()]).spawn().unwrap()));
    let is_up = || foreign.pods().iter().any(|pod| pod.ends_with("default/beside"));
    node.await_that("the neighbour's pod has a sandbox", is_up);
    drop(run);

    let file = node.manifest("pod.yaml", LASTING);
    let run = Running(Some(node.run(&[file.to_str().unwrap()]).spawn().unwrap()));
    let lost = uid(&node);
    drop(run);
    std::fs::remove_file(node.path("state/pods").join(&lost).join("agent.json")).unwrap();
    let job = node.manifest("job.yaml", JOB);
    let output = node.run(&[job.to_str().unwrap()]).output().unwrap();
    let said = text(&output);
    assert!(output.status.success(), "{said}");
    let line = said.lines().find(|line| line.contains(&lost)).unwrap_or_else(|| panic!("{said}"));
    assert!(
        line.contains("1 sandbox") && line.contains("default/lasting") && line.contains("no record"),
        "{line}"
    );
    let pods = foreign.pods();
    assert!(!pods.iter().any(|pod| pod.contains(&lost)), "{pods:?}");
    assert!(is_up() && foreign.ready().contains(&theirs), "{pods:?}");
    let leases = node.json(&["ids", "list"]);
    let held = leases.as_array().unwrap().iter().filter(|lease| lease["state"] == "leased");
    assert_eq!(held.count(), 0, "{leases}");

    let stopped = neighbour(&node, &["stop", "--all"]).output().unwrap();
    assert!(stopped.status.success(), "{}", text(&stopped));
    drop(foreign);
    let left: Vec<String> =
        node.leftovers().into_iter().filter(|left| !left.contains("/neighbour")).collect();
    assert_eq!(left, Vec::<String>::new());
}

/// The tasks of containerd whose process has been created, started or not.
fn tasks(node: &Node) -> usize {
    let state = socket(node).with_file_name("containerd/io.containerd.runtime.v2.task/k8s.io");
    let tasks = std::fs::read_dir(state).into_iter().flatten().flatten();
    tasks.count()
}

/// containerd calls a container ended whose client goes away between the creation of its process and its start, keeps the
/// process, and refuses to remove the container: such pods could never be stopped.
#[test]
fn a_pod_whose_agent_is_killed_while_containerd_starts_its_container_can_be_stopped() {
    let node = Node::new();
    let file = node.manifest("pod.yaml", LASTING);
    let mut dice = Dice::thrown("an agent killed while containerd starts a container");
    for round in 0..rounds_or(20) {
        let run = Running(Some(node.run(&[file.to_str().unwrap()]).spawn().unwrap()));
        // The first is the sandbox's.
        wait_until("the container has a task", || tasks(&node) >= 2);
        let instant = u64::try_from(dice.below(100)).unwrap();
        std::thread::sleep(Duration::from_millis(instant));
        drop(run);
        let places = node.places();
        let words = ["stop", "--all"].into_iter().chain(places.iter().map(String::as_str));
        let stopped = node.command(&words.collect::<Vec<_>>()).output().unwrap();
        assert!(stopped.status.success(), "round {round}, after {instant} ms: {}", text(&stopped));
        assert_eq!(node.leftovers(), Vec::<String>::new(), "round {round}, after {instant} ms");
    }
}

/// The other client's sandbox was stopped and removed with the pod's own.
#[test]
fn stop_leaves_a_sandbox_on_containerd_that_another_client_made_with_the_same_uid() {
    let node = Node::new();
    let mut foreign = Foreign::connect(&socket(&node));
    let file = node.manifest("pod.yaml", LASTING);
    let run = Running(Some(node.run(&[file.to_str().unwrap()]).spawn().unwrap()));
    let uid = uid(&node);
    let theirs = foreign.make(&uid);
    let places = node.places();
    let words: Vec<&str> = ["stop", "lasting"].into_iter().chain(places.iter().map(String::as_str)).collect();
    let stopped = node.command(&words).output().unwrap();
    assert!(stopped.status.success(), "{}", text(&stopped));
    drop(run);
    assert_eq!(foreign.ready(), [theirs]);
    drop(foreign);
    assert_eq!(node.leftovers(), Vec::<String>::new());
}

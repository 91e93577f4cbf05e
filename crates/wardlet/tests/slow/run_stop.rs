//! Pods that are ended: one of several, those whose process was killed, those that wait for an image.

use crate::run_support;

use std::net::TcpListener;
use std::os::fd::AsFd;
use std::process::Child;

use run_support::{LASTING, Node, Running, text};
use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap(), signal).unwrap();
}

fn named(name: &str) -> String {
    LASTING.replace("name: lasting", &format!("name: {name}"))
}

fn stop(node: &Node, more: &[&str]) -> String {
    let places = node.places();
    let words: Vec<&str> =
        [&["stop"], more].concat().into_iter().chain(places.iter().map(String::as_str)).collect();
    let output = node.command(&words).output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    text(&output)
}

fn names(node: &Node) -> Vec<String> {
    node.json(&["ps"]).as_array().unwrap().iter().map(|p| p["name"].as_str().unwrap().to_owned()).collect()
}

/// `stop` waited for the whole `run` once, of which only one pod was meant.
#[test]
fn one_pod_of_several_is_stopped_and_removed_while_the_others_go_on() {
    let node = Node::new();
    let file = node.manifest("pods.yaml", &format!("{}\n---\n{}", named("one"), named("two")));
    let running = Running(Some(node.run(&[file.to_str().unwrap()]).spawn().unwrap()));
    let is_up = |pod: &serde_json::Value| pod["phase"] == "Running";
    node.await_that("both run", || {
        let pods = node.json(&["ps"]);
        pods.as_array().unwrap().len() == 2 && pods.as_array().unwrap().iter().all(is_up)
    });
    let said = stop(&node, &["one"]);
    assert!(said.contains("default/one: ended and removed"), "{said}");
    assert_eq!(names(&node), ["two"]);
    let leased = node.json(&["ids", "list"]);
    let leased = leased.as_array().unwrap().iter().filter(|lease| lease["state"] == "leased");
    assert_eq!(leased.count(), 1, "the block of a pod that is gone");
    drop(running);
    node.await_that("it is left", || node.json(&["ps"])[0]["tended"] == false);
    stop(&node, &["--all"]);
    assert_eq!(node.leftovers(), Vec::<String>::new());
}

/// A pod that is taken on only to be ended has no plan and no block: whatever was started then had the host's users.
#[test]
fn nothing_of_a_left_pod_is_started_again_when_it_is_stopped() {
    let node = Node::new();
    let file = node.manifest("pod.yaml", LASTING);
    let running = Running(Some(node.run(&[file.to_str().unwrap()]).spawn().unwrap()));
    node.await_that("it runs", || node.json(&["ps"])[0]["phase"] == "Running");
    drop(running);
    let address = node.testbed.containerd_socket();
    let script = format!(
        "for task in $(ctr --address {0} -n k8s.io tasks ls -q); do ctr --address {0} -n k8s.io tasks kill -s KILL $task; done",
        address.display()
    );
    assert!(node.testbed.command("sh").args(["-c", &script]).status().unwrap().success());
    let said = stop(&node, &["lasting"]);
    assert!(said.contains("ended and removed") && !said.contains("started"), "{said}");
    assert_eq!(node.leftovers(), Vec::<String>::new(), "{said}");
}

/// Whoever was asked to end a pod was killed before it did.
#[test]
fn stop_ends_a_pod_itself_when_the_process_that_was_asked_to_dies() {
    let node = Node::new();
    let slow = LASTING.replace("trap 'exit 0' TERM", "trap '' TERM").replace("Seconds: 3", "Seconds: 20");
    let file = node.manifest("pod.yaml", &slow);
    let mut running = Running(Some(node.run(&[file.to_str().unwrap()]).spawn().unwrap()));
    node.await_that("it runs", || node.json(&["ps"])[0]["phase"] == "Running");
    std::thread::scope(|scope| {
        let stopping = scope.spawn(|| stop(&node, &["lasting", "--grace", "4"]));
        node.await_that("it ends", || node.json(&["ps"])[0]["status"]["stage"] == "Terminating");
        let mut child = running.0.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(stopping.join().unwrap().contains("ended and removed"));
    });
    assert_eq!(node.leftovers(), Vec::<String>::new());
}

/// Somebody in the testbed's network for whom the kernel takes connections, and who never looks.
fn silent_registry(node: &Node) -> TcpListener {
    let supervisor = node.testbed.supervisor().unwrap();
    let network = std::fs::File::open(format!("/proc/{}/ns/net", supervisor.pid)).unwrap();
    let bound = std::thread::spawn(move || {
        move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
        TcpListener::bind("127.0.0.1:0").unwrap()
    });
    bound.join().unwrap()
}

/// Nobody knows how long a registry takes.
#[test]
fn ctrl_c_does_not_wait_for_an_image() {
    let node = Node::new();
    let silent = silent_registry(&node);
    let image = format!("{}/silent:1", silent.local_addr().unwrap());
    let file = node.manifest("pod.yaml", &LASTING.replace("IMAGE", &image));
    let mut running = Running(Some(node.run(&[file.to_str().unwrap()]).spawn().unwrap()));
    node.await_that("it waits for its image", || {
        let pods = node.json(&["ps"]);
        pods[0]["status"]["containers"][0]["state"]["waiting"]["reason"] == "ContainerCreating"
    });
    let child = running.0.take().unwrap();
    signal(&child, Signal::INT);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", text(&output));
    assert_eq!(node.leftovers(), Vec::<String>::new(), "{}", text(&output));
}

#[test]
fn a_detached_pod_that_ends_at_once_is_no_failure_and_standard_input_is_no_file() {
    let node = Node::new();
    let quick = LASTING.replace("terminationGracePeriodSeconds: 3", "restartPolicy: Never");
    let at = quick.find("command: ").unwrap();
    let quick = format!("{}command: [\"true\"]\n    volumeMounts: []\n", &quick[..at]);
    let file = node.manifest("pod.yaml", &quick);
    let output = node.run(&[file.to_str().unwrap(), "--detach"]).output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    node.await_that("it is gone", || names(&node).is_empty());
    let output = node.run(&["-", "--detach"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output).contains("standard input cannot be read by a process in the background"));
    assert_eq!(node.leftovers(), Vec::<String>::new());
}

#[test]
fn whoever_interrupts_a_detached_start_has_no_pods_in_the_background() {
    let node = Node::new();
    let silent = silent_registry(&node);
    let image = format!("{}/silent:1", silent.local_addr().unwrap());
    let file = node.manifest("pod.yaml", &LASTING.replace("IMAGE", &image));
    let mut running = Running(Some(node.run(&[file.to_str().unwrap(), "--detach"]).spawn().unwrap()));
    node.await_that("it is looked after", || names(&node) == ["lasting"]);
    let child = running.0.take().unwrap();
    signal(&child, Signal::INT);
    let output = child.wait_with_output().unwrap();
    assert!(!output.status.success() && text(&output).contains("ending all pods"), "{}", text(&output));
    assert_eq!(node.leftovers(), Vec::<String>::new(), "{}", text(&output));
}

/// The end that it was asked for was forgotten with its process: the next one took what was left of the pod for its
/// result, and never ran it.
#[test]
fn a_pod_that_was_being_ended_when_its_process_was_killed_is_ended_and_started_anew() {
    let node = Node::new();
    let slow = LASTING.replace("trap 'exit 0' TERM", "trap '' TERM").replace("Seconds: 3", "Seconds: 8");
    let file = node.manifest("pod.yaml", &slow);
    let mut running = Running(Some(node.run(&[file.to_str().unwrap()]).spawn().unwrap()));
    node.await_that("it runs", || node.json(&["ps"])[0]["phase"] == "Running");
    let before = node.json(&["ps"])[0]["uid"].clone();
    signal(running.0.as_ref().unwrap(), Signal::INT);
    node.await_that("it ends", || node.json(&["ps"])[0]["status"]["stage"] == "Terminating");
    let mut child = running.0.take().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let mut again = Running(Some(node.run(&[file.to_str().unwrap()]).spawn().unwrap()));
    node.await_that("it runs anew", || {
        let pod = node.json(&["ps"])[0].clone();
        pod["phase"] == "Running" && pod["uid"] != before && pod["status"]["stage"] == "Syncing"
    });
    stop(&node, &["lasting", "--grace", "0"]);
    let output = again.0.take().unwrap().wait_with_output().unwrap();
    assert!(text(&output).contains("was being ended when it was left"), "{}", text(&output));
    assert_eq!(node.leftovers(), Vec::<String>::new());
}

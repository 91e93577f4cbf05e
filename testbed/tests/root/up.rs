//! Testbeds come up in seconds, several side by side, and leave nothing: not when ended, not when killed.

use crate::traces;

use std::process::{Command, Output};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use testbed::cluster::sweep::leftovers;
use testbed::{Part, Parts, ProcessId, Testbed, images, shared};
use traces::Traces;

fn output(command: &mut Command) -> Output {
    command.output().expect("a program that runs")
}

fn said(command: &mut Command) -> String {
    let output = output(command);
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The testbed's own program, as a contributor runs it.
fn program(arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_testbed"));
    let output = output(command.args(arguments));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn killed(process: Option<ProcessId>) {
    assert!(process.expect("a process").signal(Signal::KILL));
}

/// Waits until nothing is left; what is after `seconds` is returned.
fn left_after(traces: &Traces, seconds: u64) -> Vec<String> {
    let began = Instant::now();
    loop {
        let left = traces.left();
        if left.is_empty() || began.elapsed() > Duration::from_secs(seconds) {
            return left;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A container in the background: its shim is nobody's child any more.
fn detached_container(testbed: &Testbed) {
    let mut command = testbed.command("ctr");
    said(command.args(["run", "--detach", images::BUSYBOX, "sleeper", "sleep", "1000"]));
}

#[test]
fn two_control_planes_run_side_by_side_know_nothing_of_each_other_and_leave_nothing() {
    let began = Instant::now();
    let one = Testbed::start(Parts::control_plane()).expect("a control plane");
    let ready = began.elapsed();
    let two = Testbed::start(Parts::control_plane()).expect("another");
    said(one.command("kubectl").args(["create", "configmap", "only-here"]));
    let elsewhere = output(two.command("kubectl").args(["get", "configmap", "only-here"]));
    assert!(!elsewhere.status.success() && String::from_utf8_lossy(&elsewhere.stderr).contains("NotFound"));
    let traces = [Traces::of(&one), Traces::of(&two)];
    one.down().expect("down");
    assert_eq!(traces[0].left(), Vec::<String>::new());
    assert!(!traces[1].left().is_empty(), "the other one is still up");
    drop(two);
    assert_eq!(traces[1].left(), Vec::<String>::new());
    println!("ready after {:.1} s", ready.as_secs_f64());
    assert!(ready < Duration::from_secs(60), "ready only after {ready:?}");
}

#[test]
fn nodes_may_only_touch_what_is_their_own() {
    let testbed = Testbed::start(Parts::control_plane()).expect("a control plane");
    let kubeconfig = format!("--kubeconfig={}", testbed.node_kubeconfig().display());
    let foreign = output(testbed.command("kubectl").args([&kubeconfig, "get", "secrets", "-A"]));
    assert!(String::from_utf8_lossy(&foreign.stderr).contains("Forbidden"), "{foreign:?}");
    let node = r#"{"apiVersion":"v1","kind":"Node","metadata":{"name":"other"}}"#;
    let script = format!("echo '{node}' | kubectl {kubeconfig} create -f -");
    let other = output(testbed.command("sh").args(["-c", &script]));
    assert!(String::from_utf8_lossy(&other.stderr).contains("orbidden"), "{other:?}");
}

#[test]
fn the_keeper_cleans_up_after_a_supervisor_that_was_killed() {
    let testbed = Testbed::start(Parts::of(&[Part::Containerd])).expect("containerd");
    detached_container(&testbed);
    let traces = Traces::of(&testbed);
    killed(testbed.record().supervisor);
    assert_eq!(left_after(&traces, 20), Vec::<String>::new());
}

#[test]
fn the_next_command_cleans_up_after_everything_was_killed() {
    let testbed = Testbed::start(Parts::of(&[Part::Containerd])).expect("containerd");
    detached_container(&testbed);
    let traces = Traces::of(&testbed);
    killed(testbed.record().keeper);
    let daemons: Vec<_> = testbed.record().daemons.iter().map(|daemon| daemon.process).collect();
    let began = Instant::now();
    while daemons.iter().any(|daemon| daemon.alive()) {
        assert!(began.elapsed() < Duration::from_secs(10), "daemons outlive their supervisor");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(traces.processes().iter().any(|one| one.alive()), "the container is not ended by this alone");
    let words = program(&["status"]);
    assert!(words.contains(testbed.name()), "{words}");
    // The kernel frees a namespace a moment after its last process was reaped.
    assert_eq!(left_after(&traces, 5), Vec::<String>::new());
}

#[test]
fn what_was_run_inside_ends_with_the_testbed() {
    let testbed = Testbed::start(Parts::of(&[Part::Etcd])).expect("etcd");
    let mut sleeper = testbed.command("sleep").arg("1000").spawn().expect("a process inside");
    let began = Instant::now();
    let pid = i32::try_from(sleeper.id()).expect("a pid");
    while !Traces::of(&testbed).processes().iter().any(|one| one.pid == pid) {
        assert!(began.elapsed() < Duration::from_secs(10), "it is not in the testbed's cgroups");
    }
    let traces = Traces::of(&testbed);
    testbed.down().expect("down");
    assert!(!sleeper.wait().expect("its end").success());
    assert_eq!(traces.left(), Vec::<String>::new());
}

#[test]
fn a_failing_start_says_why_and_leaves_nothing() {
    let mut options = testbed::Options::from(Parts::of(&[Part::Etcd]));
    options.name = Some("Not-A-Name".into());
    assert!(Testbed::start(options).expect_err("a bad name").to_string().contains("Not-A-Name"));
    let one = Testbed::start(Parts::of(&[Part::Etcd])).expect("etcd");
    let mut options = testbed::Options::from(Parts::of(&[Part::Etcd]));
    options.name = Some(one.name().to_owned());
    let error = Testbed::start(options).expect_err("the name is taken");
    assert!(error.to_string().contains("already up"), "{error}");
    one.down().expect("the first one is untouched");
}

#[test]
fn a_shared_control_plane_is_one_for_all_and_ends_after_its_last_user() {
    let one = shared().expect("a control plane");
    let two = shared().expect("the same");
    assert_eq!(one.record().supervisor, two.record().supervisor);
    let traces = Traces::of(&one);
    drop(one);
    std::thread::sleep(Duration::from_secs(2));
    said(two.command("kubectl").args(["get", "namespaces"]));
    drop(two);
    assert_eq!(left_after(&traces, 60), Vec::<String>::new());
}

#[test]
fn leftovers_are_only_those_that_nobody_looks_after() {
    let testbed = Testbed::start(Parts::of(&[Part::Etcd])).expect("etcd");
    let cleaned = leftovers().expect("a sweep");
    assert!(!cleaned.contains(&testbed.name().to_owned()), "{cleaned:?}");
    testbed.down().expect("it was left alone");
}

//! `wardlet run --detach` of pods that do not start, that run already, or that cannot be isolated here.

use std::time::Instant;

use crate::machine::{Lan, Machine, Running, pod, text};

const SLEEPS: &str = "trap 'exit 0' TERM; while :; do sleep 0.1; done";

/// It waited for ever for a pod that was never up.
#[test]
fn a_detached_run_of_a_pod_that_cannot_start_returns_and_says_why() {
    let lan = Lan::new();
    let machine = Machine::new(&lan);
    let with_env = |name: &str| {
        let plain = pod(name, SLEEPS, "");
        let env = "env: [{name: A, valueFrom: {configMapKeyRef: {name: nowhere, key: a}}}], image: IMAGE";
        plain.replace("image: IMAGE", env)
    };
    let failing_init = "  initContainers:\n  - {name: init, image: IMAGE, imagePullPolicy: Never, command: [sh, -c, exit 3]}\n";
    let not_root = "  securityContext: {runAsNonRoot: true}\n";
    let absent = pod("absent", SLEEPS, "").replace("image: IMAGE", "image: localhost/absent:1");
    let unreachable = pod("unreachable", SLEEPS, "")
        .replace("image: IMAGE, imagePullPolicy: Never", "image: \"127.0.0.1:1/app:1\"");
    let pods = [
        ("keyless", with_env("keyless"), "CreateContainerConfigError"),
        ("absent", absent, "ErrImageNeverPull"),
        ("unreachable", unreachable, "Pull"),
        ("init", pod("init", SLEEPS, failing_init), "exited with code 3"),
        ("root", pod("root", SLEEPS, not_root), "runAsNonRoot"),
    ];
    let began = Instant::now();
    let start = |(name, manifest, cause): (&'static str, String, &'static str)| {
        let file = machine.manifest(&format!("{name}.yaml"), &manifest);
        (name, cause, machine.command(&["run", "-d", &file]).spawn().unwrap())
    };
    let runs: Vec<_> = pods.into_iter().map(start).collect();
    for (name, cause, child) in runs {
        let output = child.wait_with_output().unwrap();
        let said = text(&output);
        assert_eq!(output.status.code(), Some(1), "{name}: {said}");
        assert!(said.contains(&format!("error: pod default/{name} does not start: ")), "{said}");
        assert!(said.contains(cause), "{said}");
        assert!(said.contains(&format!("`wardlet stop default/{name}` ends it")), "{said}");
    }
    assert!(began.elapsed() < testkit::PATIENCE, "{:?}", began.elapsed());
    // They are tried again in the background.
    assert_eq!(machine.pods().iter().filter(|pod| pod["tended"] == true).count(), 5);
}

#[test]
fn a_detached_run_of_a_pod_that_fails_at_once_is_a_failure_whatever_the_others_do() {
    let lan = Lan::new();
    let machine = Machine::new(&lan);
    let init = "  restartPolicy: Never\n  initContainers:\n  - {name: init, image: IMAGE, imagePullPolicy: Never, command: [sh, -c, exit 7]}\n";
    let both = pod("bad", "exit 0", init) + &pod("good", SLEEPS, "");
    let output = machine.output(&["run", "-d", &machine.manifest("pods.yaml", &both)]);
    let said = text(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("error: pod default/bad failed: container init exited with code 7"), "{said}");
    machine.await_phase("good", "Running");
}

/// It ended with 0 because a pod of that name was up: the old one.
#[test]
fn a_detached_run_of_a_changed_pod_that_another_process_manages_is_refused() {
    let lan = Lan::new();
    let machine = Machine::new(&lan);
    let file = machine.manifest("pod.yaml", &pod("web", SLEEPS, ""));
    machine.done(&["run", "-d", &file]);
    let uid = machine.await_phase("web", "Running")["uid"].clone();
    let changed = machine.manifest("changed.yaml", &pod("web", "sleep 1000", ""));
    let output = machine.output(&["run", "-d", &changed]);
    let said = text(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("another process manages pod default/web") && said.contains("hint: "), "{said}");
    assert_eq!(machine.await_phase("web", "Running")["uid"], uid);
}

/// Its containers ended before they began, again and again, and no message said so.
#[test]
fn an_isolated_pod_below_a_directory_that_it_cannot_search_is_refused_with_the_directory() {
    let lan = Lan::new();
    let machine = Machine::new(&lan);
    let file = machine.manifest("pod.yaml", &pod("web", SLEEPS, ""));
    let run_dir = machine.path("run");
    let run = ["run", "-d", "--run-dir", run_dir.to_str().unwrap(), &file];
    machine.set_mode(0o700);
    let output = machine.output(&run);
    let said = text(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let home = machine.home().display().to_string();
    assert!(said.contains(&format!("cannot search {home}")), "{said}");
    assert!(said.contains(&format!("chmod o+x {home}")), "{said}");
    assert!(machine.pods().is_empty(), "{said}");

    // Pods with the host's users need no such permission.
    let host_users = pod("plain", SLEEPS, "").replace("hostUsers: false", "hostUsers: true");
    let plain = machine.manifest("plain.yaml", &host_users);
    machine.done(&["run", "-d", "--run-dir", run_dir.to_str().unwrap(), &plain]);
    machine.done(&["stop", "plain", "--run-dir", run_dir.to_str().unwrap(), "--grace", "1"]);

    machine.set_mode(0o711);
    machine.done(&run);
    // `verify` knows the pod by its name, whatever the run directory of its runtime is.
    let verified = machine.done(&["verify", "default/web"]);
    assert!(verified.contains("web"), "{verified}");
    machine.done(&["stop", "web", "--run-dir", run_dir.to_str().unwrap(), "--grace", "1"]);
}

/// The state directory alone may be closed: only what is in the run directory is reached by its path.
#[test]
fn an_isolated_pod_runs_with_a_state_directory_that_others_cannot_search() {
    let lan = Lan::new();
    let machine = Machine::new(&lan);
    machine.set_mode(0o700);
    let volumes = "  volumes: [{name: v, emptyDir: {}}]\n";
    let with_volume =
        pod("web", "touch /v/file && echo written; trap 'exit 0' TERM; sleep 1000 & wait", volumes)
            .replace("image: IMAGE", "volumeMounts: [{name: v, mountPath: /v}], image: IMAGE");
    let file = machine.manifest("pod.yaml", &with_volume);
    let _run = Running(machine.command(&["run", &file]).spawn().unwrap());
    machine.await_phase("web", "Running");
    testkit::wait_until("it has written", || text(&machine.output(&["logs", "web"])).contains("written"));
    machine.done(&["stop", "web", "--grace", "1"]);
}

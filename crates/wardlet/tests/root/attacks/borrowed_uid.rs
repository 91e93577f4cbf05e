//! Pods that name the UID of another pod or holder in their manifest, and runs after a `run` that was killed.

use serde_json::Value;

use crate::machine::{Lan, Machine, pod, text};

const SLEEPS: &str = "echo begun; trap 'exit 0' TERM; while :; do sleep 0.1; done";

fn thief(uid: &str) -> String {
    let named = format!("metadata: {{namespace: evil, name: thief, uid: {uid}}}");
    pod("thief", SLEEPS, "").replace("metadata: {name: thief}", &named)
}

#[track_caller]
fn refused(machine: &Machine<'_>, files: &[&str], owner: &str) {
    let output = machine.output(&[&["run", "-d"], files].concat());
    let said = text(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("pod evil/thief: metadata.uid") && said.contains(owner), "{said}");
    assert!(said.contains("hint: remove metadata.uid"), "{said}");
}

/// The pod ran with the victim's block, and its stop released it.
#[test]
fn a_pod_does_not_get_the_lease_of_another_holder_by_its_uid() {
    let lan = Lan::new();
    let machine = Machine::new(&lan);
    let victim = "5f3b1c1e-8d7a-4f60-9b0e-2a61d6a0c110";
    machine.done(&["ids", "lease", victim]);
    refused(&machine, &[&machine.manifest("thief.yaml", &thief(victim))], "another holder of a lease");
    let listed = machine.output(&["ids", "list", "-o", "json"]);
    let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
    assert!(listed.to_string().contains(r#""state":"leased""#), "{listed}");
    assert!(machine.pods().is_empty());

    // A UID that was its own before is no other's.
    let job = pod("job", "exit 0", "  restartPolicy: Never\n")
        .replace("{name: job}", "{name: job, uid: 5f3b1c1e-8d7a-4f60-9b0e-2a61d6a0c111}");
    let job = machine.manifest("job.yaml", &job);
    machine.done(&["run", &job]);
    machine.done(&["run", &job]);
}

/// The pod came first, then the lease of its name: the pod's stop released the lease, or `ids lease` gave out the pod's
/// block.
#[test]
fn a_pod_cannot_be_named_like_a_lease_that_an_administrator_takes_later() {
    let lan = Lan::new();
    let machine = Machine::new(&lan);
    refused(&machine, &[&machine.manifest("thief.yaml", &thief("db"))], "is not a UUID");
    let uid = "5f3b1c1e-8d7a-4f60-9b0e-2a61d6a0c112";
    let host = thief(uid).replace("hostUsers: false", "hostUsers: true");
    machine.done(&["run", "-d", &machine.manifest("host.yaml", &host)]);
    machine.done(&["ids", "lease", uid]);
    machine.done(&["stop", "evil/thief", "--grace", "0"]);
    let listed = machine.output(&["ids", "list", "-o", "json"]);
    let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
    assert_eq!(listed[0]["state"], "leased", "{listed}");
}

/// Both pods ran in one sandbox. A run that had adopted the first pod ended it when it refused the second.
#[test]
fn a_pod_whose_run_was_killed_keeps_its_uid_and_runs_on_when_another_is_refused() {
    let lan = Lan::new();
    let machine = Machine::new(&lan);
    let web = machine.manifest("web.yaml", &pod("web", SLEEPS, ""));
    let run = machine.start(&["run", &web]);
    let uid = machine.await_phase("web", "Running")["uid"].clone();
    drop(run);
    let thief = machine.manifest("thief.yaml", &thief(uid.as_str().unwrap()));
    refused(&machine, &[&thief], "pod default/web");
    refused(&machine, &[&web, &thief], "pod default/web");
    machine.done(&["run", "-d", &web]);
    assert_eq!(machine.await_phase("web", "Running")["uid"], uid);
    assert_eq!(machine.done(&["logs", "web"]).matches("begun").count(), 1);
}

/// It was refused: "runs already, with another definition".
#[test]
fn a_pod_that_was_being_replaced_when_its_run_was_killed_is_ended_and_started_anew() {
    let lan = Lan::new();
    let machine = Machine::new(&lan);
    let grace = "  terminationGracePeriodSeconds: 4\n";
    let web = machine.manifest("web.yaml", &pod("web", "trap '' TERM; while :; do sleep 0.1; done", grace));
    let run = machine.start(&["run", &web]);
    let uid = machine.await_phase("web", "Running")["uid"].as_str().unwrap().to_owned();
    machine.manifest("web.yaml", &pod("web", SLEEPS, ""));
    let request = machine.path("state/pods").join(&uid).join("stop.json");
    testkit::wait_until("it is being stopped", || request.exists());
    drop(run);
    machine.done(&["run", "-d", &web]);
    assert_ne!(machine.await_phase("web", "Running")["uid"], uid.as_str());
}

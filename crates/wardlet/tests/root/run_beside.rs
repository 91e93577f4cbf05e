//! `wardlet run` beside another one: with the same state directory, and with another.

use crate::machine::{Lan, Machine, pod, text};

const NEVER: &str = "  restartPolicy: Never\n";

/// The first process serves the runtime and ends; the second had connected to it, and failed with its first call.
#[test]
fn a_run_beside_one_that_ends_gets_the_next_server_of_the_runtime() {
    let lan = Lan::new();
    let machine = Machine::new(&lan);
    let file = |name: &str| machine.manifest(&format!("{name}.yaml"), &pod(name, "exit 0", NEVER));
    let (one, two, three) = (file("one"), file("two"), file("three"));
    for round in 0..8_u32 {
        let begin = |(number, file): (u32, &String)| {
            std::thread::sleep(std::time::Duration::from_millis(40) * round * number);
            machine.command(&["run", file]).spawn().unwrap()
        };
        let runs: Vec<_> = (0..).zip([&one, &two, &three]).map(begin).collect();
        for run in runs {
            let output = run.wait_with_output().unwrap();
            assert!(output.status.success(), "round {round}: {}", text(&output));
        }
    }
}

/// The second was refused: it had the bridge and the control group of the first.
#[test]
fn two_state_directories_on_one_host_run_pods_side_by_side() {
    let lan = Lan::new();
    let (one, two) = (Machine::new(&lan), Machine::new(&lan));
    let script = "trap 'exit 0' TERM; while :; do sleep 0.1; done";
    for machine in [&one, &two] {
        machine.done(&["run", "-d", &machine.manifest("pod.yaml", &pod("web", script, ""))]);
    }
    let address = |machine: &Machine<'_>| machine.await_phase("web", "Running")["addresses"][0].clone();
    let (first, second) = (address(&one), address(&two));
    let subnet =
        |address: &serde_json::Value| address.as_str().unwrap().rsplit_once('.').unwrap().0.to_owned();
    assert_ne!(subnet(&first), subnet(&second));
    // Each is known to its own state directory alone.
    for machine in [&one, &two] {
        assert_eq!(machine.pods().len(), 1);
        machine.done(&["exec", "web", "--", "true"]);
        machine.done(&["stop", "web"]);
    }
    // The bridge stays, and is found again.
    one.done(&["run", &one.manifest("job.yaml", &pod("job", "exit 0", NEVER))]);
}

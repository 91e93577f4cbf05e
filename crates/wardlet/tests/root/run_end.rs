//! What `wardlet run` says of the end of containers and pods, and what comes of a second run.

use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::attacks::left_pod::LeftPod;
use crate::machine::{Lan, Machine, pod, text};

/// The lines of stderr about ends of containers.
fn ends(said: &str) -> Vec<String> {
    said.lines().filter(|line| line.contains(": container ")).map(str::to_owned).collect()
}

/// Nothing was printed but the output of the containers.
#[test]
fn each_end_of_a_container_with_another_code_than_0_is_one_line() {
    let lan = Lan::new();
    let machine = Machine::new(&lan);
    let never = "  restartPolicy: Never\n";
    let file = machine.manifest("never.yaml", &pod("never", "exit 7", never));
    let output = machine.output(&["run", &file]);
    assert_eq!(output.status.code(), Some(7), "{}", text(&output));
    assert_eq!(ends(&text(&output)), ["warning: default/never: container app exited with code 7"]);

    let hungry = pod("hungry", "tail /dev/zero", never)
        .replace("image: IMAGE", "resources: {limits: {memory: 16Mi}}, image: IMAGE");
    let output = machine.output(&["run", &machine.manifest("hungry.yaml", &hungry)]);
    let expected = "warning: default/hungry: container app ended: OOMKilled, exit code 137";
    assert_eq!(ends(&text(&output)), [expected], "{}", text(&output));

    let fine = machine.output(&["run", &machine.manifest("fine.yaml", &pod("fine", "exit 0", never))]);
    assert!(fine.status.success() && ends(&text(&fine)).is_empty(), "{}", text(&fine));
}

#[test]
fn a_crash_loop_says_the_code_and_the_delay_of_each_restart_and_a_stop_is_no_news() {
    let lan = Lan::new();
    let machine = Machine::new(&lan);
    let file = machine.manifest("pod.yaml", &pod("crash", "exit 3", "  terminationGracePeriodSeconds: 1\n"));
    let mut run = machine.command(&["run", &file]).spawn().unwrap();
    let mut lines = BufReader::new(run.stderr.take().unwrap()).lines().map(Result::unwrap);
    let first = lines.find(|line| line.contains(": container ")).unwrap();
    assert_eq!(first, "warning: default/crash: container app exited with code 3");
    let second = lines.find(|line| line.contains(": container ")).unwrap();
    let expected = "warning: default/crash: container app exited with code 3; back-off 10s restarting failed container app";
    assert_eq!(second, expected);
    machine.done(&["stop", "crash"]);
    assert!(!run.wait().unwrap().success());
    assert_eq!(lines.find(|line| line.contains(": container ")), None);
}

/// It never ended: nothing was written, so that it was not noticed that nobody reads.
#[test]
fn logs_that_are_followed_end_with_the_reader_of_standard_output() {
    let left = LeftPod::new();
    std::fs::write(left.logs().join("0.log"), "2026-11-17T03:00:00Z stdout F one\n").unwrap();
    let mut logs = left.wardlet(&["logs", "-f", "evil"]).spawn().unwrap();
    let mut line = [0; 4];
    let mut stdout = logs.stdout.take().unwrap();
    stdout.read_exact(&mut line).unwrap();
    assert_eq!(&line, b"one\n");
    drop(stdout);
    assert!(logs.wait().unwrap().success());
}

#[test]
fn a_program_that_cannot_be_executed_has_a_shells_exit_code() {
    let lan = Lan::new();
    let machine = Machine::new(&lan);
    let file = machine.manifest("pod.yaml", &pod("web", "trap 'exit 0' TERM; sleep 1000 & wait", ""));
    machine.done(&["run", "-d", &file]);
    for (program, code) in [("nope", 127), ("/no/such", 127), ("/etc/passwd", 126), ("/etc", 126)] {
        let output = machine.output(&["exec", "web", "--", program]);
        assert_eq!(output.status.code(), Some(code), "{program}: {}", text(&output));
        assert!(text(&output).contains(program), "{}", text(&output));
    }
    let output = machine.output(&["exec", "web", "--", "sh", "-c", "exit 5"]);
    assert_eq!(output.status.code(), Some(5), "{}", text(&output));
}

/// The logs of the first run were printed again, and nothing was run.
#[test]
fn a_second_run_of_a_pod_whose_records_were_kept_runs_it_anew() {
    let lan = Lan::new();
    let machine = Machine::new(&lan);
    let script = "cat /proc/sys/kernel/random/uuid";
    let file = machine.manifest("pod.yaml", &pod("job", script, "  restartPolicy: Never\n"));
    let run = || {
        let output = machine.output(&["run", "--rm=false", &file]);
        assert!(output.status.success(), "{}", text(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    let (first, second) = (run(), run());
    assert!(first.starts_with("job/app | ") && first.lines().count() == 1, "{first}");
    assert!(second.starts_with("job/app | ") && second.lines().count() == 1, "{second}");
    assert_ne!(first, second);
    assert!(machine.done(&["logs", "job"]).contains(second.trim_start_matches("job/app | ").trim()));
}

#[test]
fn an_adopted_pod_prints_only_what_it_writes_from_now_on() {
    let lan = Lan::new();
    let machine = Machine::new(&lan);
    let script = "echo early; trap 'echo late; exit 0' TERM; while :; do sleep 0.1; done";
    let file = machine.manifest("pod.yaml", &pod("web", script, ""));
    let first = machine.start(&["run", &file]);
    testkit::wait_until("it has written", || text(&machine.output(&["logs", "web"])).contains("early"));
    drop(first);
    let second = machine.command(&["run", &file]).spawn().unwrap();
    testkit::wait_until("it is adopted", || machine.pods()[0]["tended"] == true);
    machine.done(&["stop", "web"]);
    let output = second.wait_with_output().unwrap();
    let said = text(&output);
    assert!(said.contains("web/app | late") && !said.contains("web/app | early"), "{said}");
}

/// For up to 30 seconds nothing was printed.
#[test]
fn a_stop_that_takes_time_says_what_it_waits_for() {
    let lan = Lan::new();
    let machine = Machine::new(&lan);
    let grace = "  terminationGracePeriodSeconds: 4\n";
    let stubborn = pod("web", "trap '' TERM; while :; do sleep 0.1; done", grace);
    let file = machine.manifest("pod.yaml", &stubborn);
    let mut run = machine.command(&["run", &file]);
    let run = run.stderr(Stdio::piped()).spawn().unwrap();
    machine.await_phase("web", "Running");
    let began = Instant::now();
    let stop = machine.done(&["stop", "web"]);
    assert!(began.elapsed() > Duration::from_secs(3), "{stop}");
    let waits = "default/web: waiting for its containers to end, at most 4 s (grace period)";
    assert!(stop.contains(waits), "{stop}");
    drop(run.wait_with_output());

    let run = machine.command(&["run", &file]).spawn().unwrap();
    machine.await_phase("web", "Running");
    let interrupted = std::process::Command::new("kill").args(["-INT", &run.id().to_string()]).status();
    assert!(interrupted.unwrap().success());
    let said = text(&run.wait_with_output().unwrap());
    assert!(said.contains("stopping all pods (Ctrl-C again to kill them): default/web within 4 s"), "{said}");
}

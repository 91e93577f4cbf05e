//! What containers of `wardlet agent` leave: rotated logs, and instances that have ended.

use std::fs;
use std::path::PathBuf;

use serde_json::json;
use testbed::Part;
use testkit::wait_for;

use crate::cluster::pods::bound_pod;
use crate::cluster::{Agent, Cluster, Runtime, is_true, uid};

/// A pod whose container writes about 200 kB a second.
const WRITES: &str =
    "trap 'exit 0' TERM; while :; do head -c 20000 /dev/zero | tr '\\0' x; echo; sleep 0.1; done";

fn start(runtime: Runtime, flags: &[&str]) -> (Cluster, Agent) {
    let mut cluster = Cluster::of(runtime, &[Part::ControllerManager, Part::Scheduler]);
    cluster.kubelet = json!({
        "containerLogMaxSize": "100Ki", "containerLogMaxFiles": 4, "containerLogMonitorInterval": "3s",
        "crashLoopBackOff": {"maxContainerRestartPeriod": "1s"},
    });
    cluster.flags = flags.iter().map(|&flag| flag.to_owned()).collect();
    cluster.import();
    let agent = cluster.agent();
    cluster.await_node_ready();
    (cluster, agent)
}

/// The directory of the logs of a pod's only container.
fn logs(cluster: &Cluster, pod: &str) -> PathBuf {
    let found = wait_for("the pod is there", || cluster.get(&format!("pod {pod}")));
    cluster.path(&format!("logs/pods/default_{pod}_{}/app", uid(&found)))
}

fn names(dir: &PathBuf) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

fn rotates(runtime: Runtime) {
    let (cluster, _agent) = start(runtime, &[]);
    cluster.apply(&bound_pod("writer", WRITES));
    let dir = logs(&cluster, "writer");
    let found = wait_for("the log was rotated often", || {
        let names = names(&dir);
        (names.iter().filter(|name| name.ends_with(".gz")).count() == 2).then_some(names)
    });
    // The current file, the newest rotated one, and two that are compressed.
    assert!(found.len() <= 5 && found.contains(&"0.log".to_owned()), "{found:?}");
    let compressed = found.iter().find(|name| name.ends_with(".gz")).unwrap();
    let stamp = compressed.strip_prefix("0.log.").unwrap().strip_suffix(".gz").unwrap();
    assert!(stamp.len() == 15 && stamp.as_bytes()[8] == b'-', "{compressed}");
    // It is removed by a later rotation, perhaps just now.
    if let Ok(bytes) = fs::read(dir.join(compressed)) {
        assert_eq!(bytes[..2], [0x1f, 0x8b]);
    }
    let most = wait_for("the oldest goes", || {
        let names = names(&dir);
        (!names.contains(compressed)).then_some(names.len())
    });
    assert!(most <= 5, "{most}");
    assert!(cluster.kubectl("logs writer --tail=1").trim_end().ends_with('x'));
    cluster.kubectl("delete pod writer --timeout=60s");
}

#[test]
fn logs_are_rotated_and_compressed_on_the_built_in_runtime() {
    rotates(Runtime::BuiltIn);
}

#[test]
fn logs_are_rotated_and_compressed_on_containerd() {
    rotates(Runtime::Containerd);
}

#[test]
fn a_log_that_was_removed_by_hand_is_made_again() {
    let (cluster, _agent) = start(Runtime::BuiltIn, &[]);
    cluster.apply(&bound_pod("teller", "trap 'exit 0' TERM; while :; do echo told; sleep 0.2; done"));
    wait_for("it runs", || cluster.get("pod teller").filter(|pod| is_true(pod, "Ready")));
    let log = logs(&cluster, "teller").join("0.log");
    fs::remove_file(&log).unwrap();
    wait_for("the log is there again", || fs::read_to_string(&log).ok().filter(|text| text.contains("told")));
    cluster.kubectl("delete pod teller --timeout=60s");
}

#[test]
fn as_many_ended_instances_are_kept_as_the_flags_say() {
    let attempts = |cluster: &Cluster, pod: &str| -> Vec<u32> {
        let names = names(&logs(cluster, pod));
        let mut all: Vec<u32> =
            names.iter().filter_map(|name| name.strip_suffix(".log")?.parse().ok()).collect();
        all.sort_unstable();
        all
    };
    let crashing = |cluster: &Cluster| {
        cluster.apply(&bound_pod("crasher", "sleep 0.2; exit 1"));
        wait_for("it was restarted five times", || {
            let pod = cluster.get("pod crasher")?;
            (pod["status"]["containerStatuses"][0]["restartCount"].as_u64()? >= 5).then_some(())
        });
    };
    let (cluster, _agent) = start(Runtime::BuiltIn, &["--maximum-dead-containers-per-container=3"]);
    crashing(&cluster);
    let kept = attempts(&cluster, "crasher");
    // The newest instance, three that ended before it, and one that is about to go.
    assert!((3..=5).contains(&kept.len()), "{kept:?}");
    assert!(kept.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{kept:?}");
    cluster.kubectl("delete pod crasher --timeout=60s --grace-period=0 --force");
}

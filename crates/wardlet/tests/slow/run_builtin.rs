//! `wardlet run` on the built-in runtime, in the same process.

use crate::run_support;

use run_support::{ISOLATED, LASTING, Node, Running, text};

#[test]
fn an_isolated_pod_runs_on_the_built_in_runtime_and_leaves_nothing() {
    let node = Node::built_in();
    let file = node.manifest("pod.yaml", ISOLATED);
    let output = node.run(&[file.to_str().unwrap()]).output().unwrap();
    let (all, out) = (text(&output), String::from_utf8_lossy(&output.stdout).into_owned());
    assert_eq!(output.status.code(), Some(7), "{all}");
    let map = out.lines().find_map(|l| l.strip_prefix("web/app | map ")).expect(&all);
    let numbers: Vec<u64> = map.split_whitespace().map(|n| n.parse().unwrap()).collect();
    assert!(numbers[0] == 0 && numbers[1] >= 65_536 && numbers[2] == 65_536, "{map}");
    assert!(out.contains("web/app | config green secret hunter2 self app=\"web\""), "{all}");
    assert!(out.contains("web/app | owner 0"), "{all}");
    assert_eq!(node.leftovers(), Vec::<String>::new(), "{all}");
}

/// Process and runtime die at once; the pod goes on, and `stop` brings the runtime back to end it.
#[test]
fn a_pod_outlives_a_killed_run_with_its_runtime_and_can_be_stopped() {
    let node = Node::built_in();
    let file = node.manifest("pod.yaml", LASTING);
    let pod = || node.json(&["ps"])[0].clone();
    let is_up = |tended: bool| pod()["phase"] == "Running" && pod()["tended"] == tended;
    let running = Running(Some(node.run(&[file.to_str().unwrap()]).spawn().unwrap()));
    node.await_that("it runs", || is_up(true));
    let exec = node.command(&["exec", "lasting", "--", "cat", "/proc/self/uid_map"]).output().unwrap();
    let base = pod()["uidMappings"][0]["hostId"].to_string();
    assert!(String::from_utf8_lossy(&exec.stdout).contains(&base), "{}", text(&exec));
    // The run directory is not the usual one, and no endpoint is named: the runtime's records name the pod. (Pods of
    // other tests may have the same block.)
    for name in ["lasting", "default/lasting"] {
        let report = node.json(&["verify", name]);
        assert_eq!(report["pods"][0]["name"], "lasting", "{report}");
        assert_eq!(report["pods"][0]["block"]["hostId"].to_string(), base, "{report}");
    }
    drop(running);
    node.await_that("it is left", || is_up(false));
    let places = node.places();
    let words: Vec<&str> = ["stop", "lasting"].into_iter().chain(places.iter().map(String::as_str)).collect();
    let stop = node.command(&words).output().unwrap();
    assert!(stop.status.success(), "{}", text(&stop));
    assert_eq!(node.leftovers(), Vec::<String>::new(), "{}", text(&stop));
}

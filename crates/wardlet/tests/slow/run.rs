//! `wardlet run` on a real containerd: pods from their manifests to the last trace of them.

use crate::run_support;

use run_support::{ISOLATED, LASTING, Node, Running, text};

#[test]
fn an_isolated_pod_with_ephemeral_volumes_runs_ends_with_its_code_and_leaves_nothing() {
    let node = Node::new();
    let file = node.manifest("pod.yaml", ISOLATED);
    let calls = node.path("calls.json");
    let words = [file.to_str().unwrap(), "--calls", calls.to_str().unwrap()];
    let output = node.run(&words).output().unwrap();
    let (all, out) = (text(&output), String::from_utf8_lossy(&output.stdout).into_owned());
    assert_eq!(output.status.code(), Some(7), "{all}");
    let map = out.lines().find_map(|l| l.strip_prefix("web/app | map ")).expect(&all);
    let numbers: Vec<u64> = map.split_whitespace().map(|n| n.parse().unwrap()).collect();
    assert!(numbers[0] == 0 && numbers[1] >= 65_536 && numbers[2] == 65_536, "{map}");
    assert!(out.contains("web/app | colour green $(date)"), "{all}");
    assert!(out.contains("web/app | config green secret hunter2 self app=\"web\""), "{all}");
    assert!(out.contains("web/app | owner 0"), "{all}");
    assert!(all.contains("default/web") && all.contains("HOST IDS"), "{all}");
    assert_eq!(node.leftovers(), Vec::<String>::new(), "{all}");
    asked_as_planned(&node, file.to_str().unwrap(), &calls);
}

/// Every mount that explain prints was asked for with the map of the pod's block, if it says so.
fn asked_as_planned(node: &Node, file: &str, calls: &std::path::Path) {
    let planned = node.json(&["explain", file]);
    let lines = std::fs::read_to_string(calls).unwrap();
    let mut asked: Vec<serde_json::Value> = lines.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    asked.retain(|call| call.get("kernel").is_none());
    let names: Vec<&str> = asked.iter().map(|call| call["call"].as_str().unwrap()).collect();
    assert_eq!(names, ["RunPodSandbox", "CreateContainer"]);
    let users = &asked[0]["userNamespace"];
    assert_eq!((&users["mode"], users), (&"Pod".into(), &asked[1]["userNamespace"]));
    assert_eq!(planned["pods"][0]["userNamespace"]["mode"], "own");
    let mounts = asked[1]["mounts"].as_array().unwrap();
    let of_plan = planned["pods"][0]["mounts"].as_array().unwrap();
    assert_eq!(of_plan.len(), 5);
    for mount in of_plan {
        let found = mounts.iter().find(|m| m["path"] == mount["path"]).expect("planned and not asked for");
        let is_mapped = found["uids"] == users["uids"] && found["gids"] == users["gids"];
        assert_eq!(mount["idmap"] == "own", is_mapped, "{mount} {found}");
    }
}

#[test]
fn a_misspelt_field_is_refused_and_nothing_is_started() {
    let node = Node::new();
    let file = node.manifest("pod.yaml", &ISOLATED.replace("hostUsers", "hostUser"));
    let output = node.run(&[file.to_str().unwrap()]).output().unwrap();
    let all = text(&output);
    assert_eq!(output.status.code(), Some(2), "{all}");
    assert!(all.contains("unknown field hostUser") && all.contains("did you mean hostUsers?"), "{all}");
    assert_eq!(node.leftovers(), Vec::<String>::new(), "{all}");
}

const ORDERED: &str = r#"
apiVersion: v1
kind: ConfigMap
metadata: {name: live}
data: {value: first}
---
apiVersion: v1
kind: Pod
metadata: {name: ordered}
spec:
  hostUsers: false
  terminationGracePeriodSeconds: 5
  volumes: [{name: live, configMap: {name: live}}, {name: shared, emptyDir: {}}]
  initContainers:
  - {name: first, image: IMAGE, command: [sh, -c, "echo first > /shared/order"], volumeMounts: [{name: shared, mountPath: /shared}]}
  - name: sidecar
    image: IMAGE
    restartPolicy: Always
    command: [sh, -c, "echo sidecar >> /shared/order; trap 'exit 0' TERM; while :; do sleep 0.1; done"]
    startupProbe: {exec: {command: [grep, sidecar, /shared/order]}, periodSeconds: 1}
    volumeMounts: [{name: shared, mountPath: /shared}]
  containers:
  - name: app
    image: IMAGE
    command: [sh, -c, "echo app >> /shared/order; echo order $(cat /shared/order); trap 'exit 0' TERM; while :; do echo value $(cat /live/value); sleep 0.2; done"]
    readinessProbe: {exec: {command: ["true"]}, periodSeconds: 1}
    volumeMounts: [{name: shared, mountPath: /shared}, {name: live, mountPath: /live}]
---
apiVersion: v1
kind: Pod
metadata: {name: restarts}
spec:
  hostUsers: false
  containers:
  - name: app
    image: IMAGE
    command: [sh, -c, "trap 'exit 0' TERM; while :; do sleep 0.1; done"]
    livenessProbe: {exec: {command: ["false"]}, periodSeconds: 1, failureThreshold: 1, terminationGracePeriodSeconds: 2}
"#;

/// Two pods in the foreground, looked at by the other commands, ended by Ctrl-C.
#[test]
fn pods_with_init_sidecar_probes_and_updates_end_cleanly_on_ctrl_c() {
    let node = Node::new();
    let file = node.manifest("pods.yaml", ORDERED);
    let child = node.run(&[file.to_str().unwrap(), "--quiet"]).spawn().unwrap();
    let mut running = Running(Some(child));
    let ps = || node.json(&["ps"]);
    let find = |name: &str| ps().as_array().unwrap().iter().find(|p| p["name"] == name).cloned();
    let container = |name: &str| find(name).map(|p| p["status"]["containers"][0].clone());
    node.await_that("ordered is ready", || container("ordered").is_some_and(|c| c["ready"] == true));
    let logs = |words: &[&str]| text(&node.command(&[&["logs"], words].concat()).output().unwrap());
    node.await_that("its log", || logs(&["ordered", "-c", "app"]).contains("order first sidecar app"));

    node.manifest("pods.yaml", &ORDERED.replace("value: first", "value: second"));
    node.await_that("the update inside", || logs(&["ordered", "-c", "app"]).contains("value second"));

    node.await_that("a restart by its probe", || container("restarts").is_some_and(|c| c["restarts"] != 0));
    let blocks: Vec<_> =
        ["ordered", "restarts"].map(|name| find(name).unwrap()["uidMappings"].clone()).into();
    assert_ne!(blocks[0], blocks[1], "two pods on one block");
    let exec =
        node.command(&["exec", "ordered", "-c", "app", "--", "sh", "-c", "cat /proc/self/uid_map; exit 3"]);
    let exec = { exec }.output().unwrap();
    assert_eq!(exec.status.code(), Some(3), "{}", text(&exec));
    let base = blocks[0][0]["hostId"].to_string();
    assert!(String::from_utf8_lossy(&exec.stdout).contains(&base), "{}", text(&exec));

    let second = node.run(&[file.to_str().unwrap()]).output().unwrap();
    assert!(
        !second.status.success() && text(&second).contains("another process manages pod"),
        "{}",
        text(&second)
    );

    let child = running.0.take().unwrap();
    // nsenter is replaced by the program: the same process.
    rustix::process::kill_process(
        rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap(),
        rustix::process::Signal::INT,
    )
    .unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", text(&output));
    assert_eq!(node.leftovers(), Vec::<String>::new(), "{}", text(&output));
}

/// The process is killed, the pod goes on; the next one takes it over as it is, and `stop` ends it.
#[test]
fn a_pod_whose_process_was_killed_is_taken_over_and_can_be_stopped() {
    let node = Node::new();
    let file = node.manifest("pod.yaml", LASTING);
    let pod = || node.json(&["ps"])[0].clone();
    let born = || text(&node.command(&["exec", "lasting", "--", "cat", "/scratch/born"]).output().unwrap());
    let is_up = |tended: bool| pod()["phase"] == "Running" && pod()["tended"] == tended;

    let first = Running(Some(node.run(&[file.to_str().unwrap()]).spawn().unwrap()));
    node.await_that("it runs", || is_up(true));
    let (before, block) = (born(), pod()["uidMappings"].clone());
    drop(first);
    node.await_that("it is left", || is_up(false));
    assert_eq!(born(), before);

    let second = Running(Some(node.run(&[file.to_str().unwrap()]).spawn().unwrap()));
    node.await_that("it is taken over", || is_up(true));
    assert_eq!((born(), pod()["uidMappings"].clone()), (before.clone(), block.clone()));
    drop(second);
    node.await_that("it is left again", || is_up(false));

    let run_dir = node.run_dir();
    let stop = node.command(&["stop", "lasting", "--run-dir", run_dir.to_str().unwrap()]).output().unwrap();
    assert!(stop.status.success(), "{}", text(&stop));
    assert_eq!(node.leftovers(), Vec::<String>::new(), "{}", text(&stop));
}

#[test]
fn a_detached_pod_stays_and_is_stopped_by_name() {
    let node = Node::new();
    let file = node.manifest("pod.yaml", LASTING);
    let output = node.run(&[file.to_str().unwrap(), "--detach"]).output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    assert!(String::from_utf8_lossy(&output.stdout).contains("default/lasting"), "{}", text(&output));
    assert_eq!(node.json(&["ps"])[0]["tended"], true);
    let stop = node.command(&["stop", "default/lasting"]).output().unwrap();
    assert!(stop.status.success(), "{}", text(&stop));
    assert_eq!(node.leftovers(), Vec::<String>::new(), "{}", text(&stop));
}

#[test]
fn isolate_says_which_pods_were_left_and_why() {
    let node = Node::new();
    let pod = |name: &str, more: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n  restartPolicy: Never\n  containers:\n  - {{name: app, image: IMAGE, command: [cat, /proc/self/uid_map]{more}}}\n---\n"
        )
    };
    let privileged = ", securityContext: {privileged: true}";
    let file = node.manifest("pods.yaml", &(pod("plain", "") + &pod("mighty", privileged)));
    let output = node.run(&[file.to_str().unwrap(), "--isolate"]).output().unwrap();
    let (all, out) = (text(&output), String::from_utf8_lossy(&output.stdout).into_owned());
    assert!(output.status.success(), "{all}");
    let length = |name: &str| {
        let line = out.lines().find(|l| l.starts_with(&format!("{name}/app | "))).expect(&all);
        line.split_whitespace().last().unwrap().to_owned()
    };
    assert_eq!((length("plain").as_str(), length("mighty").as_str()), ("65536", "4294967295"), "{all}");
    assert!(all.contains("default/mighty keeps the host's users") && all.contains("privileged"), "{all}");
    assert_eq!(node.leftovers(), Vec::<String>::new(), "{all}");
}

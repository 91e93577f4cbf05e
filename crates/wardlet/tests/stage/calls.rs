//! What was asked of the runtime, and what the kernel shows of it, against what `explain` had said.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;

use super::{By, Stage, kernel_calls};

/// Files that the node gives to every container; they are nobody's volumes.
const NODES_OWN: [&str; 2] = ["/etc/hosts", "/dev/termination-log"];

/// The recorded calls equal the plan: for every pod a sandbox and for every container itself, all of them in the
/// planned user namespace, and every mount that was planned, through the maps or not, relabelled or not, read-only or not
/// and with the propagation as planned, and no other; of the kernel a trial of every idmap and every mount of the node's own that this takes.
pub(crate) fn are_as_planned(stage: &Stage, file: &Path) {
    let planned = explained(stage, file);
    let lines = std::fs::read_to_string(stage.path("calls")).unwrap();
    let calls: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let pods = planned["pods"].as_array().unwrap();
    assert_eq!(kernel_calls::differences(pods, &calls), Vec::<String>::new(), "{lines}");
    let asked: Vec<Value> = calls.into_iter().filter(|call| call.get("kernel").is_none()).collect();
    assert_eq!(names(&asked, "pod"), names(pods, "name"), "{lines}");
    let mut own_blocks = BTreeSet::new();
    for pod in pods {
        let of_pod: Vec<&Value> = asked.iter().filter(|call| call["pod"] == pod["name"]).collect();
        let block = user_namespace(pod, &of_pod);
        if pod["userNamespace"]["mode"] == "own" {
            assert!(own_blocks.insert(block.clone()), "two pods on {block}");
        }
        of_pod.iter().filter(|call| call["call"] == "CreateContainer").for_each(|call| mounts(pod, call));
    }
}

/// What `explain` says of the runtime that runs the pods.
fn explained(stage: &Stage, file: &Path) -> Value {
    let (endpoint, file) = (stage.endpoint(), file.to_str().unwrap());
    let of_containerd = ["explain", "--runtime-endpoint", &endpoint, file];
    let words = if stage.by == By::Containerd { &of_containerd[..] } else { &["explain", file] };
    let planned = stage.json(words);
    assert!(!planned["notes"].to_string().contains("was not asked"), "{planned}");
    planned
}

fn names(of: &[Value], field: &str) -> BTreeSet<String> {
    of.iter().map(|one| one[field].as_str().unwrap().to_owned()).collect()
}

/// The same for the sandbox and all containers; the answer is its map, for comparison.
fn user_namespace(pod: &Value, calls: &[&Value]) -> String {
    assert_eq!(calls[0]["call"], "RunPodSandbox");
    assert!(calls.len() > 1, "no container was made of {pod}");
    let asked = &calls[0]["userNamespace"];
    assert!(calls.iter().all(|call| call["userNamespace"] == *asked), "{calls:?}");
    let wanted = &pod["userNamespace"];
    let length = |kind: &str| -> u64 {
        asked[kind].as_array().unwrap().iter().map(|line| line[2].as_u64().unwrap()).sum()
    };
    let (mode, ids) = match wanted["mode"].as_str().unwrap() {
        "host" => ("Node", 0),
        _ => ("Pod", wanted["length"].as_u64().unwrap()),
    };
    assert_eq!(
        (asked["mode"].as_str().unwrap(), length("uids"), length("gids")),
        (mode, ids, ids),
        "{asked}"
    );
    asked["uids"].to_string()
}

fn mounts(pod: &Value, call: &Value) {
    let by_path = |list: &Value, of: &dyn Fn(&Value) -> bool| -> BTreeMap<String, Value> {
        let list = list.as_array().unwrap().iter().filter(|one| of(one));
        list.map(|one| (one["path"].as_str().unwrap().to_owned(), one.clone())).collect()
    };
    let planned = by_path(&pod["mounts"], &|mount| mount["container"] == call["container"]);
    let asked = by_path(&call["mounts"], &|mount| !NODES_OWN.contains(&mount["path"].as_str().unwrap()));
    assert_eq!(planned.keys().collect::<Vec<_>>(), asked.keys().collect::<Vec<_>>(), "{call}");
    for (path, planned) in &planned {
        let (found, users) = (&asked[path], &call["userNamespace"]);
        let is_mapped = found["uids"] != serde_json::json!([]);
        assert_eq!(planned["idmap"] == "own", is_mapped, "{planned} {found}");
        assert_eq!(planned["label"]["how"] == "relabel", found["relabel"] == true, "{planned} {found}");
        if let Some(context) = planned["label"]["context"].as_str() {
            // USER:ROLE:TYPE:LEVEL, and only a level has colons of its own.
            let level = |label: &str| label.splitn(4, ':').nth(3).map(str::to_owned);
            let of_container = call["selinux"].as_str().and_then(level);
            assert_eq!(level(context), of_container, "{planned} {call}");
        }
        for asked in ["readOnly", "recursiveReadOnly", "propagation"] {
            assert_eq!(planned[asked], found[asked], "{asked}: {planned} {found}");
        }
        if is_mapped {
            assert_eq!((&found["uids"], &found["gids"]), (&users["uids"], &users["gids"]), "{found}");
        }
    }
}

/// The kernel's own record: in every process of the pods, what is planned to be idmapped is, and nothing else.
pub(crate) fn are_as_the_kernel_shows(stage: &Stage, file: &Path) {
    let planned = explained(stage, file);
    for pod in planned["pods"].as_array().unwrap() {
        let tables = mount_tables(stage, pod["name"].as_str().unwrap());
        for mount in pod["mounts"].as_array().unwrap() {
            let path = mount["path"].as_str().unwrap();
            let shown: Vec<bool> = tables.iter().filter_map(|table| is_idmapped(table, path)).collect();
            assert!(!shown.is_empty(), "no process of {} has {path}", pod["name"]);
            assert!(shown.iter().all(|shown| *shown == (mount["idmap"] == "own")), "{mount}");
        }
    }
}

fn mount_tables(stage: &Stage, pod: &str) -> Vec<String> {
    let table = |pid| std::fs::read_to_string(format!("/proc/{pid}/mountinfo")).ok();
    stage.processes(pod).into_iter().filter_map(table).collect()
}

/// Nothing if there is no such mount.
fn is_idmapped(table: &str, path: &str) -> Option<bool> {
    let fields = |line: &str| -> Option<(String, String)> {
        let mut words = line.split(' ').skip(4);
        Some((words.next()?.to_owned(), words.next()?.to_owned()))
    };
    // The last one lies on top.
    let (_, options) = table.lines().rev().filter_map(fields).find(|(point, _)| point == path)?;
    Some(options.split(',').any(|option| option == "idmapped"))
}

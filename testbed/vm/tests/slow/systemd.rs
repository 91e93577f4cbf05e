//! `wardlet agent` on a machine whose process 1 is systemd and whose cgroups are of version 2 alone: pods in slices and
//! containers in scopes of systemd.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;
use testkit::wait_for;
use vm::Init;

use crate::agent_guest::{Machine, SERVICE, uid};

const SLICES: [&str; 3] = ["kubepods.slice", "kubepods-burstable.slice", "kubepods-besteffort.slice"];
const LIMITS: [&str; 4] = ["memory.max", "cpu.weight", "pids.max", "cpu.max"];

/// The slice of a pod.
fn slice(class: &str, name: &str) -> String {
    format!("kubepods{class}-pod{}.slice", uid(name).replace('-', "_"))
}

/// Properties of a unit.
fn unit(machine: &Machine, name: &str) -> BTreeMap<String, String> {
    let text = machine.done(&format!("systemctl show {name}"));
    let properties = text.lines().filter_map(|line| line.split_once('='));
    properties.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

/// The units of pods and containers that are loaded.
fn units(machine: &Machine) -> BTreeSet<String> {
    let text = machine.done("systemctl list-units --all --plain --no-legend 'kubepods*' 'wardlet-*.scope'");
    text.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

/// The processes of each cgroup of a pod, and its limits.
fn places(machine: &Machine) -> String {
    let files = "cgroup.procs cgroup.subtree_control memory.max memory.high memory.swap.max memory.oom.group pids.max \
                 cpu.weight cpu.max cpuset.cpus hugetlb.2MB.max";
    let names: Vec<String> = files.split_whitespace().map(|name| format!("-name {name}")).collect();
    let names = names.join(" -o ");
    machine.done(&format!(
        "cd /sys/fs/cgroup && find kubepods.slice -type f '(' {names} ')' | sort | xargs grep -H ''"
    ))
}

/// The paths of the scopes of containers, by pod.
fn scopes(machine: &Machine) -> BTreeMap<&'static str, String> {
    let text = machine.done("cd /sys/fs/cgroup && find kubepods.slice -name 'wardlet-*.scope'");
    let pods = [("", "guaranteed"), ("-burstable", "burstable"), ("-besteffort", "besteffort")];
    let of = |class: &str, name: &'static str| {
        let path = text.lines().find(|path| path.contains(&slice(class, name)));
        (name, format!("/{}", path.unwrap_or_else(|| panic!("{name} has no scope: {text}"))))
    };
    pods.map(|(class, name)| of(class, name)).into()
}

#[test]
fn pods_are_in_slices_and_containers_in_scopes_of_systemd() {
    let machine = Machine::boot(Init::Systemd);
    machine.add_one_of_each_class();
    machine.start_agent();
    machine.wait_for_three_pods();
    for step in [
        values_are_the_kubelets,
        containers_are_in_delegated_scopes,
        nothing_is_moved_by_a_reload,
        a_kill_for_memory_is_reported,
        why_a_container_does_not_start_is_told,
        an_agent_that_restarts_finds_its_pods_again,
        removed_pods_leave_no_unit,
    ] {
        step(&machine);
        println!("{:.1} s", machine.since.elapsed().as_secs_f64());
    }
    machine.vm.shutdown().unwrap();
}

fn values_are_the_kubelets(machine: &Machine) {
    for name in SLICES {
        let unit = unit(machine, name);
        assert_eq!((unit["ActiveState"].as_str(), unit["Transient"].as_str()), ("active", "yes"), "{name}");
    }
    let weight = |slice: &str| machine.file(&format!("/kubepods.slice/{slice}/cpu.weight"));
    assert_eq!((weight(SLICES[1]), weight(SLICES[2])), ("10".to_owned(), "1".to_owned()));
    let all = unit(machine, SLICES[0]);
    assert_eq!(all["MemoryMax"], machine.allocatable_memory());
    let found = machine.files("/kubepods.slice", ["memory.max", "pids.max", "cpuset.cpus"]);
    assert_eq!(found, ["MemoryMax", "TasksMax", "AllowedCPUs"].map(|key| all[key].clone()));

    let name = slice("", "guaranteed");
    let (pod, path) = (unit(machine, &name), format!("/kubepods.slice/{name}"));
    assert_eq!(pod["ControlGroup"], path);
    let found = ["MemoryMax", "CPUWeight", "TasksMax", "CPUQuotaPerSecUSec"].map(|key| pod[key].as_str());
    assert_eq!(found, ["67108864", "20", "200", "500ms"]);
    assert_eq!(machine.files(&path, LIMITS), ["67108864", "20", "200", "50000 100000"]);
    let burstable = unit(machine, &slice("-burstable", "burstable"));
    assert_eq!((burstable["MemoryMax"].as_str(), burstable["CPUWeight"].as_str()), ("infinity", "10"));
    assert_eq!(unit(machine, &slice("-besteffort", "besteffort"))["CPUWeight"], "1");
}

fn containers_are_in_delegated_scopes(machine: &Machine) {
    let scopes = scopes(machine);
    for (pod, path) in &scopes {
        let unit = unit(machine, path.rsplit('/').next().unwrap());
        assert_eq!((unit["ActiveState"].as_str(), unit["Delegate"].as_str()), ("active", "yes"), "{pod}");
        assert_eq!(&unit["ControlGroup"], path);
        // What held the scope is gone with its cgroup.
        assert_eq!(
            machine.done(&format!("cd /sys/fs/cgroup{path} && ls -d */ && cat cgroup.procs")),
            "container/\n"
        );
        let container = format!("{path}/container");
        assert_eq!(machine.file(&format!("{container}/cgroup.procs")).lines().count(), 1, "{pod}");
        for cgroup in [path, &container] {
            assert_eq!(machine.file(&format!("{cgroup}/cpu.weight")), unit["CPUWeight"], "{cgroup}");
        }
        // What systemd does not know is set as well.
        let more = machine.files(&container, ["memory.oom.group", "hugetlb.2MB.max"]);
        assert_eq!(more, ["1", "0"], "{pod}");
    }
    let guaranteed = format!("{}/container", scopes["guaranteed"]);
    assert_eq!(machine.file(&format!("{guaranteed}/memory.max")), "67108864");
    machine.exec_joins("guaranteed", &guaranteed);
    let verified = machine.wardlet("verify");
    assert!(verified.contains("OK"), "{verified}");
}

fn nothing_is_moved_by_a_reload(machine: &Machine) {
    let before = places(machine);
    for command in ["daemon-reload", "daemon-reexec"] {
        machine.done(&format!("systemctl {command}"));
        assert_eq!(places(machine), before, "{command}");
    }
}

/// The memory is too little for any process, such as those that start the container.
fn why_a_container_does_not_start_is_told(machine: &Machine) {
    machine.add("broken", "sleep 9999", &json!({"limits": {"memory": "64Ki"}}));
    let cause = machine.logged("default/broken-guest: main cannot be started: ");
    assert!(cause.contains("raise a very low memory limit") && !cause.contains("gave no result"), "{cause}");
    machine.remove("broken");
    let its = slice("-burstable", "broken");
    wait_for("its slice is gone", || (!units(machine).contains(&its)).then_some(()));
}

fn a_kill_for_memory_is_reported(machine: &Machine) {
    // Its slice is there already, as left of an earlier run.
    let left = slice("", "hungry");
    machine.done(&format!("systemctl start {left}"));
    assert_eq!(unit(machine, &left)["ActiveState"], "active");
    machine.add("hungry", "tail /dev/zero", &json!({"limits": {"cpu": "200m", "memory": "48Mi"}}));
    let end = machine.logged("default/hungry-guest: container main ended: ");
    assert!(end.contains("OOMKilled, exit code 137"), "{end}");
    machine.remove("hungry");
}

/// Ended by SIGKILL it is started again by systemd; then systemd restarts it as an administrator asks.
fn an_agent_that_restarts_finds_its_pods_again(machine: &Machine) {
    let (sleepers, before) = (machine.sleepers(), places(machine));
    assert_eq!(sleepers.len(), 3);
    let main = || unit(machine, SERVICE)["MainPID"].clone();
    let first = main();
    machine.done(&format!("systemctl kill -s KILL --kill-whom=main {SERVICE}"));
    wait_for("systemd starts the agent again", || {
        (main() != first && unit(machine, SERVICE)["ActiveState"] == "active").then_some(())
    });
    machine.done(&format!("systemctl restart {SERVICE}"));
    machine.wait_for_three_pods();
    assert_eq!((machine.sleepers(), places(machine)), (sleepers.clone(), before), "{}", machine.log());
    // It has read its manifests, and knows which of its pods are wanted, when it ends one that is not.
    machine.remove("besteffort");
    let left = wait_for("a pod without a manifest has ended", || {
        let left = machine.sleepers();
        (left.len() < sleepers.len()).then_some(left)
    });
    assert!(left.len() == 2 && left.iter().all(|pid| sleepers.contains(pid)), "{left:?} {}", machine.log());
}

fn removed_pods_leave_no_unit(machine: &Machine) {
    ["guaranteed", "burstable"].iter().for_each(|name| machine.remove(name));
    let classes = SLICES.map(str::to_owned).into();
    wait_for("only the slices of the classes are left", || (units(machine) == classes).then_some(()));
    let dirs = machine.done("cd /sys/fs/cgroup && find kubepods.slice -type d | sort");
    let expected = ["", "/kubepods-besteffort.slice", "/kubepods-burstable.slice"];
    assert_eq!(dirs.lines().collect::<Vec<_>>(), expected.map(|below| format!("kubepods.slice{below}")));
    assert_eq!(machine.done("systemctl --failed --plain --no-legend"), "");
}

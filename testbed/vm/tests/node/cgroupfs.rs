//! `wardlet agent` on a machine with cgroups of version 2 alone and without systemd: the cgroupfs driver.

use serde_json::json;
use testkit::wait_for;
use vm::Init;

use crate::agent_guest::{Machine, uid};

#[test]
fn pods_and_containers_are_in_cgroups_of_version_2_with_the_kubelets_names_and_limits() {
    let machine = Machine::boot(Init::Script);
    machine.add_one_of_each_class();
    machine.start_agent();
    machine.wait_for_three_pods();
    assert_eq!(machine.sleepers().len(), 3);
    let found = machine.files("/kubepods/besteffort", ["cpu.weight"]);
    assert_eq!(found, ["1"]);
    assert_eq!(machine.file("/kubepods/burstable/cpu.weight"), "10");
    assert_eq!(machine.file("/kubepods/memory.max"), machine.allocatable_memory());
    let pod = format!("/kubepods/pod{}", uid("guaranteed"));
    let limits = ["memory.max", "cpu.weight", "pids.max", "cpu.max"];
    assert_eq!(machine.files(&pod, limits), ["67108864", "20", "200", "50000 100000"]);
    let container = machine.done(&format!("cd /sys/fs/cgroup{pod} && find . -mindepth 1 -type d"));
    let container = format!("{pod}/{}", container.trim().trim_start_matches("./"));
    machine.exec_joins("guaranteed", &container);
    assert!(machine.wardlet("verify").contains("OK"));
    machine.add("hungry", "tail /dev/zero", &json!({"limits": {"cpu": "200m", "memory": "48Mi"}}));
    let end = machine.logged("default/hungry-guest: container main ended: ");
    assert!(end.contains("OOMKilled, exit code 137"), "{end}");
    machine.remove("hungry");
    ["guaranteed", "burstable", "besteffort"].iter().for_each(|name| machine.remove(name));
    wait_for("only the cgroups of the classes are left", || {
        let dirs = machine.done("cd /sys/fs/cgroup && find kubepods -type d | sort");
        (dirs == "kubepods\nkubepods/besteffort\nkubepods/burstable\n").then_some(())
    });
    machine.vm.shutdown().unwrap();
}

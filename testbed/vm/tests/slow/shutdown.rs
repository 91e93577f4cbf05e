//! A machine with systemd, its message bus and systemd-logind that is switched off by `systemctl poweroff` while pods run: the
//! shutdown waits for them. Also what the node says when the machine is out of memory.

use std::path::Path;

use serde_json::{Value, json};
use testkit::wait_for;
use vm::{Exec, Init, Mode, Options, Series, Vm};

use crate::agent_guest::{Extra, IMAGE, Machine};

/// Pods write here what happens to them; it is on the disk.
const EVENTS: &str = "/var/events";
/// A message bus without Debian's units and users.
const BUS: &str = r#"<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <type>system</type>
  <listen>unix:path=/run/dbus/system_bus_socket</listen>
  <auth>EXTERNAL</auth>
  <policy context="default">
    <allow user="*"/><allow own="*"/><allow send_type="method_call"/><allow send_type="signal"/>
    <allow send_requested_reply="true"/><allow receive_type="method_call"/><allow receive_type="method_return"/>
    <allow receive_type="error"/><allow receive_type="signal"/>
  </policy>
</busconfig>
"#;
const UNITS: [(&str, &str); 5] = [
    (
        "dbus.socket",
        "[Unit]\nDefaultDependencies=no\n[Socket]\nListenStream=/run/dbus/system_bus_socket\nSocketMode=0666\n",
    ),
    (
        "dbus.service",
        "[Unit]\nDefaultDependencies=no\nRequires=dbus.socket\nAfter=dbus.socket\n[Service]\nType=notify\n\
         ExecStart=/usr/bin/dbus-daemon --config-file=/etc/bus.conf --address=systemd: --nofork --nopidfile --systemd-activation\n",
    ),
    (
        "systemd-logind.service",
        "[Unit]\nDefaultDependencies=no\nRequires=dbus.service\nAfter=dbus.service\n[Service]\nType=notify\n\
         BusName=org.freedesktop.login1\nExecStart=/lib/systemd/systemd-logind\n\
         RuntimeDirectory=systemd/sessions systemd/seats systemd/users systemd/inhibit systemd/shutdown\n\
         RuntimeDirectoryPreserve=yes\n",
    ),
    (
        "poweroff.target",
        "[Unit]\nDefaultDependencies=no\nRequires=switch-off.service\nAfter=switch-off.service\nAllowIsolate=yes\n",
    ),
    (
        "switch-off.service",
        "[Unit]\nDefaultDependencies=no\nSuccessAction=poweroff-force\n[Service]\nType=oneshot\n\
         ExecStart=/bin/busybox sh -c 'echo off >>/var/events/log; sync'\n",
    ),
];

/// A pod that tells of its start, of SIGTERM, and of its end some seconds later.
fn pod(name: &str, priority: i32, seconds: u32) -> Value {
    let script = format!(
        "trap 'echo {name} TERM >>/events/log; sleep {seconds}; echo {name} ends >>/events/log; exit 0' TERM; \
         echo {name} runs >>/events/log; while :; do sleep 0.2; done"
    );
    json!({
        "priority": priority, "terminationGracePeriodSeconds": 60,
        "volumes": [{"name": "events", "hostPath": {"path": EVENTS}}],
        "containers": [{
            "name": "main", "image": IMAGE, "imagePullPolicy": "Never", "command": ["sh", "-c", script],
            "volumeMounts": [{"name": "events", "mountPath": "/events"}],
        }],
    })
}

fn events(machine: &Machine) -> String {
    machine.done(&format!("cat {EVENTS}/log 2>/dev/null || true"))
}

/// Starts a message bus and logind.
fn start_logind(machine: &Machine) {
    machine.vm.write("/etc/bus.conf", 0o644, BUS.into()).unwrap();
    machine.done("mkdir -p /run/dbus; grep -q ^root: /etc/passwd 2>/dev/null || echo root:x:0:0::/root:/bin/sh >>/etc/passwd");
    for (name, text) in UNITS {
        machine.vm.write(&format!("/etc/systemd/system/{name}"), 0o644, text.into()).unwrap();
    }
    machine
        .done("systemctl daemon-reload && systemctl start dbus.socket dbus.service systemd-logind.service");
}

#[test]
fn a_shutdown_of_the_machine_waits_for_pods_the_lowest_priority_first() {
    vm::ensure(Series::V6_12).unwrap();
    let dir = tempfile::Builder::new().prefix("shutdown").tempdir_in("/var/tmp").unwrap();
    let disk = dir.path().join("disk");
    vm::new_disk(Series::V6_12, &disk).unwrap();
    let kubelet = json!({"shutdownGracePeriod": "100s", "shutdownGracePeriodCriticalPods": "40s"});
    let machine = Machine::boot_with(Init::Systemd, &Extra { disk: Some(disk.clone()), kubelet });
    machine.done(&format!("mkdir -p {EVENTS} && chmod 777 {EVENTS}"));
    start_logind(&machine);
    machine.start_agent();
    // logind's own longest delay is 5 s.
    machine.logged("systemd-logind delays a shutdown for 100 s for pods");
    let file = machine.done("cat /etc/systemd/logind.conf.d/99-kubelet.conf");
    assert!(file.contains("InhibitDelayMaxSec=100\n"), "{file}");
    the_node_says_that_it_is_out_of_memory(&machine);

    machine.add_with("guaranteed", "true", &json!({}), &pod("high", 2_000_001_000, 1));
    machine.add_with("burstable", "true", &json!({}), &pod("low", 0, 3));
    wait_for("both pods run", || {
        let seen = events(&machine);
        (seen.contains("high runs") && seen.contains("low runs")).then_some(())
    });
    machine.done("systemctl poweroff");
    // The machine is on for as long as pods end; then nothing answers.
    wait_for("the machine is off", || machine.vm.run(&Exec::new(&["true"])).is_err().then_some(()));
    drop(machine);
    the_disk_tells_what_happened(&disk);
}

fn the_node_says_that_it_is_out_of_memory(machine: &Machine) {
    // No container runs yet: the kernel would kill those of class BestEffort first.
    assert!(!machine.sh("tail /dev/zero").success());
    machine.logged("System OOM encountered, victim process: tail, pid: ");
}

fn the_disk_tells_what_happened(disk: &Path) {
    let options =
        Options { mode: Mode::Permissive, disk: Some(disk.to_owned()), ..Options::new(Series::V6_12) };
    let vm = Vm::boot(&options).unwrap();
    let read = |file: &str| vm.exec(&["cat", file]).unwrap().text();
    let log = read("/var/agent.log");
    let seen = read("/var/events/log");
    let after_start: Vec<&str> = seen.lines().filter(|line| !line.ends_with(" runs")).collect();
    assert_eq!(after_start, ["low TERM", "low ends", "high TERM", "high ends", "off"], "{log}");
    for words in ["the machine shuts down: pods are ended", "pods have ended; the machine may shut down"] {
        assert!(log.contains(words), "{words}: {log}");
    }
    let times: Value = serde_json::from_str(&read("/var/lib/kubelet/graceful_node_shutdown_state")).unwrap();
    assert!(!times["endTime"].as_str().unwrap().starts_with("0001-"), "{times}");
    let _ = vm.shutdown();
}

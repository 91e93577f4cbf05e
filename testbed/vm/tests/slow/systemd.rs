//! `wardlet agent` on a machine whose process 1 is systemd and whose cgroups are of version 2 alone: static pods of all QoS
//! classes on the built-in runtime, in slices and scopes of systemd.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use testkit::wait_for;
use vm::{Exec, Init, Options, Output, Payload, Series, Vm};

const PROGRAMS: [&str; 3] = ["wardlet", "wardlet-monitor", "wardlet-container"];
const IMAGE: &str = "localhost/systemd-test:1";
const PODS: &str = "/etc/kubernetes/manifests";
const SLICES: [&str; 3] = ["kubepods.slice", "kubepods-burstable.slice", "kubepods-besteffort.slice"];
/// The UIDs of the pods, by name.
const UIDS: [(&str, &str); 4] = [
    ("guaranteed", "11111111-0000-4000-8000-000000000001"),
    ("burstable", "22222222-0000-4000-8000-000000000002"),
    ("besteffort", "33333333-0000-4000-8000-000000000003"),
    ("hungry", "44444444-0000-4000-8000-000000000004"),
];
const AGENT: &str = "systemd-run -q --unit=agent -p DefaultDependencies=no -p Delegate=yes -p KillMode=process \
    -p StandardOutput=append:/var/agent.log -p StandardError=append:/var/agent.log \
    -p Environment=PATH=/bin:/sbin:/usr/bin /opt/wardlet --state-dir /var/lib/wardlet \
    agent --builtin-runtime --programs /opt -- --config=/etc/kubelet.json --node-ip=127.0.0.1";

struct Machine(Vm);

impl Machine {
    fn boot() -> Self {
        vm::ensure(Series::V6_12).unwrap();
        let work = tempfile::tempdir().unwrap();
        let image = work.path().join("image.tar");
        let maker = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/busybox-image.sh");
        assert!(Command::new(maker).arg(IMAGE).arg(&image).status().unwrap().success());
        let mut payloads = PROGRAMS.map(|name| Payload::of_ours(name, &format!("/opt/{name}"))).to_vec();
        payloads.push(Payload::new(&image, "/opt/image.tar"));
        let options =
            Options { payloads, init: Init::Systemd, memory_mib: 1536, ..Options::new(Series::V6_12) };
        let vm = Vm::boot(&options).unwrap();
        println!("booted with systemd in {:.1} s", vm.boot_time().as_secs_f64());
        let machine = Self(vm);
        machine.done(&format!(
            "mkdir -p {PODS} && /opt/wardlet --state-dir /var/lib/wardlet image import /opt/image.tar"
        ));
        let config = json!({
            "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
            "cgroupDriver": "systemd", "staticPodPath": PODS, "podPidsLimit": 200, "healthzPort": 0,
            "systemReserved": {"memory": "256Mi", "pid": "1000"},
        });
        machine.0.write("/etc/kubelet.json", 0o644, config.to_string().into_bytes()).unwrap();
        machine
    }

    fn sh(&self, script: &str) -> Output {
        self.0.run(&Exec::new(&["sh", "-c", script]).limit(Duration::from_secs(180))).unwrap()
    }

    fn done(&self, script: &str) -> String {
        let output = self.sh(script);
        assert!(output.success(), "{script}: {}{}\n{}", output.text(), output.words(), self.log());
        output.text()
    }

    fn log(&self) -> String {
        self.sh("tail -n 60 /var/agent.log").text()
    }

    fn wardlet(&self, words: &str) -> String {
        self.done(&format!("/opt/wardlet --state-dir /var/lib/wardlet {words}"))
    }

    fn add(&self, name: &str, command: &str, resources: &Value) {
        let uid = uid(name);
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default", "uid": uid},
            "spec": {
                "hostUsers": false, "restartPolicy": "Never", "terminationGracePeriodSeconds": 0,
                "containers": [{
                    "name": "main", "image": IMAGE, "imagePullPolicy": "Never",
                    "command": ["sh", "-c", command], "resources": resources,
                }],
            },
        });
        self.0.write(&format!("{PODS}/{name}.json"), 0o644, pod.to_string().into_bytes()).unwrap();
    }

    /// Properties of a unit.
    fn unit(&self, name: &str) -> BTreeMap<String, String> {
        let text = self.done(&format!("systemctl show {name}"));
        text.lines()
            .filter_map(|line| line.split_once('='))
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect()
    }

    /// The units of pods and containers that are loaded.
    fn units(&self) -> BTreeSet<String> {
        let text = self.done("systemctl list-units --all --plain --no-legend 'kubepods*' 'wardlet-*.scope'");
        text.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
    }

    /// The cgroup of each process of a container, and the limits of each cgroup of a pod.
    fn places(&self) -> String {
        self.done(
            "cd /sys/fs/cgroup && find kubepods.slice -name cgroup.procs | sort | while read f; do \
             echo $f $(cat $f); done; grep -rs . $(find kubepods.slice -name memory.max -o -name memory.swap.max \
             -o -name pids.max -o -name cpu.weight -o -name cpu.max -o -name memory.oom.group -o -name hugetlb.2MB.max \
             | sort)",
        )
    }

    fn file(&self, path: &str) -> String {
        self.done(&format!("cat /sys/fs/cgroup{path}")).trim().to_owned()
    }
}

fn uid(name: &str) -> &'static str {
    UIDS.iter().find(|(known, _)| *known == name).unwrap().1
}

/// The slice of a pod.
fn slice(class: &str, name: &str) -> String {
    format!("kubepods{class}-pod{}.slice", uid(name).replace('-', "_"))
}

#[test]
fn pods_are_in_slices_and_containers_in_scopes_of_systemd() {
    let machine = Machine::boot();
    machine.add("guaranteed", "sleep 9999", &json!({"limits": {"cpu": "500m", "memory": "64Mi"}}));
    machine.add("burstable", "sleep 9999", &json!({"requests": {"cpu": "250m", "memory": "32Mi"}}));
    machine.add("besteffort", "sleep 9999", &json!({}));
    machine.done(AGENT);
    let scopes = wait_for("three containers run in scopes", || {
        let text = machine.done("cd /sys/fs/cgroup; ls -d kubepods.slice/*pod*/wardlet-*.scope kubepods.slice/*/*pod*/wardlet-*.scope 2>/dev/null; true");
        let found: Vec<String> = text.lines().map(str::to_owned).collect();
        let all = found.len() == 3;
        (all && machine.done("/opt/wardlet --state-dir /var/lib/wardlet ps").matches("Running").count() == 3)
            .then_some(found)
    });
    for scope in &scopes {
        println!("{scope}");
    }
    values_are_the_kubelets(&machine);
    containers_are_in_delegated_scopes(&machine, &scopes);
    nothing_is_moved_by_a_reload(&machine);
    a_kill_for_memory_is_reported(&machine);
    a_restarted_agent_adopts_the_pods(&machine);
    removed_pods_leave_no_unit(&machine);
    machine.0.shutdown().unwrap();
}

fn values_are_the_kubelets(machine: &Machine) {
    for name in SLICES {
        let unit = machine.unit(name);
        assert_eq!((unit["ActiveState"].as_str(), unit["Transient"].as_str()), ("active", "yes"), "{name}");
    }
    let (best, burst) =
        ("/kubepods.slice/kubepods-besteffort.slice", "/kubepods.slice/kubepods-burstable.slice");
    assert_eq!(machine.file(&format!("{best}/cpu.weight")), "1");
    assert_eq!(machine.file(&format!("{burst}/cpu.weight")), "10");
    let all = machine.unit(SLICES[0]);
    let total: u64 = machine.done("awk '/MemTotal/{print $2}' /proc/meminfo").trim().parse().unwrap();
    assert_eq!(all["MemoryMax"], (total * 1024 - (256 << 20)).to_string());
    assert_eq!(machine.file("/kubepods.slice/memory.max"), all["MemoryMax"]);
    assert_eq!(machine.file("/kubepods.slice/pids.max"), all["TasksMax"]);
    assert_eq!(all["AllowedCPUs"], "0");
    let name = slice("", "guaranteed");
    let (unit, path) = (machine.unit(&name), format!("/kubepods.slice/{name}"));
    assert_eq!(unit["ControlGroup"], path);
    let found = ["MemoryMax", "CPUWeight", "TasksMax", "CPUQuotaPerSecUSec"].map(|key| unit[key].as_str());
    assert_eq!(found, ["67108864", "20", "200", "500ms"]);
    let found = ["memory.max", "cpu.weight", "pids.max", "cpu.max"]
        .map(|file| machine.file(&format!("{path}/{file}")));
    assert_eq!(found, ["67108864", "20", "200", "50000 100000"]);
    let burstable = machine.unit(&slice("-burstable", "burstable"));
    assert_eq!((burstable["MemoryMax"].as_str(), burstable["CPUWeight"].as_str()), ("infinity", "10"));
    assert_eq!(machine.unit(&slice("-besteffort", "besteffort"))["CPUWeight"], "1");
}

fn containers_are_in_delegated_scopes(machine: &Machine, scopes: &[String]) {
    for path in scopes {
        let name = Path::new(path).file_name().unwrap().to_str().unwrap();
        let unit = machine.unit(name);
        assert_eq!((unit["ActiveState"].as_str(), unit["Delegate"].as_str()), ("active", "yes"), "{name}");
        assert_eq!(unit["ControlGroup"], format!("/{path}"));
        assert_eq!(machine.file(&format!("/{path}/cgroup.procs")).lines().count(), 1, "{name}");
    }
    let of_guaranteed = scopes.iter().find(|path| path.contains(&slice("", "guaranteed"))).unwrap();
    assert_eq!(machine.unit(of_guaranteed.rsplit('/').next().unwrap())["MemoryMax"], "67108864");
    assert_eq!(machine.file(&format!("/{of_guaranteed}/memory.max")), "67108864");
    machine.done(
        "/opt/wardlet --state-dir /var/lib/wardlet exec guaranteed -- sleep 60 >/dev/null 2>&1 </dev/null &",
    );
    wait_for("exec is in the same cgroup", || {
        (machine.file(&format!("/{of_guaranteed}/cgroup.procs")).lines().count() == 2).then_some(())
    });
    machine.done("kill $(pidof sleep | tr ' ' '\\n' | while read p; do tr '\\0' ' ' </proc/$p/cmdline | grep -q 'sleep 60' && echo $p; done)");
    assert!(machine.wardlet("verify").contains("OK"), "{}", machine.wardlet("verify"));
}

fn nothing_is_moved_by_a_reload(machine: &Machine) {
    wait_for("the command has ended", || {
        (machine.done("pidof sleep").split_whitespace().count() == 3).then_some(())
    });
    let before = machine.places();
    machine.done("systemctl daemon-reload");
    assert_eq!(machine.places(), before);
    machine.done("systemctl daemon-reexec");
    assert_eq!(machine.places(), before);
}

fn a_kill_for_memory_is_reported(machine: &Machine) {
    machine.add("hungry", "tail /dev/zero", &json!({"limits": {"cpu": "500m", "memory": "24Mi"}}));
    let exits = wait_for("the container has ended", || {
        let text = machine.done("find /var/lib/wardlet -name exit.json -exec cat {} +");
        (!text.is_empty()).then_some(text)
    });
    assert!(exits.contains("\"oom\":true"), "{exits}");
    machine.done(&format!("rm {PODS}/hungry.json"));
}

fn a_restarted_agent_adopts_the_pods(machine: &Machine) {
    let sleepers = machine.done("pidof sleep");
    machine.done(
        "systemctl kill -s KILL --kill-whom=main agent.service; systemctl reset-failed agent.service; true",
    );
    machine.done(AGENT);
    wait_for("the agent runs again", || {
        (machine.wardlet("ps").matches("Running").count() == 3).then_some(())
    });
    assert_eq!(machine.done("pidof sleep"), sleepers);
}

fn removed_pods_leave_no_unit(machine: &Machine) {
    machine.done(&format!("rm {PODS}/*.json"));
    let only_classes: BTreeSet<String> = SLICES.map(str::to_owned).into();
    let mut left = BTreeSet::new();
    wait_for("units of pods are gone", || {
        left = machine.units();
        (left == only_classes).then_some(())
    });
    let dirs = machine.done("find /sys/fs/cgroup/kubepods.slice -name '*pod?*-*' -o -name '*.scope' | grep -v '/kubepods-[a-z]*.slice$'; true");
    assert_eq!(dirs, "");
    assert_eq!(machine.done("systemctl --failed --plain --no-legend"), "");
}

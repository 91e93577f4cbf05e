//! A guest with cgroups of version 2 alone in which `wardlet agent` runs static pods on the built-in runtime.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::wait_for;
use vm::{Exec, Init, Mode, Options, Output, Payload, Series, Vm};

const PROGRAMS: [&str; 3] = ["wardlet", "wardlet-monitor", "wardlet-container"];
pub(crate) const IMAGE: &str = "localhost/agent-guest:1";
const PODS: &str = "/etc/kubernetes/manifests";
const AGENT: &str = "/opt/wardlet --state-dir /var/lib/wardlet agent --builtin-runtime --programs /opt -- \
    --config=/etc/kubelet.json --node-ip=192.0.2.10 --hostname-override=guest";
const CONTEXTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../crates/selinux/tests/contexts/fedora");
/// The unit that is delivered, and what it lacks in a guest.
const UNIT: &str = include_str!("../../../../deploy/node/wardlet-agent.service");
const DROP_IN: &str = "[Unit]\nDefaultDependencies=no\n[Service]\nRestartSec=0\nEnvironment=PATH=/bin:/sbin:/usr/bin\n\
    StandardOutput=append:/var/agent.log\nStandardError=append:/var/agent.log\nExecStart=\nExecStart=";
pub(crate) const SERVICE: &str = "wardlet-agent.service";

/// The UIDs of the pods, by name.
const UIDS: [(&str, &str); 5] = [
    ("guaranteed", "11111111-0000-4000-8000-000000000001"),
    ("burstable", "22222222-0000-4000-8000-000000000002"),
    ("besteffort", "33333333-0000-4000-8000-000000000003"),
    ("hungry", "44444444-0000-4000-8000-000000000004"),
    ("broken", "55555555-0000-4000-8000-000000000005"),
];

pub(crate) fn uid(name: &str) -> &'static str {
    UIDS.iter().find(|(known, _)| *known == name).unwrap().1
}

/// The guest.
pub(crate) struct Machine {
    pub(crate) vm: Vm,
    /// When it was booted.
    pub(crate) since: Instant,
    init: Init,
}

/// What a guest has besides.
#[derive(Default)]
pub(crate) struct Extra {
    /// A disk for /var that is kept.
    pub(crate) disk: Option<PathBuf>,
    /// Fields of the kubelet's configuration.
    pub(crate) kubelet: Value,
}

impl Machine {
    pub(crate) fn boot(init: Init) -> Self {
        Self::boot_with(init, &Extra::default())
    }

    pub(crate) fn boot_with(init: Init, extra: &Extra) -> Self {
        vm::ensure(Series::V6_12).unwrap();
        let work = tempfile::tempdir().unwrap();
        let image = work.path().join("image.tar");
        let maker = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/busybox-image.sh");
        assert!(Command::new(maker).arg(IMAGE).arg(&image).status().unwrap().success());
        let mut payloads = PROGRAMS.map(|name| Payload::of_ours(name, &format!("/opt/{name}"))).to_vec();
        payloads.push(Payload::new(&image, "/opt/image.tar"));
        let options = Options {
            payloads,
            init,
            mode: Mode::Permissive,
            memory_mib: 1536,
            disk: extra.disk.clone(),
            ..Options::new(Series::V6_12)
        };
        let since = Instant::now();
        let vm = Vm::boot(&options).unwrap();
        println!("booted in {:.1} s", vm.boot_time().as_secs_f64());
        let machine = Self { vm, since, init };
        machine.done(&format!("mkdir -p {PODS} && ip addr add 192.0.2.10/24 dev lo && echo nameserver 192.0.2.1 >/etc/resolv.conf"));
        if init == Init::Script {
            // The host's labels for containers: SELinux is on here.
            machine.done("mkdir -p /usr/share/containers/selinux");
            machine.vm.put(Path::new(CONTEXTS), "/usr/share/containers/selinux/contexts").unwrap();
        }
        machine.wardlet("image import /opt/image.tar");
        let mut config = json!({
            "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
            "staticPodPath": PODS, "podPidsLimit": 200, "healthzPort": 0,
            // However full the disk of the guest is.
            "evictionHard": {"nodefs.available": "0%"}, "imageGCHighThresholdPercent": 100, "imageGCLowThresholdPercent": 99,
            "systemReserved": {"memory": "256Mi", "pid": "1000"},
        });
        config.as_object_mut().unwrap().extend(extra.kubelet.as_object().cloned().unwrap_or_default());
        machine.vm.write("/etc/kubelet.json", 0o644, config.to_string().into_bytes()).unwrap();
        machine
    }

    pub(crate) fn start_agent(&self) {
        match self.init {
            Init::Systemd => {
                let place = format!("/etc/systemd/system/{SERVICE}");
                self.vm.write(&place, 0o644, UNIT.into()).unwrap();
                self.vm
                    .write(&format!("{place}.d/guest.conf"), 0o644, format!("{DROP_IN}{AGENT}\n").into())
                    .unwrap();
                self.done(&format!("systemctl start {SERVICE}"));
            }
            Init::Script => drop(self.done(&format!("{AGENT} </dev/null >>/var/agent.log 2>&1 &"))),
        }
    }

    pub(crate) fn sh(&self, script: &str) -> Output {
        self.vm.run(&Exec::new(&["sh", "-c", script]).limit(Duration::from_secs(180))).unwrap()
    }

    pub(crate) fn done(&self, script: &str) -> String {
        let output = self.sh(script);
        assert!(output.success(), "{script}: {}{}\n{}", output.text(), output.words(), self.log());
        output.text()
    }

    pub(crate) fn log(&self) -> String {
        self.sh("tail -n 60 /var/agent.log").text()
    }

    /// The line of the agent's log with these words, once it is there.
    pub(crate) fn logged(&self, words: &str) -> String {
        let mut log = String::new();
        for _ in 0..60 {
            log = self.done("cat /var/agent.log");
            if let Some(line) = log.lines().find(|line| line.contains(words)) {
                return line.to_owned();
            }
            std::thread::sleep(Duration::from_secs(1));
        }
        panic!("no {words:?} in the log: {log}");
    }

    pub(crate) fn wardlet(&self, words: &str) -> String {
        self.done(&format!("/opt/wardlet --state-dir /var/lib/wardlet {words}"))
    }

    /// Adds a static pod in a user namespace of its own.
    pub(crate) fn add(&self, name: &str, command: &str, resources: &Value) {
        self.add_with(name, command, resources, &json!({}));
    }

    /// The same with further fields of the pod.
    pub(crate) fn add_with(&self, name: &str, command: &str, resources: &Value, more: &Value) {
        let command: Vec<&str> = command.split(' ').collect();
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": "default", "uid": uid(name)},
            "spec": {
                "hostUsers": false, "restartPolicy": "Never", "terminationGracePeriodSeconds": 0,
                "containers": [{
                    "name": "main", "image": IMAGE, "imagePullPolicy": "Never",
                    "command": command, "resources": resources,
                }],
            },
        });
        pod.get_mut("spec")
            .and_then(Value::as_object_mut)
            .unwrap()
            .extend(more.as_object().cloned().unwrap_or_default());
        self.vm.write(&format!("{PODS}/{name}.json"), 0o644, pod.to_string().into_bytes()).unwrap();
    }

    /// A pod of each QoS class; each sleeps.
    pub(crate) fn add_one_of_each_class(&self) {
        self.add("guaranteed", "sleep 9999", &json!({"limits": {"cpu": "500m", "memory": "64Mi"}}));
        self.add("burstable", "sleep 9999", &json!({"requests": {"cpu": "250m", "memory": "32Mi"}}));
        self.add("besteffort", "sleep 9999", &json!({}));
    }

    pub(crate) fn remove(&self, name: &str) {
        self.done(&format!("rm {PODS}/{name}.json"));
    }

    pub(crate) fn wait_for_three_pods(&self) {
        let mut seen = String::new();
        let ready = (0..90).any(|_| {
            seen = self.wardlet("ps");
            let ready =
                seen.lines().filter(|pod| pod.contains(" 1/1 ") && pod.contains(" Running ")).count() == 3;
            if !ready {
                std::thread::sleep(Duration::from_secs(1));
            }
            ready
        });
        assert!(ready, "three pods run: {seen}\n{}", self.log());
        println!("three pods run after {:.1} s", self.since.elapsed().as_secs_f64());
    }

    /// The containers' processes. All of them sleep.
    pub(crate) fn sleepers(&self) -> Vec<String> {
        self.sh("pidof sleep").text().split_whitespace().map(str::to_owned).collect()
    }

    /// A command by `wardlet exec` is in the cgroup at this path, too, which had one process.
    pub(crate) fn exec_joins(&self, pod: &str, cgroup: &str) {
        let count = || self.file(&format!("{cgroup}/cgroup.procs")).lines().count();
        assert_eq!(count(), 1, "{cgroup}");
        let exec = format!("/opt/wardlet --state-dir /var/lib/wardlet exec {pod}-guest -- sleep 4");
        self.done(&format!("{exec} </dev/null >/dev/null 2>&1 &"));
        wait_for("exec is in the same cgroup", || (count() == 2).then_some(()));
        wait_for("the command has ended", || (count() == 1).then_some(()));
    }

    pub(crate) fn file(&self, path: &str) -> String {
        self.done(&format!("cat /sys/fs/cgroup{path}")).trim().to_owned()
    }

    /// Files of a cgroup.
    pub(crate) fn files<const N: usize>(&self, cgroup: &str, names: [&str; N]) -> [String; N] {
        names.map(|name| self.file(&format!("{cgroup}/{name}")))
    }

    /// What all pods may use of the memory: what the configuration does not reserve.
    pub(crate) fn allocatable_memory(&self) -> String {
        let total: u64 = self.done("awk '/MemTotal/{print $2}' /proc/meminfo").trim().parse().unwrap();
        (total * 1024 - (256 << 20)).to_string()
    }
}

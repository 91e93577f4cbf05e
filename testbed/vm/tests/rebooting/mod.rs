//! A node of a real API server that is switched off and on again: a guest with a disk, in which `wardlet agent` runs pods on
//! the built-in runtime.
#![allow(dead_code, reason = "each test binary uses a part of it")]

pub(crate) mod pods;
pub(crate) mod state;
pub(crate) mod story;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testbed::cluster::addresses::API_SERVER;
use testbed::{Parts, Testbed, User, Validity, yardstick};
use vm::{Exec, Mode, Options, Output, Payload, Series, Vm};

pub(crate) const NODE: &str = "guest";
pub(crate) const IMAGE: &str = "localhost/reboot:1";
const KERNEL: Series = Series::V6_12;
const PROGRAMS: [&str; 3] = ["wardlet", "wardlet-monitor", "wardlet-container"];
const WARDLET: &str = "/opt/wardlet --state-dir /var/lib/wardlet";
/// Emulated code is slow, and the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(600);

/// The cluster and the disk of its node, which is on or off.
pub(crate) struct Machine {
    // Before the testbed, in whose network it is.
    vm: Option<Vm>,
    testbed: Testbed,
    dir: tempfile::TempDir,
}

impl Machine {
    /// The API server, and a node that was never switched on.
    pub(crate) fn make() -> Self {
        vm::ensure(KERNEL).unwrap();
        let testbed = Testbed::start(Parts::control_plane()).unwrap();
        let dir = tempfile::Builder::new().prefix("reboot").tempdir_in("/var/tmp").unwrap();
        let machine = Self { vm: None, testbed, dir };
        vm::new_disk(KERNEL, &machine.path("disk")).unwrap();
        let maker = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/busybox-image.sh");
        assert!(Command::new(maker).arg(IMAGE).arg(machine.path("image")).status().unwrap().success());
        machine.write_configuration();
        machine
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// What the node has in its /etc: the kubelet's configuration, and the credentials of a node.
    fn write_configuration(&self) {
        let config = json!({
            "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
            "authentication": {"x509": {"clientCAFile": "/etc/kubernetes/ca.crt"}},
            "resolvConf": "", "healthzPort": 0,
            // However full the disk of the guest is.
            "evictionHard": {"nodefs.available": "0%"}, "imageGCHighThresholdPercent": 100, "imageGCLowThresholdPercent": 99,
        });
        fs::write(self.path("kubelet.json"), config.to_string()).unwrap();
        let common_name = format!("system:node:{NODE}");
        let organization = Some("system:nodes");
        let user = User { file: NODE, common_name: &common_name, organization, validity: Validity::Valid };
        let kubeconfig = self.testbed.user_kubeconfig(&user).unwrap();
        let pki = kubeconfig.parent().unwrap();
        let text = fs::read_to_string(&kubeconfig).unwrap();
        fs::write(self.path("kubeconfig"), text.replace(&pki.display().to_string(), "/etc/kubernetes"))
            .unwrap();
        for (from, to) in [
            ("ca.crt".to_owned(), "ca.crt"),
            (format!("{NODE}.crt"), "node.crt"),
            (format!("{NODE}.key"), "node.key"),
        ] {
            fs::copy(pki.join(from), self.path(to)).unwrap();
        }
    }

    /// Switches it on.
    pub(crate) fn boot(&mut self) {
        assert!(self.vm.is_none(), "it is on");
        let mut payloads = PROGRAMS.map(|name| Payload::of_ours(name, &format!("/opt/{name}"))).to_vec();
        let files = [
            ("image", "/opt/image.tar".to_owned()),
            ("kubelet.json", "/etc/kubernetes/kubelet.json".to_owned()),
            ("kubeconfig", "/etc/kubernetes/kubelet.conf".to_owned()),
            ("ca.crt", "/etc/kubernetes/ca.crt".to_owned()),
            ("node.crt", format!("/etc/kubernetes/{NODE}.crt")),
            ("node.key", format!("/etc/kubernetes/{NODE}.key")),
        ];
        payloads.extend(files.map(|(name, guest)| Payload::new(&self.path(name), &guest)));
        let contexts = concat!(env!("CARGO_MANIFEST_DIR"), "/../../crates/selinux/tests/contexts/fedora");
        payloads.push(Payload::new(Path::new(contexts), "/usr/share/containers/selinux/contexts"));
        let network = self.testbed.supervisor().unwrap().pid;
        let options = Options {
            payloads,
            mode: Mode::Permissive,
            memory_mib: 1536,
            disk: Some(self.path("disk")),
            network: Some(PathBuf::from(format!("/proc/{network}/ns/net"))),
            ..Options::new(KERNEL)
        };
        let vm = Vm::boot(&options).unwrap();
        println!("booted in {:.1} s", vm.boot_time().as_secs_f64());
        self.vm = Some(vm);
    }

    /// Starts the agent as at each boot.
    pub(crate) fn start_agent(&self) {
        let address = vm::ADDRESS;
        self.done(&format!(
            "mkdir -p /var/log; {WARDLET} agent --builtin-runtime --programs /opt -- --kubeconfig=/etc/kubernetes/kubelet.conf \
             --config=/etc/kubernetes/kubelet.json --node-ip={address} --hostname-override={NODE} \
             </dev/null >>/var/log/agent.log 2>&1 & echo $! >/run/agent.pid"
        ));
    }

    /// Switches it off as an administrator does: the agent is asked to stop, then every process, and what was written is
    /// on the disk.
    pub(crate) fn shut_down(&mut self) {
        self.done("kill $(cat /run/agent.pid) && while kill -0 $(cat /run/agent.pid) 2>/dev/null; do sleep 0.1; done");
        let all = "find /sys/fs/cgroup/kubepods -name cgroup.procs -exec cat {} +";
        self.done(&format!("kill $({all}); sleep 1; kill -9 $({all}) 2>/dev/null; sleep 1; sync"));
        self.vm.take().unwrap().shutdown().unwrap();
    }

    /// What is not on its disk at this moment is lost.
    pub(crate) fn lose_power(&mut self) {
        drop(self.vm.take().unwrap());
    }

    fn sh(&self, script: &str) -> Output {
        let exec = Exec::new(&["sh", "-c", script]).limit(Duration::from_secs(180));
        self.vm.as_ref().unwrap().run(&exec).unwrap()
    }

    /// What a script in the guest prints; it must succeed.
    #[track_caller]
    pub(crate) fn done(&self, script: &str) -> String {
        let output = self.sh(script);
        assert!(output.success(), "{script}: {}{}", output.text(), output.words());
        output.text()
    }

    #[track_caller]
    pub(crate) fn wardlet(&self, words: &str) -> String {
        self.done(&format!("{WARDLET} {words}"))
    }

    #[track_caller]
    pub(crate) fn json(&self, words: &str) -> Value {
        serde_json::from_str(&self.wardlet(&format!("{words} -o json"))).unwrap()
    }

    /// What kubectl prints; it must succeed.
    #[track_caller]
    pub(crate) fn kubectl(&self, words: &str) -> String {
        let output = self.testbed.command("kubectl").args(words.split_whitespace()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "kubectl {words}: {said}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// The objects at a path of the API. A kubectl for each look would take more time than the API server.
    #[track_caller]
    pub(crate) fn list(&self, path: &str) -> Vec<Value> {
        let pki = self.testbed.kubeconfig().parent().unwrap().to_owned();
        let mut command = self.testbed.command("curl");
        command.args(["--silent", "--show-error", "--fail-with-body", "--cacert"]).arg(pki.join("ca.crt"));
        command.arg("--cert").arg(pki.join("admin.crt")).arg("--key").arg(pki.join("admin.key"));
        let output = command.arg(format!("https://{API_SERVER}/api/v1/{path}")).output().unwrap();
        let (text, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{path}: {text}{said}");
        let list: Value = serde_json::from_str(&text).unwrap();
        list["items"].as_array().unwrap().clone()
    }

    #[track_caller]
    pub(crate) fn pods(&self) -> Vec<Value> {
        self.list("namespaces/default/pods")
    }

    #[track_caller]
    pub(crate) fn apply(&self, object: &Value) {
        yardstick::apply(&self.testbed, &object.to_string()).unwrap();
    }

    /// Waits until the node is registered, and gives it the addresses of its pods.
    #[track_caller]
    pub(crate) fn join(&self) {
        wait(|| self.list("nodes").is_empty().then(|| "the node is not registered".to_owned()));
        yardstick::assign_pod_cidrs(&self.testbed, NODE, &["10.244.9.0/24"]).unwrap();
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        if let Some(vm) = self.vm.as_ref().filter(|_| std::thread::panicking()) {
            let script = "tail -n 150 /var/log/agent.log; dmesg | tail -n 20";
            let log = vm.run(&Exec::new(&["sh", "-c", script])).map(|output| output.text());
            eprintln!("{}", log.unwrap_or_else(|error| error.to_string()));
        }
    }
}

/// Waits until nothing is `missing`.
#[track_caller]
pub(crate) fn wait(mut missing: impl FnMut() -> Option<String>) {
    let deadline = Instant::now() + PATIENCE;
    while let Some(what) = missing() {
        assert!(Instant::now() < deadline, "not within {} s: {what}", PATIENCE.as_secs());
        std::thread::sleep(Duration::from_secs(1));
    }
}

//! `wardlet agent` with a kubeconfig that does not work: it says why once, and joins when the kubeconfig is replaced.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use testbed::{Parts, Testbed, User, Validity};
use testkit::wait_until;

/// Killed when it is dropped.
struct Agent(Child);

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Node<'a> {
    testbed: &'a Testbed,
    name: &'static str,
    dir: tempfile::TempDir,
}

impl Drop for Node<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}:\n{}", self.name, self.log());
        }
    }
}

impl<'a> Node<'a> {
    fn new(testbed: &'a Testbed, name: &'static str) -> Self {
        Self { testbed, name, dir: tempfile::Builder::new().prefix("wk").tempdir_in("/var/tmp").unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn user(&self, file: &str, common_name: &str, validity: Validity) -> String {
        let organization = common_name.starts_with("system:node:").then_some("system:nodes");
        let user = User { file, common_name, organization, validity };
        std::fs::read_to_string(self.testbed.user_kubeconfig(&user).unwrap()).unwrap()
    }

    /// The kubeconfig that works.
    fn good(&self) -> String {
        self.user(self.name, &format!("system:node:{}", self.name), Validity::Valid)
    }

    /// Replaces the kubeconfig as an installer does.
    fn give(&self, kubeconfig: &str) {
        std::fs::write(self.path("kubeconfig.new"), kubeconfig).unwrap();
        std::fs::rename(self.path("kubeconfig.new"), self.path("kubeconfig")).unwrap();
    }

    fn agent(&self) -> Agent {
        let config = json!({
            "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
            "enableServer": false, "healthzPort": 0, "failCgroupV1": false, "podLogsDir": self.path("logs/pods"),
            // However full the disk of this machine is.
            "evictionHard": {"nodefs.available": "0%"}, "imageGCHighThresholdPercent": 100, "imageGCLowThresholdPercent": 99,
        });
        std::fs::write(self.path("config.json"), config.to_string()).unwrap();
        let mut command: Command = self.testbed.command(testkit::programs().join("wardlet"));
        command.arg("--state-dir").arg(self.path("state"));
        command.args(["agent", "--builtin-runtime", "--run-dir"]).arg(self.path("run")).arg("--");
        for (flag, file) in [
            ("config", "config.json"),
            ("kubeconfig", "kubeconfig"),
            ("cert-dir", "pki"),
            ("root-dir", "kubelet"),
        ] {
            command.arg(format!("--{flag}={}", self.path(file).display()));
        }
        command.arg(format!("--hostname-override={}", self.name)).arg("--node-ip=10.240.0.10");
        let log = std::fs::File::create(self.path("log")).unwrap();
        Agent(command.stdin(Stdio::null()).stderr(log).spawn().unwrap())
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    /// The lines of the log that have all of these words.
    fn lines(&self, words: &[&str]) -> usize {
        self.log().lines().filter(|line| words.iter().all(|word| line.contains(word))).count()
    }

    fn is_registered(&self) -> bool {
        let mut command = self.testbed.command("kubectl");
        let output = command.args(["get", "node", self.name, "-o", "json"]).output().unwrap();
        serde_json::from_slice::<Value>(&output.stdout).is_ok()
    }
}

#[test]
fn a_kubeconfig_that_does_not_work_is_explained_and_its_replacement_is_used() {
    let testbed = Testbed::start(Parts::control_plane()).unwrap();
    let nodes = ["expired", "mistaken", "powerless"].map(|name| Node::new(&testbed, name));
    let [expired, mistaken, powerless] = &nodes;
    expired.give(&expired.user("old", "system:node:expired", Validity::Expired));
    // The certificate of another user, which signed nothing.
    let wrong = mistaken.good().replace("/ca.crt", "/mistaken.crt");
    assert_ne!(wrong, mistaken.good());
    mistaken.give(&wrong);
    powerless.give(&powerless.user("stranger", "stranger", Validity::Valid));
    let _agents = nodes.each_ref().map(Node::agent);
    let kubeconfigs = nodes.each_ref().map(|node| node.path("kubeconfig").display().to_string());
    let explained: [[&str; 3]; 3] = [
        [&kubeconfigs[0], "2021-01-01", "cannot create Node"],
        ["UnknownIssuer", "is not trusted", "cannot create Node"],
        ["answered 403", "User \"stranger\"", "cannot create Node"],
    ];
    for (node, words) in nodes.iter().zip(&explained) {
        wait_until(&format!("{} says what is wrong", node.name), || node.lines(words) > 0);
    }
    std::thread::sleep(std::time::Duration::from_secs(3));
    // The hints name the file.
    for (node, hint) in [(mistaken, "`certificate-authority`"), (powerless, "has no right")] {
        assert!(node.lines(&[hint, &node.path("kubeconfig").display().to_string()]) > 0, "{}", node.log());
    }
    for (node, words) in nodes.iter().zip(&explained) {
        assert_eq!(node.lines(words), 1, "{}", node.log());
        assert!(!node.is_registered(), "{}", node.name);
        node.give(&node.good());
    }
    for node in &nodes {
        wait_until(&format!("{} is registered", node.name), || node.is_registered());
        assert_eq!(node.lines(&["panicked"]), 0);
    }
}

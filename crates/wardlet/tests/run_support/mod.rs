//! A node with a real runtime, and this program on it.
#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use testbed::images::BUSYBOX;
use testbed::{Containerd, Options, Part, Parts, Testbed};

/// One of each ephemeral kind, and a word about each.
pub(crate) const ISOLATED: &str = r#"
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {colour: green}
---
apiVersion: v1
kind: Secret
metadata: {name: key}
stringData: {password: hunter2}
---
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}}
spec:
  hostUsers: false
  restartPolicy: Never
  volumes:
  - {name: scratch, emptyDir: {}}
  - {name: memory, emptyDir: {medium: Memory}}
  - {name: config, configMap: {name: settings}}
  - {name: secret, secret: {secretName: key}}
  - {name: self, downwardAPI: {items: [{path: labels, fieldRef: {fieldPath: metadata.labels}}]}}
  containers:
  - name: app
    image: IMAGE
    command: [sh, -c]
    args:
    - |
      echo map $(cat /proc/self/uid_map)
      echo 'colour $(COLOUR) $$(date)'
      echo config $(cat /config/colour) secret $(cat /secret/password) self $(cat /self/labels)
      touch /scratch/file /memory/file && stat -c 'owner %u' /scratch/file
      echo err >&2
      echo last words > /dev/termination-log
      exit 7
    env:
    - {name: COLOUR, valueFrom: {configMapKeyRef: {name: settings, key: colour}}}
    volumeMounts:
    - {name: scratch, mountPath: /scratch}
    - {name: memory, mountPath: /memory}
    - {name: config, mountPath: /config}
    - {name: secret, mountPath: /secret}
    - {name: self, mountPath: /self}
"#;

/// Runs until it is ended.
pub(crate) const LASTING: &str = r#"
apiVersion: v1
kind: Pod
metadata: {name: lasting}
spec:
  hostUsers: false
  terminationGracePeriodSeconds: 3
  volumes: [{name: scratch, emptyDir: {}}]
  containers:
  - name: app
    image: IMAGE
    command: [sh, -c, "cat /proc/sys/kernel/random/uuid > /scratch/born; trap 'exit 0' TERM; while :; do sleep 0.1; done"]
    volumeMounts: [{name: scratch, mountPath: /scratch}]
"#;

/// Which runtime the pods are run by.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    Containerd,
    BuiltIn,
}

pub(crate) struct Node {
    by: By,
    pub(crate) testbed: Testbed,
    /// Not in /var/lib, which is an overlay in a testbed and cannot be idmapped.
    dir: PathBuf,
}

/// Ended when the test is, whatever came of it.
pub(crate) struct Running(pub(crate) Option<Child>);

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Node {
    pub(crate) fn new() -> Self {
        Self::with(By::Containerd, &[Part::Containerd])
    }

    /// One that has a registry, too.
    pub(crate) fn with_registry() -> Self {
        Self::with(By::Containerd, &[Part::Containerd, Part::Registry])
    }

    /// One whose pods the built-in runtime runs, with the images that are there imported.
    pub(crate) fn built_in() -> Self {
        let node = Self::with(By::BuiltIn, &[Part::Containerd]);
        let archives = testbed::images::made().expect("images").join("archives");
        for entry in std::fs::read_dir(archives).unwrap() {
            let archive = entry.unwrap().path();
            let output = node.command(&["image", "import", archive.to_str().unwrap()]).output().unwrap();
            assert!(output.status.success(), "{}", text(&output));
        }
        node
    }

    fn with(by: By, parts: &[Part]) -> Self {
        let options = Options { containerd: Containerd::Pinned, ..Options::from(Parts::of(parts)) };
        let testbed = Testbed::start(options).expect("containerd");
        let dir = PathBuf::from("/var/tmp").join(format!("wardlet-run-{}", testbed.name()));
        std::fs::create_dir_all(&dir).unwrap();
        Self { by, testbed, dir }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// A manifest of this name; IMAGE is an image that is there.
    pub(crate) fn manifest(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        let next = self.path(&format!("{name}.next"));
        std::fs::write(&next, text.replace("IMAGE", BUSYBOX)).unwrap();
        std::fs::rename(next, &path).unwrap();
        path
    }

    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = self.testbed.command(env!("CARGO_BIN_EXE_wardlet"));
        command.arg("--state-dir").arg(self.path("state")).args(words);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Where sockets are: in the testbed's own /run, for their paths are to be short.
    pub(crate) fn run_dir(&self) -> PathBuf {
        match self.by {
            By::Containerd => self.path("run"),
            By::BuiltIn => PathBuf::from("/run/wardlet-run"),
        }
    }

    /// The words that say which runtime is meant.
    pub(crate) fn places(&self) -> Vec<String> {
        let mut words = vec![format!("--run-dir={}", self.run_dir().display())];
        if self.by == By::BuiltIn {
            let monitor = testbed::own::program("wardlet-monitor").expect("wardlet-monitor");
            words.push(format!("--programs={}", monitor.parent().unwrap().display()));
        }
        words
    }

    pub(crate) fn run(&self, more: &[&str]) -> Command {
        let places = self.places();
        let endpoint = format!("--runtime-endpoint=unix://{}", self.testbed.containerd_socket().display());
        let mut words = vec!["run"];
        words.extend(places.iter().map(String::as_str));
        words.extend((self.by == By::Containerd).then_some(endpoint.as_str()));
        words.extend(more);
        self.command(&words)
    }

    pub(crate) fn json(&self, words: &[&str]) -> serde_json::Value {
        let output = self.command(&[&["-o", "json"], words].concat()).output().unwrap();
        serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{words:?}: {e}: {}", text(&output)))
    }

    /// Waits for what comes by itself.
    pub(crate) fn await_that(&self, what: &str, mut holds: impl FnMut() -> bool) {
        let began = Instant::now();
        while !holds() {
            assert!(began.elapsed() < Duration::from_secs(120), "never: {what}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Everything that a pod could have left behind.
    pub(crate) fn leftovers(&self) -> Vec<String> {
        let crictl = |words: &str| {
            let socket = self.testbed.containerd_socket();
            let shown = self
                .testbed
                .command("sh")
                .args(["-c", &format!("ctr --address {} -n k8s.io {words}", socket.display())])
                .output()
                .unwrap();
            String::from_utf8_lossy(&shown.stdout).trim().to_owned()
        };
        let mut left = Vec::new();
        left.extend(Some(crictl("containers ls -q")).filter(|t| !t.is_empty()));
        let own = ["state/runtime/sandboxes", "state/runtime/containers"];
        for dir in ["state/pods", "state/logs", "run/userns"].into_iter().chain(own) {
            let entries = std::fs::read_dir(self.path(dir)).into_iter().flatten().flatten();
            left.extend(entries.map(|e| e.path().display().to_string()));
        }
        let mounts = self.testbed.command("cat").arg("/proc/self/mountinfo").output().unwrap();
        let mounts = String::from_utf8_lossy(&mounts.stdout).into_owned();
        let ours = self.dir.display().to_string();
        left.extend(mounts.lines().filter(|line| line.contains(&ours)).map(str::to_owned));
        let leases = self.json(&["ids", "list"]);
        let held = leases.as_array().unwrap().iter().filter(|lease| lease["state"] == "leased");
        left.extend(held.map(ToString::to_string));
        left
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // Only files are left there: mounts were made in the testbed's namespace, which goes with it.
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

pub(crate) fn text(output: &Output) -> String {
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    format!("{:?}\nstdout: {out}\nstderr: {err}", output.status)
}

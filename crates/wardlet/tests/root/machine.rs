//! A machine for `wardlet run` on the built-in runtime, without any component: a network namespace of its own, an image
//! of busybox, and blocks of IDs that no other test has. All of it is gone when it is dropped.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::Value;
use testkit::wait_for;

/// The image that is there.
pub(crate) const IMAGE: &str = "localhost/machine:1";
const UNIT: u64 = 65_536;
/// Each machine has as many blocks.
const BLOCKS: u64 = 8;

/// A process that ends with the test.
pub(crate) struct Running(pub(crate) Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A network namespace with a loopback device.
pub(crate) struct Lan(Running);

impl Lan {
    pub(crate) fn new() -> Self {
        let script = "ip link set lo up && echo ready && read line";
        let mut command = Command::new("unshare");
        command.args(["--net", "sh", "-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut running = Running(command.spawn().unwrap());
        let mut line = String::new();
        BufReader::new(running.0.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        Self(running)
    }

    fn enter(&self) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/proc/{}/ns/net", self.0.0.id())).arg("--");
        command
    }
}

pub(crate) struct Machine<'a> {
    lan: &'a Lan,
    home: tempfile::TempDir,
}

impl<'a> Machine<'a> {
    pub(crate) fn new(lan: &'a Lan) -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        // Short, for the paths of sockets.
        let home = tempfile::Builder::new().prefix("wm").tempdir_in("/var/tmp").unwrap();
        let machine = Self { lan, home };
        machine.set_mode(0o711);
        let first = (47_000 + BLOCKS * NUMBER.fetch_add(1, Ordering::Relaxed)) * UNIT;
        let pool = format!("{first}-{}", first + BLOCKS * UNIT - 1);
        let pods = machine.path("kubelet/pods");
        let config = format!(
            "userNamespaces: {{quarantineSeconds: 0, pool: {{uids: [\"{pool}\"]}}}}\nkubelet: {{podsDir: {}}}\n",
            pods.display()
        );
        fs::write(machine.path("node.yaml"), config).unwrap();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/busybox-image.sh");
        let archive = machine.path("image.tar");
        assert!(Command::new(script).arg(IMAGE).arg(&archive).status().unwrap().success());
        machine.done(&["image", "import", archive.to_str().unwrap()]);
        machine
    }

    /// Adds settings to the node's configuration.
    pub(crate) fn configure(&self, more: &str) {
        let path = self.path("node.yaml");
        let text = fs::read_to_string(&path).unwrap();
        fs::write(path, text + more).unwrap();
    }

    /// Gives the directory above all others this mode.
    pub(crate) fn set_mode(&self, mode: u32) {
        fs::set_permissions(self.home.path(), fs::Permissions::from_mode(mode)).unwrap();
    }

    pub(crate) fn home(&self) -> &Path {
        self.home.path()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    /// A manifest with these pods; IMAGE is the image that is there.
    pub(crate) fn manifest(&self, name: &str, text: &str) -> String {
        let (path, next) = (self.path(name), self.path(&format!("{name}.next")));
        fs::write(&next, text.replace("IMAGE", IMAGE)).unwrap();
        fs::rename(next, &path).unwrap();
        path.to_str().unwrap().to_owned()
    }

    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = self.lan.enter();
        command.arg(env!("CARGO_BIN_EXE_wardlet"));
        command.arg("--config").arg(self.path("node.yaml")).arg("--state-dir").arg(self.path("state"));
        command.args(words);
        if matches!(words.first(), Some(&"run" | &"stop")) {
            command.arg("--programs").arg(testkit::programs());
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub(crate) fn output(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
    }

    /// What it printed; it must have succeeded.
    #[track_caller]
    pub(crate) fn done(&self, words: &[&str]) -> String {
        let output = self.output(words);
        assert!(output.status.success(), "{words:?}: {}", text(&output));
        text(&output)
    }

    pub(crate) fn start(&self, words: &[&str]) -> Running {
        Running(self.command(words).spawn().unwrap())
    }

    pub(crate) fn pods(&self) -> Vec<Value> {
        let output = self.output(&["ps", "-o", "json"]);
        serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {}", text(&output)))
    }

    /// Waits until the pod of this name is in this phase.
    #[track_caller]
    pub(crate) fn await_phase(&self, name: &str, phase: &str) -> Value {
        let is_meant = |pod: &Value| pod["name"] == name && pod["phase"] == phase;
        wait_for(&format!("{name} is {phase}"), || self.pods().into_iter().find(is_meant))
    }
}

impl Drop for Machine<'_> {
    fn drop(&mut self) {
        self.set_mode(0o711);
        let _ = self.output(&["stop", "--all", "--grace", "0"]);
        // In /run, and not in this directory: paths of sockets are to be short.
        let run_dir = node::Instance::of(&self.path("state")).run_dir();
        if fs::read_dir(run_dir.join("sandboxes")).is_ok_and(|mut left| left.next().is_some()) {
            // A pod whose record a test has removed: the next run collects it.
            let job = self.manifest("collect.yaml", &pod("collect", "exit 0", "  restartPolicy: Never\n"));
            let _ = self.output(&["run", &job]);
        }
        let _ = fs::remove_dir_all(run_dir);
        // Empty once the pods are gone; the kernel refuses to remove any other.
        let cgroup = node::Instance::of(&self.path("state")).cgroup();
        for hierarchy in fs::read_dir("/sys/fs/cgroup").into_iter().flatten().flatten() {
            let _ = fs::remove_dir(hierarchy.path().join(cgroup.trim_start_matches('/')));
        }
    }
}

pub(crate) fn text(output: &Output) -> String {
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    format!("{:?}\nstdout: {out}\nstderr: {err}", output.status)
}

/// A pod of one container that runs this script; `more` are fields of its spec.
pub(crate) fn pod(name: &str, script: &str, more: &str) -> String {
    let command = serde_json::json!(["sh", "-c", script]);
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n  hostUsers: false\n{more}  containers:\n  \
         - {{name: app, image: IMAGE, imagePullPolicy: Never, command: {command}}}\n---\n"
    )
}

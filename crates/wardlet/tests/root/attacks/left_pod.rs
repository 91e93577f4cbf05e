//! A pod as `run` has written it down, with logs and a status of the test's choice: no runtime is needed to print them.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

const UID: &str = "11111111-2222-3333-4444-555555555555";

pub(crate) struct LeftPod {
    state: TempDir,
}

impl LeftPod {
    pub(crate) fn new() -> Self {
        let pod = Self { state: tempfile::tempdir().unwrap() };
        let definition = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "evil", "namespace": "default", "uid": UID},
            "spec": {"containers": [{"name": "app", "image": "app"}]},
        });
        let record = json!({
            "version": 1, "uid": UID, "namespace": "default", "name": "evil", "hash": "0",
            "endpoint": "unix:///nowhere.sock", "handler": "", "mode": "host", "uids": [], "gids": [],
            "process": 1, "pod": definition,
        });
        std::fs::create_dir_all(pod.dir()).unwrap();
        std::fs::create_dir_all(pod.logs()).unwrap();
        std::fs::write(pod.dir().join("agent.json"), record.to_string()).unwrap();
        pod
    }

    fn dir(&self) -> PathBuf {
        self.state.path().join("pods").join(UID)
    }

    /// The directory of its one container's logs.
    pub(crate) fn logs(&self) -> PathBuf {
        self.state.path().join(format!("logs/default_evil_{UID}/app"))
    }

    /// What was last said of it: it ended with these last words, and waits for this reason.
    pub(crate) fn with_status(self, reason: &str, message: &str) -> Self {
        let exit = json!({"code": 1, "reason": "Error", "message": message, "started": null, "finished": 1});
        let container = json!({
            "name": "app", "state": {"waiting": {"reason": reason, "message": message}}, "last": exit,
            "ready": false, "started": false, "restarts": 3,
        });
        let status: Value = json!({
            "phase": "Running", "stage": "Syncing", "reason": null, "message": message, "started": 1, "ips": [],
            "conditions": [], "init": [], "containers": [container],
        });
        std::fs::write(self.dir().join("status.json"), status.to_string()).unwrap();
        self
    }

    pub(crate) fn wardlet(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_wardlet"));
        command.arg("--state-dir").arg(self.state.path()).args(words);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }
}

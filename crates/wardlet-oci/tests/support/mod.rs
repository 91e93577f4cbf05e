//! A node with containerd and our program where its shims look for the OCI runtime.
//!
//! Everything happens in the testbed's own namespaces and directories: /etc, /run and /var/lib/wardlet inside
//! are not the host's, and go with it.
#![allow(
    dead_code,
    unreachable_pub,
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "each test binary uses what it needs, and a test may panic"
)]

pub mod cri;
pub mod pods;
pub mod proc;
pub mod trail;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;
use testbed::{Containerd, Handler, Options, Part, Parts, Shim, Testbed};

use self::cri::Cri;
pub use testkit::wait_for;

/// Long enough for a loaded machine; nothing is asserted about it.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Pods that name no handler meet the usual runc; those that name this one meet us.
pub const WARD: &str = "ward";

/// As many as 256 pods have.
const IDS: u64 = 256 * 65_536;

pub struct Node {
    pub testbed: Testbed,
    pub cri: Cri,
    /// The first host ID of its pool: nodes of tests that run at the same time hardly have the same.
    first: u64,
}

/// The operator's gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gate {
    Open,
    Closed,
}

impl Node {
    /// containerd alone, with the operator's gate open.
    pub fn start(containerd: Containerd) -> Self {
        Self::with(containerd, Parts::of(&[Part::Containerd]), vec![ours(WARD, Shim::Runc)])
    }

    pub fn with(containerd: Containerd, parts: Parts, handlers: Vec<Handler>) -> Self {
        let options = Options { containerd, handlers, ..Options::from(parts) };
        let testbed = Testbed::start(options).expect("a testbed");
        let cri = Cri::of(&testbed);
        let node = Self { testbed, cri, first: 1_441_792_000 + nanos() % 160 * IDS };
        node.configure(Gate::Open, &usual_runtime(containerd));
        node
    }

    /// The operator's configuration of our program.
    pub fn configure(&self, gate: Gate, runtime: &Path) {
        let (last, runtime) = (self.first + IDS - 1, runtime.display());
        let text = format!(
            "userNamespaces:\n  pool: {{uids: [{}-{last}]}}\n\
             wrapper:\n  enable_user_namespace_annotation: {}\n  runtime: {runtime}\n",
            self.first,
            gate == Gate::Open
        );
        let write = "mkdir -p /etc/wardlet && printf %s \"$1\" > /etc/wardlet/config.yaml";
        self.said("sh", &["-c", write, "sh", &text]);
    }

    /// A directory that the testbed and the host see alike, on a filesystem that can be idmapped.
    pub fn dir(&self, name: &str) -> PathBuf {
        let dir = self.testbed.record().places.data.join("tests").join(name);
        std::fs::create_dir_all(&dir).unwrap();
        dir
    }

    /// What a program says inside; it must succeed.
    #[track_caller]
    pub fn said(&self, program: &str, words: &[&str]) -> String {
        let output = self.testbed.command(program).args(words).stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success(), "{program} {words:?}: {}", text(&output));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    pub fn wardlet(&self, words: &[&str]) -> Command {
        let mut command = self.testbed.command(testbed::own::program("wardlet").expect("wardlet"));
        command.args(words).stdin(Stdio::null());
        command
    }

    /// What `wardlet` answers in JSON, and its exit code.
    #[track_caller]
    pub fn asked(&self, words: &[&str]) -> (Option<i32>, Value) {
        let output = self.wardlet(&[words, &["-o", "json"]].concat()).output().unwrap();
        let answer = serde_json::from_slice(&output.stdout);
        (output.status.code(), answer.unwrap_or_else(|e| panic!("{words:?}: {e}: {}", text(&output))))
    }

    /// The blocks that pods hold, by their first host ID.
    #[track_caller]
    pub fn leased(&self) -> Vec<u64> {
        let (_, list) = self.asked(&["ids", "list"]);
        let leases = list.as_array().unwrap().iter().filter(|lease| lease["state"] == "leased");
        leases.map(|lease| lease["uidMappings"][0]["hostId"].as_u64().unwrap()).collect()
    }

    pub fn containerd_log(&self) -> String {
        let log = self.testbed.record().places.log("containerd");
        let text = std::fs::read_to_string(log).unwrap_or_default();
        let start = text.len().saturating_sub(6_000);
        text.chars().skip(start).collect()
    }
}

/// The real runtime of the pair.
pub fn usual_runtime(containerd: Containerd) -> PathBuf {
    match containerd {
        Containerd::Debian => "/usr/sbin/runc".into(),
        _ => testbed::cache::program("runc", "runc").expect("runc"),
    }
}

fn nanos() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    u64::from(now.subsec_nanos())
}

/// A handler whose shim calls our program.
pub fn ours(name: &str, shim: Shim) -> Handler {
    Handler { name: name.into(), shim, binary: env!("CARGO_BIN_EXE_wardlet-oci").into() }
}

pub fn text(output: &Output) -> String {
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    format!("{:?}\nstdout: {out}\nstderr: {err}", output.status)
}

//! Pods that ask for a user namespace, and what the wrapper has of them.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use census::HostRoot;
use ids::allocator::State;
use ledger::{Lease, Ledger};
use serde_json::{Value, json};

use crate::isolation::{Host, Pod};
use crate::wrapped::{Wrapped, stderr};

/// Debian's.
pub const RUNC: &str = "/usr/sbin/runc";

/// Leases as any other process of the node sees them.
pub fn leases(wrapped: &Wrapped) -> Vec<Lease> {
    let config = node::load(Some(&wrapped.path("config.yaml")), Path::new("/nowhere")).unwrap();
    let host = HostRoot::new("/");
    let pool = node::pool::for_wrapper(&config, &host).unwrap();
    let parameters = node::ledger::LedgerParameters { state_dir: &config.settings.wrapper.state_dir, pool };
    Ledger::open(node::ledger::options(&config, &host, parameters).unwrap()).unwrap().list().unwrap()
}

pub fn held(wrapped: &Wrapped) -> usize {
    leases(wrapped).iter().filter(|lease| lease.state == State::Leased).count()
}

/// A bundle of a pod that asks for a user namespace; of one of its other containers, if it has a sandbox.
pub fn asking(
    host: &Host,
    pod: &Pod,
    sandbox: Option<&str>,
    change: impl FnOnce(&mut Value),
) -> (String, PathBuf) {
    host.bundle(pod, |spec| {
        let kind = if sandbox.is_some() { "container" } else { "sandbox" };
        let own = id(spec);
        spec["annotations"] = json!({
            "io.kubernetes.cri.container-type": kind, "io.kubernetes.cri.sandbox-id": sandbox.unwrap_or(&own),
            "io.kubernetes.cri.sandbox-namespace": "default", "io.kubernetes.cri.sandbox-name": "web",
            "wardlet.dev/user-namespace": "true",
        });
        change(spec);
    })
}

/// The name of the container that a configuration is written for.
pub fn id(spec: &Value) -> String {
    let cgroup = spec["linux"]["cgroupsPath"].as_str().unwrap();
    cgroup.rsplit('/').next().unwrap().to_owned()
}

pub fn root(wrapped: &Wrapped) -> String {
    wrapped.path("root").to_str().unwrap().to_owned()
}

#[track_caller]
pub fn done(output: &Output) {
    assert!(output.status.success(), "{}", stderr(output));
}

pub fn init(bundle: &Path) -> u32 {
    fs::read_to_string(bundle.join("init.pid")).unwrap().trim().parse().unwrap()
}

/// What the runtime still has goes when a test ends, before the wrapper's directories do.
pub struct Emptied<'a>(pub &'a Wrapped);

impl Drop for Emptied<'_> {
    fn drop(&mut self) {
        let root = root(self.0);
        let listed = std::process::Command::new(RUNC).args(["--root", &root, "list", "-q"]).output();
        let ids =
            listed.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
        for id in ids.split_whitespace() {
            let _ =
                std::process::Command::new(RUNC).args(["--root", &root, "delete", "--force", id]).output();
        }
    }
}

/// Waits until nothing is held or written down any more: whoever looks after a create does so when it has ended.
#[track_caller]
pub fn given_back(wrapped: &Wrapped) {
    testkit::wait_until("the lease is released and the record is gone", || {
        (held(wrapped), wrapped.records().len()) == (0, 0)
    });
}

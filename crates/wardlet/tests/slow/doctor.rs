//! `wardlet doctor` and real runtimes: one that knows nothing of user namespaces, and one that does.

use std::process::Command;

use serde_json::Value;
use testbed::{Containerd, Options, Part, Parts, Testbed};

fn containerd(which: Containerd) -> Testbed {
    let options = Options { containerd: which, ..Options::from(Parts::of(&[Part::Containerd])) };
    Testbed::start(options).expect("containerd")
}

struct Ran {
    code: Option<i32>,
    checks: Vec<Value>,
}

fn doctor(testbed: &Testbed) -> Ran {
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_wardlet"));
    command.args(["doctor", "-o", "json", "--runtime-endpoint"]).arg(testbed.containerd_socket());
    let output = command.arg("--state-dir").arg(dir.path()).output().unwrap();
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {output:?}"));
    Ran { code: output.status.code(), checks: answer["checks"].as_array().unwrap().clone() }
}

impl Ran {
    #[track_caller]
    fn text(&self, need: &str, field: &str) -> &str {
        let found = self.checks.iter().find(|check| check["need"].as_str().unwrap().starts_with(need));
        let check = found.unwrap_or_else(|| panic!("nothing about {need:?} in {:#?}", self.checks));
        check[field].as_str().unwrap_or_else(|| panic!("{check:#?} has no {field}"))
    }
}

#[test]
fn a_runtime_that_would_silently_leave_the_pod_root_on_the_host_is_a_failure() {
    let testbed = containerd(Containerd::Debian);
    let ran = doctor(&testbed);
    assert_eq!(ran.code, Some(1));
    assert!(ran.text("the runtime at", "found").starts_with("containerd 1.6."));
    let need = "the runtime gives pods user namespaces";
    let cause = ran.text(need, "cause");
    assert!(
        cause.starts_with("containerd 1.6.") && cause.contains("the pod would be root on the host"),
        "{cause}"
    );
    let fix = "install containerd 2.0 or newer with runc 1.2 or newer, then: systemctl restart containerd";
    assert_eq!(ran.text(need, "fix"), fix);
    let need = "/usr/sbin/runc idmaps mounts (handler \"runc\")";
    assert!(ran.text(need, "cause").starts_with("it cannot idmap mounts, as runc before 1.2; "));
    assert_eq!(ran.text(need, "fix"), "put runc 1.2 or newer at /usr/sbin/runc");
}

#[test]
fn a_runtime_whose_claim_is_borne_out_holds_with_its_snapshotter_and_its_directory() {
    let testbed = containerd(Containerd::Pinned);
    let ran = doctor(&testbed);
    assert_eq!(ran.text("the runtime at", "verdict"), "holds");
    let handler = "handler \"runc\" gives pods user namespaces";
    let found = ran.text(handler, "found");
    assert!(found.starts_with("claimed, and /") && found.ends_with("/runc idmaps mounts"), "{found}");
    assert_eq!(ran.text("containerd's snapshotter", "found"), "overlayfs");
    assert_eq!(ran.text("the default handler makes mounts read-only", "found"), "claimed");
    assert!(ran.text("containerd's directory", "found").starts_with("yes, on "));
    assert_eq!(ran.code, Some(0), "{:#?}", ran.checks);
}

//! `wardlet doctor` against faults made real, in namespaces of their own that end with the test.

use crate::fuse;

use std::path::Path;
use std::process::Command;

use serde_json::Value;

struct Ran {
    code: Option<i32>,
    checks: Vec<Value>,
}

impl Ran {
    #[track_caller]
    fn check(&self, need: &str) -> &Value {
        let found = self.checks.iter().find(|check| check["need"].as_str().unwrap().starts_with(need));
        found.unwrap_or_else(|| panic!("nothing about {need:?} in {:#?}", self.checks))
    }

    #[track_caller]
    fn text(&self, need: &str, field: &str) -> &str {
        let check = self.check(need);
        check[field].as_str().unwrap_or_else(|| panic!("{check:#?} has no {field}"))
    }
}

/// Runs a script in which `doctor` is the program, with a state directory in `$DIR`.
fn ran(script: &str, dir: &Path) -> Ran {
    assert!(is_root(), "this test needs root");
    let doctor = r#"doctor() { "$WARDLET" doctor -o json --state-dir "$DIR/state" "$@"; }"#;
    let output = Command::new("sh")
        .args(["-c", &format!("{doctor}\n{script}")])
        .env("WARDLET", env!("CARGO_BIN_EXE_wardlet"))
        .env("DIR", dir)
        .output()
        .unwrap();
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {output:?}"));
    Ran { code: output.status.code(), checks: answer["checks"].as_array().unwrap().clone() }
}

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").unwrap().uid() == 0
}

/// The script in namespaces of its own: `how` are the arguments of unshare.
fn apart(how: &str, script: &str) -> String {
    let doctor = r#"\"\$WARDLET\" doctor -o json --state-dir \"\$DIR/state\""#;
    format!("unshare {how} sh -c \"{}\"", script.replace("doctor", doctor))
}

const CAN: &str = "user namespaces can be made";
const STATE: &str = "the state directory";
const OVERLAY: &str = "image layers on the state directory's filesystem";

#[test]
fn this_node_can_give_pods_user_namespaces_and_nothing_is_left_of_the_trials() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("state")).unwrap();
    let mounts = || std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    let before = mounts();
    let ran = ran("doctor", dir.path());
    for need in [CAN, STATE, OVERLAY, "volumes in memory can be idmapped"] {
        assert_eq!(ran.check(need)["holds"], true, "{:#?}", ran.check(need));
        assert_eq!(ran.text(need, "evidence"), "trial");
    }
    assert!(ran.text(STATE, "found").starts_with("yes, on "));
    assert_eq!(mounts(), before);
    assert_eq!(std::fs::read_dir(dir.path().join("state")).unwrap().count(), 0);
}

#[test]
fn a_limit_of_zero_is_named_behind_the_kernels_misleading_word() {
    let dir = tempfile::tempdir().unwrap();
    let script = apart("--user --map-root-user", "echo 0 > /proc/sys/user/max_user_namespaces && doctor");
    let ran = ran(&script, dir.path());
    assert_eq!(ran.code, Some(1));
    let cause = ran.text(CAN, "cause");
    assert!(cause.contains("user.max_user_namespaces is 0") && cause.contains("no space left"), "{cause}");
    assert!(ran.text(CAN, "fix").contains("sysctl -w user.max_user_namespaces="));
    let limit = "user.max_user_namespaces leaves room";
    assert_eq!((ran.text(limit, "found"), ran.text(limit, "verdict")), ("0", "fails"));
    assert_eq!(ran.text("the filesystems in use", "verdict"), "open", "no user namespace, no trial");
}

/// Two user namespaces deep: the limit is the outer one's, and cannot be read from the inner.
#[test]
fn a_limit_of_a_namespace_around_this_one_is_told_apart_from_our_own() {
    let dir = tempfile::tempdir().unwrap();
    let script = apart(
        "--user --map-root-user",
        "echo 1 > /proc/sys/user/max_user_namespaces && exec unshare --user --map-root-user doctor",
    );
    let ran = ran(&script, dir.path());
    assert_eq!(ran.code, Some(1));
    let cause = ran.text(CAN, "cause");
    assert!(cause.contains("a user namespace around this one"), "{cause}");
    assert!(ran.text(CAN, "fix").contains("on the host, outside of this container"));
}

/// Without any of root's rights in its user namespace; the files are still root's to read.
#[test]
fn without_root_what_must_be_tried_stays_open() {
    let dir = tempfile::tempdir().unwrap();
    let ran = ran(&apart("--user", "doctor"), dir.path());
    for need in [CAN, "the filesystems in use"] {
        assert_eq!((ran.text(need, "verdict"), ran.text(need, "fix")), ("open", "sudo wardlet doctor"));
    }
    assert_eq!(ran.code, Some(2));
}

#[test]
fn a_state_directory_on_a_filesystem_that_cannot_be_idmapped_is_named_with_the_filesystem() {
    let script = "mkdir -p $DIR/state $DIR/l $DIR/u $DIR/w && ";
    let mounted = [
        ("ramfs", "mount -t ramfs none \\$DIR/state"),
        (
            "overlay",
            "mount -t overlay none -o lowerdir=\\$DIR/l,upperdir=\\$DIR/u,workdir=\\$DIR/w \\$DIR/state",
        ),
    ];
    for (name, mount) in mounted {
        let dir = tempfile::tempdir().unwrap();
        let apart = apart("--mount --propagation private", &format!("{mount} && doctor"));
        let ran = ran(&format!("{script}{apart}"), dir.path());
        assert_eq!(ran.code, Some(1));
        let cause = ran.text(STATE, "cause");
        assert!(cause.starts_with(&format!("{name}, which ")), "{cause}");
        assert_eq!(ran.text(STATE, "fix"), "choose one on ext4, xfs or btrfs: wardlet --state-dir DIR");
        assert_eq!(ran.text(OVERLAY, "verdict"), "fails", "{name}");
    }
}

/// The fault is of the pods whose volumes lie there, not of the node.
#[test]
fn a_filesystem_that_cannot_be_idmapped_is_named_with_the_way_out_for_volumes_on_it() {
    let dir = tempfile::tempdir().unwrap();
    let ran = fuse::mounted(dir.path(), fuse::Server::Answers, || ran("doctor", dir.path()));
    let need = "volumes on fuse can be idmapped";
    assert_eq!((ran.text(need, "verdict"), ran.text(need, "severity")), ("fails", "useful"));
    assert!(ran.text(need, "cause").starts_with("fuse, which "), "{:#?}", ran.check(need));
    assert!(ran.text(need, "fix").contains("{filesystems: [fuse], rule: sharedBlock}"));
    assert_eq!(ran.check(STATE)["holds"], true);
}

#[test]
fn a_filesystem_whose_server_is_gone_keeps_nobody_waiting() {
    let dir = tempfile::tempdir().unwrap();
    let ran = fuse::mounted(dir.path(), fuse::Server::Hangs, || ran("doctor", dir.path()));
    let need = "volumes on fuse can be idmapped";
    assert_eq!((ran.text(need, "verdict"), ran.text(need, "severity")), ("open", "useful"));
    assert!(ran.text(need, "cause").ends_with("did not respond within 5 s"));
    assert!(ran.text(need, "fix").contains("umount -l "));
}

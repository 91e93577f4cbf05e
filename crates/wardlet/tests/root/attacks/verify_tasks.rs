//! `wardlet verify` looked at the mount namespaces of the leaders of a pod's processes, and at no others.
//!
//! A pod has a volume that is not idmapped: its files belong to host users, which is a violation. The pod keeps the mount
//! namespace with that volume
//! - with a thread whose leader has ended: the leader's links in /proc lead nowhere;
//! - with a thread that called unshare(2), while the leader unmounts the volume;
//! - with an open descriptor, when no process is in the mount namespace any more.
//!
//! Each time `verify` exited with 0. It now looks at the mount namespaces of all threads, and at those that something keeps.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::test_pods::{Planted, Site, TestPod, Volume, Wanted};
use testkit::wait_until;

/// Far from the blocks of all other tests; each test has 16 blocks of its own.
fn pool(number: u64) -> u64 {
    4_026_531_840 + number * 16 * 65_536
}

/// A pod whose first process becomes hide.c with this word, when it has done what it does.
fn hiding(site: &Site, uid: &str, word: &str) -> TestPod {
    let script = format!(
        "until [ -x /data/hide ]; do /bin/busybox usleep 5000; done
        exec /data/hide {word}"
    );
    let wanted = Wanted { volume: Volume::Plain, script, ..Wanted::new(uid, site.lease(uid)) };
    let isolated = TestPod::start(&wanted);
    give_program(&isolated);
    wait_until_hidden(&isolated.volume());
    isolated
}

/// Compiles hide.c into the pod's volume.
fn give_program(isolated: &TestPod) {
    let signs = isolated.volume().join("signs");
    fs::create_dir(&signs).unwrap();
    fs::set_permissions(&signs, Permissions::from_mode(0o777)).unwrap();
    fs::set_permissions(isolated.volume(), Permissions::from_mode(0o755)).unwrap();
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/root/attacks/hide.c");
    let compiled = isolated.volume().join("compiled");
    let mut cc = Command::new("cc");
    cc.args(["-static", "-pthread", "-Wall", "-Werror", "-o"]).arg(&compiled).arg(source);
    assert!(cc.status().unwrap().success());
    fs::rename(compiled, isolated.volume().join("hide")).unwrap();
}

fn wait_until_hidden(volume: &Path) {
    wait_until("hide.c does not come to its end", || volume.join("signs/done").exists());
}

#[track_caller]
fn names_the_volume(site: &Site, uid: &str) {
    let violation = site.convicts(uid, "mountNotIdmapped");
    assert!(violation["found"].as_str().unwrap().contains("not idmapped, owner 0:0"), "{violation}");
}

#[test]
fn a_thread_without_its_leader_does_not_hide_its_mounts() {
    let site = Site::new(pool(0), 16);
    let isolated = hiding(&site, "leaderless", "leader");
    let status = format!("/proc/{}/status", isolated.pid());
    wait_until("the leader has not ended", || fs::read_to_string(&status).unwrap().contains("State:\tZ"));
    names_the_volume(&site, "leaderless");
}

#[test]
fn a_thread_in_a_mount_namespace_of_its_own_does_not_hide_its_mounts() {
    let site = Site::new(pool(1), 16);
    let isolated = hiding(&site, "threaded", "thread");
    let seen = fs::read_to_string(format!("/proc/{}/mountinfo", isolated.pid())).unwrap();
    assert!(!seen.contains(" /data "), "{seen}");
    names_the_volume(&site, "threaded");
}

#[test]
fn a_mount_namespace_that_only_a_descriptor_keeps_is_looked_at() {
    let site = Site::new(pool(2), 16);
    let wanted = Wanted { volume: Volume::Plain, ..Wanted::new("kept", site.lease("kept")) };
    let isolated = TestPod::start(&wanted);
    give_program(&isolated);
    let volume = isolated.volume();
    let TestPod { process, group, .. } = isolated;
    let namespace = |kind: &str| format!("/proc/{}/ns/{kind}", process.pid());
    let mut command = Command::new("nsenter");
    for (option, file) in [("user", "user"), ("mount", "mnt"), ("net", "net"), ("ipc", "ipc"), ("uts", "uts")]
    {
        command.arg(format!("--{option}={}", namespace(file)));
    }
    // The descriptor is its standard input.
    command.args(["--", "/data/hide", "alone"]).stdin(File::open(namespace("mnt")).unwrap());
    let keeper = Planted(command.spawn().unwrap());
    group.add(keeper.pid());
    wait_until_hidden(&volume);
    let seen = fs::read_to_string(format!("/proc/{}/mountinfo", keeper.pid())).unwrap();
    assert!(!seen.contains(" /data "), "{seen}");
    drop((process, command));
    names_the_volume(&site, "kept");
    drop(keeper);
}

//! `wardlet verify` called a pod isolated whose mounts it had not looked at.
//!
//! A pod has a volume that is not idmapped: its files belong to host users. That is a violation, and `verify` says so as long
//! as the pod leaves things as they are. The pod, which has power over its own mount namespace, then hides the mount:
//! - its process calls chroot(2), and shows no mounts any more;
//! - it mounts a tmpfs over the volume, over the directory above it, or over the root of its mount namespace;
//! - it makes the mount unbindable, so that it cannot be copied;
//! - its processes go into a control group that is named like conmon's, which was not looked at.
//!
//! Each time `verify` exited with 0. It now finds the mount, or says that it was not seen (exit 2).

use std::process::Command;
use std::time::{Duration, Instant};

use cgroups::{Group, Hierarchies};
use serde_json::Value;

use crate::test_pods::{Planted, Site, TestPod, Volume, Wanted, entering, maps};

const SLEEP: &str = "exec /bin/busybox sleep 1000";

/// Far from the blocks of all other tests; each test has 16 blocks of its own.
fn pool(number: u64) -> u64 {
    3_758_096_384 + number * 16 * 65_536
}

fn with_plain_volume(site: &Site, uid: &str, script: &str) -> TestPod {
    let base = site.lease(uid);
    TestPod::start(&Wanted {
        volume: Volume::Plain,
        script: format!("{script}\n{SLEEP}"),
        ..Wanted::new(uid, base)
    })
}

/// What the pod's script does takes a moment; it is done when the process sleeps.
fn settled(isolated: &TestPod) {
    let deadline = Instant::now() + Duration::from_secs(20);
    let command = format!("/proc/{}/cmdline", isolated.pid());
    while !std::fs::read_to_string(&command).unwrap().contains("sleep\0") {
        assert!(Instant::now() < deadline, "the pod's script did not end");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[track_caller]
fn names_the_volume(site: &Site, uid: &str) {
    let violation = site.convicts(uid, "mountNotIdmapped");
    assert!(violation["found"].as_str().unwrap().contains("not idmapped, owner 0:0"), "{violation}");
}

/// Exit 2, and the pod is not called isolated.
#[track_caller]
fn is_unseen(site: &Site, uid: &str) -> Value {
    let (code, report) = site.json(&format!("verify {uid}"));
    assert_eq!((code, &report["verdict"]), (Some(2), &"unknown".into()), "{report:#}");
    assert_eq!(report["pods"][0]["verdict"], "unseen", "{report:#}");
    assert_ne!(report["unseen"], serde_json::json!([]), "{report:#}");
    report
}

#[test]
fn a_pod_that_calls_chroot_does_not_hide_its_mounts() {
    let site = Site::new(pool(0), 16);
    let script = "exec /bin/busybox chroot /bin /busybox sleep 1000";
    let isolated = with_plain_volume(&site, "chrooted", script);
    settled(&isolated);
    names_the_volume(&site, "chrooted");
}

#[test]
fn a_good_pod_that_calls_chroot_is_judged_by_all_its_mounts() {
    let site = Site::new(pool(1), 16);
    let script = "exec /bin/busybox chroot /bin /busybox sleep 1000".to_owned();
    let isolated =
        TestPod::start(&Wanted { script, ..Wanted::new("good-chroot", site.lease("good-chroot")) });
    settled(&isolated);
    let report = site.passes("good-chroot");
    assert_eq!(
        (&report["pods"][0]["verdict"], &report["pods"][0]["mounts"]),
        (&"isolated".into(), &2.into())
    );
}

#[test]
fn a_tmpfs_over_a_volume_does_not_hide_it() {
    let site = Site::new(pool(2), 16);
    let isolated = with_plain_volume(&site, "covered", "/bin/busybox mount -t tmpfs none /data");
    settled(&isolated);
    names_the_volume(&site, "covered");
}

#[test]
fn a_tmpfs_over_the_directory_above_a_volume_does_not_hide_it() {
    let site = Site::new(pool(3), 16);
    let script = "/bin/busybox mkdir -p /above/inner
        /bin/busybox mount --bind /data /above/inner
        /bin/busybox mount -t tmpfs none /data
        /bin/busybox mount -t tmpfs none /above
        /bin/busybox mount -t tmpfs none /above";
    let isolated = with_plain_volume(&site, "above", script);
    settled(&isolated);
    let (_, report) = site.json("verify above");
    let found = report["violations"].as_array().unwrap();
    let paths: Vec<_> =
        found.iter().filter(|v| v["what"] == "mountNotIdmapped").map(|v| &v["path"]).collect();
    assert!(paths.contains(&&"/above/inner".into()) && paths.contains(&&"/data".into()), "{report:#}");
}

#[test]
fn a_tmpfs_over_the_root_of_the_mount_namespace_does_not_hide_what_is_below() {
    let site = Site::new(pool(4), 16);
    let isolated = with_plain_volume(&site, "over-root", "/bin/busybox mount -t tmpfs none /");
    settled(&isolated);
    names_the_volume(&site, "over-root");
}

#[test]
fn mounts_below_the_roots_of_all_processes_are_unseen() {
    let site = Site::new(pool(10), 16);
    // The way up from the root leads to what is mounted over it.
    let script = "/bin/busybox mkdir /new && /bin/busybox mount -t tmpfs none /new &&
        /bin/busybox cp /bin/busybox /new/busybox && /bin/busybox mount --move /new / &&
        exec /bin/busybox chroot /.. /busybox sleep 1000";
    let isolated = with_plain_volume(&site, "moved-over", script);
    settled(&isolated);
    let seen = std::fs::read_to_string(format!("/proc/{}/mountinfo", isolated.pid())).unwrap();
    assert_eq!(seen.lines().count(), 1, "{seen}");
    is_unseen(&site, "moved-over");
}

#[test]
fn a_covered_mount_that_cannot_be_copied_is_unseen() {
    let site = Site::new(pool(5), 16);
    let script = "/bin/busybox mount --make-unbindable /data
        /bin/busybox mount -t tmpfs none /data";
    let isolated = with_plain_volume(&site, "unbindable", script);
    settled(&isolated);
    is_unseen(&site, "unbindable");
}

#[test]
fn looking_at_a_pod_leaves_its_mounts_as_they_are() {
    let site = Site::new(pool(6), 16);
    let script =
        format!("/bin/busybox mount --make-rshared /\n/bin/busybox mount -t tmpfs none /data\n{SLEEP}");
    let isolated = TestPod::start(&Wanted { script, ..Wanted::new("shared", site.lease("shared")) });
    settled(&isolated);
    let mountinfo = || std::fs::read_to_string(format!("/proc/{}/mountinfo", isolated.pid())).unwrap();
    let before = mountinfo();
    assert_eq!(before.lines().count(), 3, "{before}");
    site.passes("shared");
    assert_eq!(mountinfo(), before);
}

/// A group below the pod's, which is gone when this is. It outlives the process in it.
struct Below(Group);

impl Below {
    fn of(pid: u32, name: &str) -> Self {
        let text = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
        let path =
            text.lines().find_map(|line| line.splitn(3, ':').nth(2).filter(|path| path.contains("kubepods")));
        let group = Group::open(&Hierarchies::find().unwrap(), &format!("{}/{name}", path.unwrap())).unwrap();
        group.make().unwrap();
        Self(group)
    }
}

impl Drop for Below {
    fn drop(&mut self) {
        let _ = self.0.remove();
    }
}

#[test]
fn a_pod_in_a_group_named_like_conmons_is_looked_at() {
    let site = Site::new(pool(7), 16);
    let isolated = with_plain_volume(&site, "conmon", "");
    settled(&isolated);
    for name in ["crio-conmon-1.scope", "container/crio-conmon-1.scope"] {
        let below = Below::of(isolated.pid(), name);
        below.0.add(isolated.pid()).unwrap();
        names_the_volume(&site, "conmon");
        isolated.group.add(isolated.pid());
    }
}

#[test]
fn a_process_with_the_hosts_users_in_a_group_named_like_conmons_inside_a_container_is_named() {
    let site = Site::new(pool(8), 16);
    let isolated = site.isolated_pod("impostor");
    let below = Below::of(isolated.pid(), "container/crio-conmon-1.scope");
    let planted = Planted::start(Command::new("/usr/bin/busybox").args(["sleep", "100"]), "busybox");
    below.0.add(planted.pid()).unwrap();
    let violation = site.convicts("impostor", "outsideNamespace");
    assert_eq!(violation["pid"], planted.pid());
    drop(planted);
}

#[test]
fn a_pod_without_any_mount_that_can_be_looked_at_is_unseen() {
    let site = Site::new(pool(9), 16);
    let isolated = site.isolated_pod("zombie");
    // The pod's only process is one that has ended and is not waited for: it has no mounts.
    let userns = maps(isolated.base, 65_536);
    let mut command = entering(&userns);
    drop(isolated);
    let mut ended = command.args(["--", "/usr/bin/busybox", "sleep", "100"]).spawn().unwrap();
    let group = crate::test_pods::Cgroup::new("zombie");
    group.add(ended.id());
    let deadline = Instant::now() + Duration::from_secs(20);
    while std::fs::read_to_string(format!("/proc/{}/comm", ended.id())).unwrap().trim() != "busybox" {
        assert!(Instant::now() < deadline, "nsenter did not become busybox");
        std::thread::sleep(Duration::from_millis(5));
    }
    ended.kill().unwrap();
    while !std::fs::read_to_string(format!("/proc/{}/status", ended.id())).unwrap().contains("State:\tZ") {
        assert!(Instant::now() < deadline, "it did not end");
        std::thread::sleep(Duration::from_millis(5));
    }
    let (code, report) = site.json("verify zombie");
    assert_eq!(code, Some(2), "{report:#}");
    ended.wait().unwrap();
}

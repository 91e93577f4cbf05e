//! Private mount namespaces on the real kernel. Needs root.

use std::fs;
use std::path::PathBuf;

use kernel::{PrivateMountNamespace, in_private_mount_namespace};
use rustix::mount::{MountFlags, mount};

fn here() -> PathBuf {
    fs::read_link("/proc/thread-self/ns/mnt").unwrap()
}

#[test]
fn a_mount_made_inside_is_neither_seen_nor_left_outside() {
    let scratch = tempfile::tempdir().unwrap();
    let outside = here();
    in_private_mount_namespace(|_| {
        assert_ne!(here(), outside);
        mount("tmpfs", scratch.path(), "tmpfs", MountFlags::empty(), None).unwrap();
        fs::write(scratch.path().join("inside"), "").unwrap();
    })
    .unwrap();
    assert_eq!(here(), outside);
    assert!(!scratch.path().join("inside").exists());
}

#[test]
fn a_thread_that_leaves_is_where_it_was_before() {
    let before = here();
    let scratch = tempfile::tempdir().unwrap();
    let namespace = PrivateMountNamespace::enter().unwrap();
    assert_ne!(here(), before);
    mount("tmpfs", scratch.path(), "tmpfs", MountFlags::empty(), None).unwrap();
    fs::write(scratch.path().join("inside"), "").unwrap();
    namespace.leave().unwrap();
    assert_eq!(here(), before);
    assert!(!scratch.path().join("inside").exists());
}

#[test]
fn a_forgotten_guard_still_leaves() {
    let before = here();
    drop(PrivateMountNamespace::enter().unwrap());
    assert_eq!(here(), before);
}

#[test]
fn nothing_inside_is_shared_with_the_host() {
    in_private_mount_namespace(|_| {
        let mounts = fs::read_to_string("/proc/thread-self/mountinfo").unwrap();
        assert!(!mounts.contains(" shared:"), "{mounts}");
    })
    .unwrap();
}

#[test]
fn a_panic_inside_arrives_outside() {
    let caught = std::panic::catch_unwind(|| {
        in_private_mount_namespace(|_| assert!(fs::exists("/nonexistent").unwrap()))
    });
    assert!(caught.is_err());
}

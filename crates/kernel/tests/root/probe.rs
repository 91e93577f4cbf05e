//! Trials of the real kernel, and that they leave nothing. Needs root.

use crate::common;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use common::{release, without_touching_the_host};
use kernel::probe::{self, Answer};
use kernel::{Error, Filesystem, FilesystemKind, LayersGiven, MountTable};

/// On a disk: what is tried here is not to depend on tmpfs.
fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in("/var/tmp").unwrap()
}

fn mounts() -> MountTable {
    MountTable::read().unwrap()
}

#[test]
fn every_trial_leaves_directories_mounts_and_descriptors_as_they_were() {
    if !testkit::in_own_process("probe::every_trial_leaves_directories_mounts_and_descriptors_as_they_were") {
        return;
    }
    let dir = scratch();
    let descriptors = || fs::read_dir("/proc/self/fd").unwrap().count();
    let all = || {
        drop(probe::user_namespaces());
        drop(probe::charged_user_namespaces());
        drop(probe::idmap(dir.path()));
        drop(probe::idmap(Path::new("/proc")));
        drop(probe::tmpfs_idmap());
        drop(probe::open_tree_attr(dir.path()));
        drop(probe::overlay_idmap(dir.path()));
        drop(probe::recursive_read_only(dir.path()));
        drop(probe::context_mounts(dir.path(), "u:r:t:s0"));
    };
    all();
    let before = (mounts(), descriptors());
    for _ in 0..5 {
        all();
    }
    assert_eq!((mounts(), descriptors()), before);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

/// A power loss leaves a trial's directory, and in the next boot the process may have the same PID.
#[test]
fn a_trial_is_not_kept_from_its_place_by_one_that_was_cut_off() {
    let dir = scratch();
    let leave = |name: &str| fs::create_dir_all(dir.path().join(name).join("work/work")).unwrap();
    let own: Vec<String> = (0..100).map(|number| format!(".probe-{}-{number}", std::process::id())).collect();
    own.iter().for_each(|name| leave(name));
    let mut gone = std::process::Command::new("true").spawn().unwrap();
    gone.wait().unwrap();
    let of_gone = format!(".probe-{}-0", gone.id());
    let of_living = ".probe-1-0".to_owned();
    [&of_gone, &of_living].into_iter().for_each(|name| leave(name));
    leave(".probe-notes");
    let answer = probe::overlay_idmap(dir.path());
    assert!(answer.works(), "{answer:?}");
    let left: BTreeSet<String> = fs::read_dir(dir.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let expected = own.into_iter().chain([of_living, ".probe-notes".to_owned()]).collect();
    assert_eq!(left, expected);
}

#[test]
fn a_filesystem_is_named_whether_it_can_or_not() {
    let dir = scratch();
    let name = mounts()
        .by_id(kernel::Node::open(dir.path()).unwrap().stat().unwrap().mount_id)
        .unwrap()
        .filesystem
        .clone();
    assert_eq!(probe::idmap(dir.path()), Answer::Works(name));
    let refusal = probe::idmap(Path::new("/proc")).refusal().cloned().unwrap();
    assert_eq!(refusal.cause, "proc, which /proc is on, cannot be idmapped by this kernel");
    assert!(refusal.fix.unwrap().contains("ext4"));
    let missing = probe::idmap(Path::new("/no/such/path"));
    assert!(matches!(missing.refusal().unwrap().error, Error::CloneMount { .. }), "{missing:?}");
}

#[test]
fn each_mount_of_a_tree_is_tried() {
    let dir = scratch();
    fs::create_dir(dir.path().join("below")).unwrap();
    without_touching_the_host(dir.path(), |_| {
        let kind = FilesystemKind::Other { name: "ramfs".into(), source: None, options: vec![] };
        Filesystem::new(kind).make().unwrap().attach(&dir.path().join("below")).unwrap();
        let tried = probe::idmap_tree(dir.path()).unwrap();
        assert_eq!(tried.len(), 2);
        assert!(tried[0].1.works() && !tried[1].1.works(), "{tried:?}");
        assert!(tried[1].1.refusal().unwrap().cause.starts_with("ramfs, which "));
    });
}

/// By version only here, in the test: the probe itself asks.
#[test]
fn answers_are_those_of_this_kernels_age() {
    let dir = scratch();
    println!("Linux {:?}", release());
    assert_eq!(probe::tmpfs_idmap().works(), release() >= (6, 3));
    let again = probe::open_tree_attr(dir.path());
    assert_eq!(again.works(), release() >= (6, 15), "{again:?}");
    if let Some(refusal) = again.refusal() {
        assert!(matches!(refusal.error, Error::AlreadyIdmapped { .. }), "{refusal:?}");
    }
    let given = if release() >= (6, 13) { LayersGiven::ByDescriptor } else { LayersGiven::ByMountPoint };
    assert_eq!(probe::overlay_idmap(dir.path()), Answer::Works(given));
    assert_eq!(probe::recursive_read_only(dir.path()), Answer::Works(()));
}

#[test]
fn a_context_is_refused_by_name_where_selinux_is_not() {
    let dir = scratch();
    let label = "system_u:object_r:container_file_t:s0:c1,c2";
    let answer = probe::context_mounts(dir.path(), label);
    if Path::new("/sys/fs/selinux/enforce").exists() {
        assert_eq!(answer, Answer::Works(()));
    } else {
        let refusal = answer.refusal().unwrap();
        assert!(refusal.cause.contains(&format!("a tmpfs with context={label}")), "{refusal:?}");
        assert!(refusal.fix.as_ref().unwrap().contains("SELinux is not active"));
    }
    let unknown = probe::context_mounts(dir.path(), "system_u:object_r:no_such_type_t:s0");
    assert!(unknown.refusal().is_some());
}

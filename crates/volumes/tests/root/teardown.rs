//! Taking volumes away: what is ours goes, nothing else does, whatever races or stands in the way. Needs
//! root.

use crate::support;

use std::collections::BTreeSet;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use kernel::{DetachedMount, Filesystem, FilesystemKind, Owner, Submounts, Unmount};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use support::*;
use testkit::Race;
use volumes::kinds::{EmptyDir, Medium};
use volumes::{Error, PodUid, Source, Wanted};

const SCRATCH: &str = "pods/pod/volumes/kubernetes.io~empty-dir/v";

fn memory() -> Source {
    Source::EmptyDir(EmptyDir { medium: Medium::Memory, ..EmptyDir::default() })
}

fn pod(source: Source) -> Wanted {
    wanted("pod", 1, vec![idmapped("v", source)])
}

/// Something outside that must survive, and a copy of what it is.
fn outside(node: &Node) -> PathBuf {
    let dir = node.dir("outside");
    for n in 0..5 {
        std::fs::create_dir(dir.join(format!("d{n}"))).unwrap();
        std::fs::write(dir.join(format!("d{n}/file")), "precious").unwrap();
    }
    dir
}

fn is_whole(outside: &Path) {
    for n in 0..5 {
        let text = std::fs::read_to_string(outside.join(format!("d{n}/file")));
        assert_eq!(text.unwrap_or_default(), "precious", "something outside was deleted");
    }
    assert_eq!(on_host(outside), "0:0 755");
}

fn bind(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    let clone = DetachedMount::clone_of(kernel::Source::Path(from), Submounts::Without).unwrap();
    clone.attach(to).unwrap();
}

fn nothing_is_left(node: &Node) {
    assert_eq!(std::fs::read_dir(node.state().join("pods")).unwrap().count(), 0);
    assert_eq!(mounts_below(&node.state()), Vec::<PathBuf>::new());
}

#[test]
fn a_mount_inside_a_volume_stops_the_removal_and_is_named() {
    alone(|| {
        let node = Node::new();
        let outside = outside(&node);
        let pod = pod(empty_dir());
        node.volumes.set_up(&pod).unwrap();
        let point = node.state().join(SCRATCH).join("deep/mounted");
        bind(&outside, &point);
        std::fs::write(node.state().join(SCRATCH).join("mine"), "text").unwrap();
        let error = node.volumes.tear_down(&pod.pod).unwrap_err();
        assert!(matches!(error, Error::ForeignMount { .. }), "{error}");
        assert!(error.to_string().contains(point.to_str().unwrap()), "{error}");
        assert!(node.state().join(SCRATCH).join("mine").exists(), "removed in part");
        is_whole(&outside);
        kernel::unmount(&point, Unmount::Now).unwrap();
        node.volumes.tear_down(&pod.pod).unwrap();
        nothing_is_left(&node);
        is_whole(&outside);
    });
}

#[test]
fn a_mount_over_a_volume_is_left_alone_and_so_is_the_volume() {
    alone(|| {
        for source in [empty_dir(), memory()] {
            let node = Node::new();
            let outside = outside(&node);
            let pod = pod(source);
            node.volumes.set_up(&pod).unwrap();
            let volume = node.state().join(SCRATCH);
            std::fs::write(volume.join("mine"), "text").unwrap();
            bind(&outside, &volume);
            for _ in 0..2 {
                let error = node.volumes.tear_down(&pod.pod).unwrap_err();
                assert!(matches!(error, Error::ForeignMount { .. }), "{error}");
            }
            let error = node.volumes.set_up(&pod).unwrap_err();
            assert!(matches!(error, Error::ForeignMount { .. }), "{error}");
            is_whole(&outside);
            assert!(volume.join("d1").exists(), "the other's mount was taken away");
            kernel::unmount(&volume, Unmount::Now).unwrap();
            assert!(volume.join("mine").exists());
            node.volumes.tear_down(&pod.pod).unwrap();
            nothing_is_left(&node);
        }
    });
}

/// Whoever may use a volume must not see another's files in its place.
#[test]
fn a_mount_over_a_volume_is_not_presented() {
    alone(|| {
        let node = Node::new();
        let outside = outside(&node);
        let pod = pod(empty_dir());
        node.volumes.set_up(&pod).unwrap();
        bind(&outside, &node.state().join(SCRATCH));
        let error = node.volumes.present(&pod, &mount("v", "/data")).unwrap_err();
        assert!(matches!(error, Error::ForeignMount { .. }), "{error}");
    });
}

fn swap(a: &Path, b: &Path) -> bool {
    // Either may be gone already.
    renameat_with(CWD, a, CWD, b, RenameFlags::EXCHANGE).is_ok()
}

/// A volume with a directory and, beside it, a link to the outside, that change places.
fn trap(volume: &Path, outside: &Path) -> (PathBuf, PathBuf) {
    let (dir, link) = (volume.join("dir"), volume.join("link"));
    for n in 0..5 {
        std::fs::create_dir_all(dir.join(format!("d{n}"))).unwrap();
        std::fs::write(dir.join(format!("d{n}/file")), "worthless").unwrap();
    }
    symlink(outside, &link).unwrap();
    (dir, link)
}

#[test]
fn a_racing_link_never_makes_a_teardown_delete_outside() {
    alone(|| {
        let node = Node::new();
        let outside = outside(&node);
        let (mut race, mut swaps, mut gone) = (Race::of((40 * testkit::rounds()).min(10_000)), 0, 0);
        while race.goes_on(gone > 0) {
            let pod = pod(empty_dir());
            node.volumes.set_up(&pod).unwrap();
            let (dir, link) = trap(&node.state().join(SCRATCH), &outside);
            // It may lose the race, with an error; it must not lose anything else.
            let (outcome, times) = raced(|| swap(&dir, &link), || node.volumes.tear_down(&pod.pod));
            is_whole(&outside);
            (swaps, gone) = (swaps + times, gone + usize::from(outcome.is_ok()));
            node.volumes.tear_down(&pod.pod).unwrap();
        }
        println!("{swaps} swaps, {gone} of {} teardowns succeeded under attack", race.rounds());
        assert!(swaps > 0 && gone > 0, "nothing was raced");
        nothing_is_left(&node);
    });
}

/// The obvious way: look what it is, then go in by its path.
fn naive_remove(path: &Path) {
    let Ok(entries) = std::fs::read_dir(path) else { return };
    for entry in entries.flatten() {
        if entry.path().symlink_metadata().is_ok_and(|meta| meta.is_dir()) {
            naive_remove(&entry.path());
        } else {
            let _ = std::fs::remove_file(entry.path());
        }
    }
    let _ = std::fs::remove_dir(path);
}

/// CVE-2021-25741 and its like: the same race, and something outside is gone. All of it lies in the test's
/// own directory.
#[test]
fn a_racing_link_makes_a_naive_removal_delete_outside() {
    let node = Node::new();
    let lost = (0..20_000).find(|n| {
        let outside = node.dir(&format!("outside{n}"));
        std::fs::create_dir(outside.join("d0")).unwrap();
        std::fs::write(outside.join("d0/file"), "precious").unwrap();
        let volume = node.dir(&format!("volume{n}"));
        let (dir, link) = trap(&volume, &outside);
        raced(|| swap(&dir, &link), || naive_remove(&volume));
        !outside.join("d0/file").exists()
    });
    println!("deleted outside at try {lost:?}");
    assert!(lost.is_some(), "the race is not real");
}

/// Mounts come and go over the volume while it is removed. It may take another try; nothing outside is
/// touched, and no mount of ours stays.
#[test]
fn racing_mounts_never_make_a_teardown_delete_outside() {
    alone(|| {
        let node = Node::new();
        let outside = outside(&node);
        let (mut race, mut mounts, mut gone) = (Race::of((20 * testkit::rounds()).min(10_000)), 0, 0);
        while race.goes_on(gone > 0) {
            let pod = pod(if race.round() % 2 == 0 { empty_dir() } else { memory() });
            node.volumes.set_up(&pod).unwrap();
            let volume = node.state().join(SCRATCH);
            std::fs::create_dir(volume.join("sub")).unwrap();
            let race = || {
                let mut attached = false;
                for point in [volume.join("sub"), volume.clone()] {
                    let from = kernel::Source::Path(&outside);
                    let clone = DetachedMount::clone_of(from, Submounts::Without).unwrap();
                    if clone.attach(&point).is_ok() {
                        attached = true;
                        let _ = kernel::unmount(&point, Unmount::Lazy);
                    }
                }
                attached
            };
            let (outcome, times) = raced(race, || node.volumes.tear_down(&pod.pod));
            (mounts, gone) = (mounts + times, gone + usize::from(outcome.is_ok()));
            is_whole(&outside);
            node.volumes.tear_down(&pod.pod).unwrap();
            nothing_is_left(&node);
        }
        println!("mounted {mounts} times, {gone} of {} teardowns succeeded under attack", race.rounds());
        assert!(mounts > 0 && gone > 0, "nothing was raced");
    });
}

#[test]
fn files_of_others_in_a_pods_directory_stay_and_so_does_one_without_a_record() {
    alone(|| {
        let node = Node::new();
        let pod = pod(empty_dir());
        node.volumes.set_up(&pod).unwrap();
        let dir = node.state().join("pods/pod");
        std::fs::write(dir.join("etc-hosts"), "127.0.0.1 localhost").unwrap();
        node.volumes.tear_down(&pod.pod).unwrap();
        let names: Vec<_> = std::fs::read_dir(&dir).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(names, ["etc-hosts"]);
        std::fs::create_dir_all(dir.join("volumes/kubernetes.io~empty-dir/v")).unwrap();
        for outcome in [node.volumes.tear_down(&pod.pod), node.volumes.set_up(&pod)] {
            let error = outcome.unwrap_err();
            assert!(matches!(error, Error::NoRecord { .. }), "{error}");
        }
        assert!(dir.join("volumes/kubernetes.io~empty-dir/v").exists());
    });
}

#[test]
fn a_damaged_or_newer_record_stops_everything_and_is_named() {
    alone(|| {
        let node = Node::new();
        let pod = pod(empty_dir());
        node.volumes.set_up(&pod).unwrap();
        let record = node.state().join("pods/pod/volumes.json");
        let good = std::fs::read_to_string(&record).unwrap();
        for (bad, what) in
            [("{", "is damaged"), (&*good.replace("\"version\": 2", "\"version\": 9"), "version 9")]
        {
            std::fs::write(&record, bad).unwrap();
            let error = node.volumes.tear_down(&pod.pod).unwrap_err();
            assert!(error.to_string().contains(what) && error.hint().is_some(), "{error}");
            assert!(node.volumes.set_up(&pod).is_err());
            assert!(node.state().join(SCRATCH).exists());
        }
        std::fs::write(&record, good).unwrap();
        node.volumes.tear_down(&pod.pod).unwrap();
        nothing_is_left(&node);
    });
}

#[test]
fn a_volume_in_use_is_named_and_goes_when_it_is_not() {
    alone(|| {
        let node = Node::new();
        let pod = pod(memory());
        node.volumes.set_up(&pod).unwrap();
        let volume = node.state().join(SCRATCH);
        let mut user =
            Command::new("sleep").arg("60").current_dir(&volume).stdin(Stdio::null()).spawn().unwrap();
        let error = node.volumes.tear_down(&pod.pod).unwrap_err();
        user.kill().unwrap();
        user.wait().unwrap();
        assert_eq!(error, Error::InUse { point: volume });
        node.volumes.tear_down(&pod.pod).unwrap();
        nothing_is_left(&node);
    });
}

#[test]
fn setting_up_again_changes_nothing_and_keeps_what_the_pod_wrote() {
    alone(|| {
        let node = Node::new();
        let config = config_map(&[("key", "text")]);
        let volumes = vec![idmapped("v", empty_dir()), idmapped("m", memory()), idmapped("c", config)];
        let mut pod = wanted("pod", 1, volumes);
        node.volumes.set_up(&pod).unwrap();
        let record = node.state().join("pods/pod/volumes.json");
        let before = std::fs::metadata(&record).unwrap();
        let mounts = mounts_below(&node.state());
        for volume in ["v", "m"] {
            let file = node.state().join(SCRATCH).with_file_name(volume).join("mine");
            std::fs::write(&file, "text").unwrap();
            std::os::unix::fs::chown(&file, Some(77), Some(78)).unwrap();
        }
        pod.fs_group = Some(id(2000));
        node.volumes.set_up(&pod).unwrap();
        let after = std::fs::metadata(&record).unwrap();
        assert_eq!((before.ino(), before.mtime_nsec()), (after.ino(), after.mtime_nsec()), "written anew");
        assert_eq!(mounts_below(&node.state()), mounts);
        for volume in ["v", "m"] {
            let file = node.state().join(SCRATCH).with_file_name(volume).join("mine");
            assert!(on_host(&file).starts_with("77:78 "), "what is the pod's was changed");
        }
        // A volume less, and a mount gone as after a reboot.
        kernel::unmount(&node.state().join(SCRATCH).with_file_name("m"), Unmount::Now).unwrap();
        pod.volumes.remove(0);
        node.volumes.set_up(&pod).unwrap();
        assert!(!node.state().join(SCRATCH).exists());
        assert_eq!(mounts_below(&node.state()), mounts);
        let at = node.attach(node.volumes.present(&pod, &mount("m", "/data")).unwrap(), "tree");
        assert_eq!(node.seen(&pod, &at), "0:2000 3777");
        node.volumes.tear_down(&pod.pod).unwrap();
        nothing_is_left(&node);
    });
}

#[test]
fn orphans_go_and_the_wanted_stay_also_if_one_cannot_go() {
    alone(|| {
        let node = Node::new();
        for name in ["a", "b", "stuck", "wanted"] {
            node.volumes.set_up(&wanted(name, 1, vec![idmapped("v", memory())])).unwrap();
        }
        let over = node.state().join("pods/stuck/volumes/kubernetes.io~empty-dir/v");
        let tmpfs = FilesystemKind::Tmpfs { size: None, inodes: None, mode: 0o755, owner: Owner::ROOT };
        Filesystem::new(tmpfs).make().unwrap().attach(&over).unwrap();
        let keep: BTreeSet<_> = [PodUid::new("wanted").unwrap()].into();
        let outcomes = node.volumes.remove_orphans(&keep).unwrap();
        let failed: Vec<_> =
            outcomes.iter().filter(|(_, o)| o.is_err()).map(|(pod, _)| pod.as_str()).collect();
        assert_eq!((outcomes.len(), failed), (3, vec!["stuck"]));
        kernel::unmount(&over, Unmount::Now).unwrap();
        node.volumes.remove_orphans(&keep).unwrap().into_iter().for_each(|(_, outcome)| outcome.unwrap());
        assert_eq!(node.volumes.pods().unwrap(), [PodUid::new("wanted").unwrap()]);
        node.volumes.tear_down(&PodUid::new("wanted").unwrap()).unwrap();
        nothing_is_left(&node);
    });
}

#[test]
fn a_volume_that_cannot_go_keeps_no_part_of_another_and_all_that_fails_is_named() {
    alone(|| {
        let node = Node::new();
        let (outside, srv) = (outside(&node), node.dir("srv"));
        let host = idmapped("h", host_path(&srv, volumes::kinds::HostPathType::Directory));
        let pod = wanted("pod", 1, vec![idmapped("v", empty_dir()), idmapped("w", empty_dir()), host]);
        node.volumes.set_up(&pod).unwrap();
        let mounted = node.volumes.host_mount(&pod, &part("h", "/data", "part")).unwrap().host_path;
        let over = ["v", "w"].map(|name| node.state().join(SCRATCH).with_file_name(name));
        over.iter().for_each(|volume| bind(&outside, volume));
        let error = node.volumes.tear_down(&pod.pod).unwrap_err();
        for volume in &over {
            assert!(error.to_string().contains(volume.to_str().unwrap()), "{error}");
        }
        assert!(!mounted.exists(), "the part is still mounted");
        is_whole(&outside);
        over.iter().for_each(|volume| kernel::unmount(volume, Unmount::Now).unwrap());
        node.volumes.tear_down(&pod.pod).unwrap();
        nothing_is_left(&node);
    });
}

#[test]
fn a_volume_that_cannot_be_updated_keeps_none_of_the_others_old() {
    alone(|| {
        let node = Node::new();
        let outside = outside(&node);
        let names = ["a", "b", "c"];
        let pod = |text: &str| {
            let volumes = names.map(|name| idmapped(name, config_map(&[("key", text)])));
            wanted("pod", 1, volumes.into())
        };
        node.volumes.set_up(&pod("old")).unwrap();
        let at = |name: &str| node.state().join("pods/pod/volumes/kubernetes.io~configmap").join(name);
        ["a", "b"].iter().for_each(|name| bind(&outside, &at(name)));
        let error = node.volumes.update(&pod("new")).unwrap_err();
        assert!(matches!(&error, Error::Several(both) if both.len() == 2), "{error}");
        assert_eq!(std::fs::read_to_string(at("c").join("key")).unwrap(), "new");
        ["a", "b"].iter().for_each(|name| kernel::unmount(&at(name), Unmount::Now).unwrap());
        node.volumes.tear_down(&pod("new").pod).unwrap();
        nothing_is_left(&node);
    });
}

//! How mounts are presented: read-only with those below, propagation, sizes, and the calls that it takes.
//! Needs root.

use crate::support;

use std::path::Path;
use std::sync::Arc;

use kernel::disk_usage::{DiskUsage, DiskUsageCache, Round};
use kernel::{Filesystem, FilesystemKind, Live, Owner, Recorder};
use plan::MountPropagation;
use support::*;
use volumes::kinds::{EmptyDir, HostPathType, Medium, WrittenKind};
use volumes::{Error, MountAccess, PodVolumes, Source, WantedMount};

fn tmpfs(at: &Path) {
    std::fs::create_dir_all(at).unwrap();
    let kind = FilesystemKind::Tmpfs { size: None, inodes: None, mode: 0o777, owner: Owner::ROOT };
    Filesystem::new(kind).make().unwrap().attach(at).unwrap();
}

#[test]
fn read_only_is_of_the_mount_itself_and_recursively_of_all_below() {
    alone(|| {
        let node = Node::new();
        let srv = node.dir("srv");
        tmpfs(&srv.join("below"));
        let pod = wanted("ro", 1, vec![idmapped("v", host_path(&srv, HostPathType::Directory))]);
        node.volumes.set_up(&pod).unwrap();
        for (access, below_too) in [(MountAccess::ReadOnly, false), (MountAccess::RecursiveReadOnly, true)] {
            let mount = WantedMount { access, ..mount("v", "/data") };
            let tree = format!("{access:?}");
            let at = node.attach(node.volumes.present(&pod, &mount).unwrap(), &tree);
            let touch = |path: &str| node.inside(&pod, (0, 0), &format!("touch {}/{path}", at.display()));
            assert!(touch("new").contains("Read-only file system"));
            assert_eq!(touch("below/new").contains("Read-only file system"), below_too, "{access:?}");
        }
    });
}

#[test]
fn mounts_of_the_host_arrive_later_only_where_that_was_asked_for() {
    alone(|| {
        let node = Node::new();
        let srv = node.dir("srv");
        // A mount that shares what is mounted below it, as those of a host do.
        tmpfs(&srv);
        rustix::mount::mount_change(&srv, rustix::mount::MountPropagationFlags::SHARED).unwrap();
        std::fs::create_dir(srv.join("later")).unwrap();
        let pod = wanted("propagation", 1, vec![idmapped("v", host_path(&srv, HostPathType::Directory))]);
        node.volumes.set_up(&pod).unwrap();
        let at = |propagation| {
            let mount = WantedMount { propagation, ..mount("v", "/data") };
            node.attach(node.volumes.present(&pod, &mount).unwrap(), &format!("{propagation:?}"))
        };
        let (none, from_host) = (at(MountPropagation::None), at(MountPropagation::HostToContainer));
        let both = at(MountPropagation::Bidirectional);
        tmpfs(&srv.join("later"));
        std::fs::write(srv.join("later/file"), "text").unwrap();
        let arrived = |at: &Path| at.join("later/file").exists();
        assert!(!arrived(&none) && arrived(&from_host) && arrived(&both));
        std::fs::create_dir(srv.join("back")).unwrap();
        tmpfs(&from_host.join("back"));
        assert_eq!(mounts_below(&srv.join("back")).len(), 0, "a mount went back to the host");
        tmpfs(&both.join("back"));
        assert_eq!(mounts_below(&srv.join("back")).len(), 1);
    });
}

/// Unmounting a part must not unmount what lies below the original.
#[test]
fn a_part_for_a_foreign_runtime_goes_without_its_original() {
    alone(|| {
        let node = Node::new();
        let srv = node.dir("srv");
        tmpfs(&srv);
        rustix::mount::mount_change(&srv, rustix::mount::MountPropagationFlags::SHARED).unwrap();
        tmpfs(&srv.join("part/below"));
        let pod = wanted("part", 1, vec![idmapped("v", host_path(&srv, HostPathType::Directory))]);
        node.volumes.set_up(&pod).unwrap();
        let host = node.volumes.host_mount(&pod, &part("v", "/data", "part")).unwrap();
        assert!(host.host_path.ends_with("volume-subpaths/v/main/0"), "{}", host.host_path.display());
        assert_eq!(host.uid_mappings.len(), 1);
        assert_eq!(mounts_below(&host.host_path).len(), 2);
        assert_eq!(node.volumes.host_mount(&pod, &part("v", "/data", "part")).unwrap(), host);
        let file = node.volumes.host_mount(&pod, &part("v", "/data", "part/below")).unwrap();
        assert_eq!(file.host_path, host.host_path, "another part in its place");
        assert_eq!(mounts_below(&host.host_path).len(), 1);
        node.volumes.tear_down(&pod.pod).unwrap();
        assert_eq!(mounts_below(&srv).len(), 2, "the host's own mounts stay");
        assert!(mounts_below(&node.state()).is_empty());
    });
}

/// What a directory takes.
fn counted(dir: &Path) -> DiskUsage {
    DiskUsageCache::default().usage(dir, Round::begin()).unwrap().unwrap()
}

#[test]
fn memory_ends_at_its_limit_and_disk_is_counted_against_it() {
    alone(|| {
        let node = Node::new();
        let limit = 1 << 20;
        let of = |medium| Source::EmptyDir(EmptyDir { medium, size_limit: Some(limit), mode: None });
        let pod =
            wanted("limit", 1, vec![idmapped("m", of(Medium::Memory)), idmapped("d", of(Medium::Disk))]);
        node.volumes.set_up(&pod).unwrap();
        let usage =
            |volume| counted(&node.volumes.host_mount(&pod, &mount(volume, "/data")).unwrap().host_path);
        for volume in ["m", "d"] {
            let at = node.attach(node.volumes.present(&pod, &mount(volume, "/data")).unwrap(), volume);
            assert!(!usage(volume).exceeds(limit));
            let script = format!("cd {}; head -c 2097152 /dev/zero > big; ln big again", at.display());
            let said = node.inside(&pod, (1000, 1000), &script);
            assert_eq!(said.contains("No space left"), volume == "m", "{said}");
        }
        assert!(!usage("m").exceeds(limit));
        let counted = usage("d");
        assert!(counted.exceeds(limit) && counted.bytes < 3 << 20, "two names, one file: {counted:?}");
        assert_eq!(counted.inodes, 2);
        node.volumes.tear_down(&pod.pod).unwrap();
    });
}

#[test]
fn what_is_done_can_be_read_line_by_line() {
    alone(|| {
        let node = Node::new();
        let srv = node.dir("srv");
        let recorder = Arc::new(Recorder::new(Live::new()));
        let volumes = PodVolumes::open(&node.state(), Arc::clone(&recorder) as Arc<_>).unwrap();
        let pod = wanted("lines", 1, vec![idmapped("v", host_path(&srv, HostPathType::Directory))]);
        volumes.set_up(&pod).unwrap();
        let read_only = WantedMount { access: MountAccess::RecursiveReadOnly, ..mount("v", "/data") };
        drop(volumes.present(&pod, &read_only).unwrap());
        let (srv, map) = (srv.display(), format!("0:{}:{LENGTH}", BASE + LENGTH));
        let clone = format!("clone {srv} with mounts below");
        let expected = [
            format!("user namespace {map}"),
            clone.clone(),
            format!("set the clone of {srv}: idmap to {map}, with mounts below"),
            format!("user namespace {map}"),
            clone,
            format!("set the clone of {srv}: idmap to {map}, ro, private, with mounts below"),
        ];
        assert_eq!(recorder.lines(), expected);
        volumes.tear_down(&pod.pod).unwrap();
    });
}

#[test]
fn what_is_not_set_up_or_not_there_is_named() {
    alone(|| {
        let node = Node::new();
        let pod = wanted("none", 1, vec![idmapped("v", empty_dir())]);
        let error = node.volumes.present(&pod, &mount("v", "/data")).unwrap_err();
        assert_eq!(error, Error::NotSetUp { pod: pod.pod.clone(), volume: name("v") });
        assert!(node.volumes.update(&pod).is_err());
        node.volumes.tear_down(&pod.pod).unwrap();
        node.volumes.set_up(&pod).unwrap();
        let error = node.volumes.present(&pod, &mount("other", "/data")).unwrap_err();
        assert_eq!(error.to_string(), "pod none has no volume \"other\"");
        let twice = wanted("none", 1, vec![idmapped("v", empty_dir()), idmapped("v", empty_dir())]);
        assert!(matches!(node.volumes.set_up(&twice), Err(Error::TwoOfAName { .. })));
        node.volumes.tear_down(&pod.pod).unwrap();
    });
}

#[test]
fn files_that_the_node_writes_can_never_be_written_by_a_container() {
    alone(|| {
        let node = Node::new();
        for kind in
            [WrittenKind::ConfigMap, WrittenKind::Secret, WrittenKind::DownwardApi, WrittenKind::Projected]
        {
            let source = written(kind, 0o666, vec![secret(&[("key", "old")], &[])]);
            let pod = wanted("written", 1, vec![idmapped("v", source)]);
            let at = node.show(&pod, &mount("v", "/data"), &format!("{kind:?}"));
            let said =
                node.inside(&pod, (0, 0), &format!("echo new > {0}/key; touch {0}/more", at.display()));
            assert_eq!(said.matches("Read-only file system").count(), 2, "{kind:?}: {said}");
            for mount in [mount("v", "/data"), part("v", "/data", "key")] {
                let host = node.volumes.host_mount(&pod, &mount).unwrap();
                assert_eq!(host.access, MountAccess::ReadOnly, "{kind:?}");
            }
            let all = WantedMount { access: MountAccess::RecursiveReadOnly, ..mount("v", "/data") };
            assert_eq!(node.volumes.host_mount(&pod, &all).unwrap().access, MountAccess::RecursiveReadOnly);
            kernel::unmount(&at, kernel::Unmount::Now).unwrap();
            node.volumes.tear_down(&pod.pod).unwrap();
        }
    });
}

#[test]
fn a_limit_of_nothing_is_no_limit() {
    alone(|| {
        let node = Node::new();
        let memory = EmptyDir { medium: Medium::Memory, size_limit: Some(0), mode: None };
        let pod = wanted("limit", 1, vec![idmapped("m", Source::EmptyDir(memory))]);
        let at = node.show(&pod, &mount("m", "/data"), "tree");
        assert_eq!(node.inside(&pod, (0, 0), &format!("echo text > {}/file", at.display())), "");
        let blocks = rustix::fs::statvfs(&at).unwrap().f_blocks;
        assert!(blocks > 0, "a tmpfs without the kernel's own limit could take all memory");
        node.volumes.tear_down(&pod.pod).unwrap();
    });
}

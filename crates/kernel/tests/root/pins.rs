//! Whose a user namespace is, one for each map, and pins that outlive a process. Needs root.

use crate::common;

use std::fs;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use common::{BASE, doors_are_open, map_from, without_touching_the_host};
use ids::IdMapping;
use kernel::{
    Charge, DetachedMount, Error, IdMaps, Live, MountTable, Namespace, NamespaceId, Source, Submounts,
    UsernsCache, UsernsFd,
};
use testkit::wait_until;

fn maps(base: u32) -> IdMaps {
    IdMaps::new(&map_from(base), &map_from(base))
}

fn namespace(userns: &UsernsFd) -> Namespace {
    Namespace::of(userns.as_fd().try_clone_to_owned().unwrap()).unwrap()
}

fn id(userns: &UsernsFd) -> NamespaceId {
    namespace(userns).id()
}

/// The effective users of all our threads.
fn users() -> Vec<String> {
    let tasks = fs::read_dir("/proc/self/task").unwrap().flatten();
    let statuses = tasks.filter_map(|task| fs::read_to_string(task.path().join("status")).ok());
    let uid = |status: String| status.lines().find(|line| line.starts_with("Uid:")).unwrap().to_owned();
    statuses.map(uid).collect()
}

#[test]
fn a_namespace_is_counted_against_the_pods_own_user_and_no_thread_of_ours_stays_that_user() {
    // No other test's block: theirs may be worn by a thread while this one looks.
    let base = BASE + 9 * 65_536;
    let pod = UsernsFd::charged(&maps(base), Charge::Pod).unwrap();
    assert_eq!(namespace(&pod).owner_uid().unwrap(), base);
    let ours = UsernsFd::charged(&maps(base), Charge::Caller).unwrap();
    assert_eq!(namespace(&ours).owner_uid().unwrap(), 0);
    let base = base.to_string();
    // A thread that has ended and been waited for may be listed for a moment longer.
    wait_until("no thread is that user", || !users().iter().any(|line| line.contains(&base)));
    doors_are_open();
}

#[test]
fn a_namespace_counted_so_maps_as_any_other() {
    let scratch = tempfile::tempdir_in("/var/tmp").unwrap();
    let [source, target] = ["source", "target"].map(|name| scratch.path().join(name));
    for dir in [&source, &target] {
        fs::create_dir(dir).unwrap();
    }
    common::file_of(&source.join("file"), 1, 2);
    without_touching_the_host(scratch.path(), |_| {
        let userns = UsernsFd::charged(&maps(BASE), Charge::Pod).unwrap();
        let access = kernel::Access::ReadWrite;
        DetachedMount::idmapped(&source, &userns, access, Submounts::Without)
            .unwrap()
            .attach(&target)
            .unwrap();
        assert_eq!(common::owner(&target.join("file")), (BASE + 1, BASE + 2));
    });
}

#[test]
fn a_map_has_one_namespace_for_as_long_as_it_is_kept() {
    let cache = UsernsCache::new();
    let one = cache.get(&maps(BASE)).unwrap();
    assert!(Arc::ptr_eq(&one, &cache.get(&maps(BASE)).unwrap()));
    assert_ne!(id(&one), id(&cache.get(&maps(BASE + 65_536)).unwrap()));
    cache.forget(&maps(BASE)).unwrap();
    assert_ne!(id(&one), id(&cache.get(&maps(BASE)).unwrap()));
}

/// A directory for pins on a mount that is private.
struct Pins {
    scratch: tempfile::TempDir,
}

impl Pins {
    fn new() -> Self {
        Self { scratch: tempfile::tempdir().unwrap() }
    }

    fn dir(&self) -> &Path {
        self.scratch.path()
    }

    fn mounts(&self) -> Vec<PathBuf> {
        MountTable::read().unwrap().under(self.dir()).map(|mount| mount.point.clone()).collect()
    }
}

#[test]
fn a_pinned_namespace_is_found_after_a_restart_and_gone_when_forgotten() {
    let pins = Pins::new();
    without_touching_the_host(pins.dir(), |_| {
        let first = UsernsCache::pinned_in(pins.dir());
        let before = id(&first.get(&maps(BASE)).unwrap());
        drop(first);
        let second = UsernsCache::pinned_in(pins.dir());
        assert_eq!(id(&second.get(&maps(BASE)).unwrap()), before);
        assert_eq!(second.get(&maps(BASE)).unwrap().maps(), &maps(BASE));
        assert_eq!(pins.mounts(), [pins.dir().join(format!("0-{BASE}-65536"))]);
        second.forget(&maps(BASE)).unwrap();
        assert_eq!(pins.mounts(), Vec::<PathBuf>::new());
        assert_eq!(fs::read_dir(pins.dir()).unwrap().count(), 0);
        // Nothing pinned, and that is fine.
        second.forget(&maps(BASE)).unwrap();
    });
}

#[test]
fn a_pin_is_known_by_its_maps_and_not_by_its_name() {
    let pins = Pins::new();
    without_touching_the_host(pins.dir(), |_| {
        let other = IdMaps::new(&map_from(BASE), &map_from(BASE + 65_536));
        let name = pins.dir().join(format!("0-{BASE}-65536"));
        UsernsFd::charged(&other, Charge::Caller).unwrap().pin(&name).unwrap();
        let error = UsernsCache::pinned_in(pins.dir()).get(&maps(BASE)).unwrap_err();
        assert!(matches!(&error, Error::OtherPin { path, .. } if *path == name), "{error}");
        let shown = format!("it maps 0:{BASE}:65536 and groups 0:{}:65536 and not", BASE + 65_536);
        assert!(error.to_string().contains(&shown), "{error}");
        assert!(UsernsFd::from_pin(&name, &other).unwrap().is_some());
        doors_are_open();
    });
}

#[test]
fn maps_of_many_lines_are_recognised_in_any_order() {
    let pins = Pins::new();
    without_touching_the_host(pins.dir(), |_| {
        // More than five lines, which the kernel sorts.
        let lines: Vec<_> =
            (0..9).rev().map(|n| IdMapping::new(n * 7, u64::from(BASE) + n * 10, 7).unwrap()).collect();
        let maps = IdMaps::new(&lines, &lines[..3]);
        let before = id(&UsernsCache::pinned_in(pins.dir()).get(&maps).unwrap());
        assert_eq!(id(&UsernsCache::pinned_in(pins.dir()).get(&maps).unwrap()), before);
    });
}

#[test]
fn a_pin_of_another_kind_is_refused_by_name() {
    let pins = Pins::new();
    without_touching_the_host(pins.dir(), |_| {
        let path = pins.dir().join("pin");
        fs::write(&path, "").unwrap();
        let net = Namespace::open(Path::new("/proc/thread-self/ns/net")).unwrap();
        let clone = DetachedMount::clone_of(Source::Node(net.as_fd()), Submounts::Without).unwrap();
        clone.attach(&path).unwrap();
        let error = UsernsFd::from_pin(&path, &maps(BASE)).unwrap_err();
        assert!(error.to_string().ends_with("it is a net namespace"), "{error}");
        // And nothing is pinned over it.
        let error = UsernsFd::charged(&maps(BASE), Charge::Caller).unwrap().pin(&path).unwrap_err();
        assert!(matches!(error, Error::Pin { .. }), "{error}");
    });
}

/// Files are still there after a reboot, mounts are not.
#[test]
fn a_file_without_its_pin_is_used_again() {
    let pins = Pins::new();
    without_touching_the_host(pins.dir(), |_| {
        fs::write(pins.dir().join(format!("0-{BASE}-65536")), "").unwrap();
        let kernel = Live::pinning_in(pins.dir());
        kernel::Kernel::user_namespace(&kernel, &maps(BASE)).unwrap();
        assert_eq!(pins.mounts().len(), 1);
        kernel::Kernel::forget_user_namespace(&kernel, &maps(BASE)).unwrap();
    });
}

#[test]
fn only_an_empty_file_is_removed_with_a_pin() {
    let pins = Pins::new();
    let path = pins.dir().join("precious");
    fs::write(&path, "text").unwrap();
    assert!(matches!(UsernsFd::unpin(&path), Err(Error::OtherPin { .. })));
    assert_eq!(fs::read_to_string(&path).unwrap(), "text");
}

//! New namespaces of a pod: whose they are, what keeps them, and that nothing else is left. Needs root.

use crate::common;

use std::fs;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use common::{BASE, doors_are_open, map_from, without_touching_the_host};
use kernel::namespace::make;
use kernel::{
    Charge, Error, IdMaps, MountTable, Namespace, NamespaceKind, UsernsFd, in_private_mount_namespace,
};
use rustix::mount::{MountFlags, UnmountFlags};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

const KINDS: [NamespaceKind; 3] = [NamespaceKind::Net, NamespaceKind::Ipc, NamespaceKind::Uts];

fn pods() -> UsernsFd {
    UsernsFd::charged(&IdMaps::new(&map_from(BASE), &map_from(BASE)), Charge::Pod).unwrap()
}

fn own(kind: NamespaceKind) -> Namespace {
    Namespace::open(&Path::new("/proc/thread-self/ns").join(kind.file())).unwrap()
}

fn id_of(userns: &UsernsFd) -> kernel::NamespaceId {
    Namespace::of(userns.as_fd().try_clone_to_owned().unwrap()).unwrap().id()
}

fn seen_here() -> String {
    fs::read_to_string("/proc/sys/kernel/hostname").unwrap().trim().to_owned()
}

/// The name that a process in this UTS namespace sees.
fn host_name(uts: &Namespace) -> String {
    std::thread::scope(|scope| {
        let look = || {
            move_into_link_name_space(uts.as_fd(), Some(LinkNameSpaceType::HostNameAndNISDomainName))
                .unwrap();
            seen_here()
        };
        scope.spawn(look).join().unwrap()
    })
}

fn children() -> String {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    tasks.map(|task| fs::read_to_string(task.unwrap().path().join("children")).unwrap_or_default()).collect()
}

/// It counts the children of its process.
#[test]
fn they_belong_to_the_pods_user_namespace_and_no_process_is_left_behind() {
    if !testkit::in_own_process("make::they_belong_to_the_pods_user_namespace_and_no_process_is_left_behind")
    {
        return;
    }
    let ours = seen_here();
    let users = pods();
    let made = make(Some(&users), &KINDS, Some("the-pod")).unwrap();
    for (found, kind) in made.iter().zip(KINDS) {
        assert_eq!(found.kind(), kind);
        assert_ne!(found.id(), own(kind).id());
        assert_eq!(found.owner().unwrap().unwrap().id(), id_of(&users), "{kind}");
    }
    assert_eq!(host_name(made.last().unwrap()), "the-pod");
    assert_eq!(seen_here(), ours);
    let again = make(Some(&users), &KINDS, None).unwrap();
    for (one, other) in made.iter().zip(&again) {
        assert_ne!(one.id(), other.id());
    }
    for _ in 0..50 {
        make(Some(&users), &KINDS, Some("x")).unwrap();
    }
    assert_eq!(children(), "");
    doors_are_open();

    // A namespace that is no user namespace is refused, and by name of the step.
    let error = make(None, &[NamespaceKind::Uts], Some(&"n".repeat(65))).unwrap_err();
    assert!(error.to_string().contains("at most 64 bytes"), "{error}");
    assert_eq!(children(), "");
}

/// Its owner is the maker of the namespace, and by it alone is it known who may label or remove what is there.
#[test]
fn the_directory_of_message_queues_is_the_pods_roots() {
    let ipc = make(Some(&pods()), &[NamespaceKind::Ipc], None).unwrap().remove(0);
    let owner = std::thread::scope(|scope| {
        let look = || {
            move_into_link_name_space(ipc.as_fd(), Some(LinkNameSpaceType::InterProcessCommunication))
                .unwrap();
            let scratch = tempfile::tempdir().unwrap();
            let found = in_private_mount_namespace(|_| {
                rustix::mount::mount("mqueue", scratch.path(), "mqueue", MountFlags::empty(), None).unwrap();
                let found = fs::metadata(scratch.path()).unwrap();
                rustix::mount::unmount(scratch.path(), UnmountFlags::DETACH).unwrap();
                (found.uid(), found.gid())
            });
            found.unwrap()
        };
        scope.spawn(look).join().unwrap()
    });
    assert_eq!(owner, (BASE, BASE));
}

#[test]
fn without_a_user_namespace_they_belong_to_ours() {
    let made = make(None, &[NamespaceKind::Cgroup, NamespaceKind::Net], None).unwrap();
    for found in &made {
        assert_eq!(found.owner().unwrap().unwrap().id(), own(NamespaceKind::User).id());
    }
    assert_eq!(made.first().unwrap().kind(), NamespaceKind::Cgroup);
    assert!(make(None, &[], None).unwrap().is_empty());
}

#[test]
fn a_pin_keeps_one_and_is_taken_away_again() {
    let scratch = tempfile::tempdir().unwrap();
    without_touching_the_host(scratch.path(), |_| {
        let path = scratch.path().join("net");
        let [made, other] = [(); 2].map(|()| make(Some(&pods()), &KINDS, None).unwrap());
        let id = made.first().unwrap().id();
        made.first().unwrap().pin(&path).unwrap();
        // A second time changes nothing; another one does not go on top.
        made.first().unwrap().pin(&path).unwrap();
        let error = other.first().unwrap().pin(&path).unwrap_err();
        assert!(matches!(error, Error::Pin { .. }) && error.hint().is_some(), "{error}");
        assert_eq!(MountTable::read().unwrap().under(scratch.path()).count(), 1);
        drop(made);
        let found = Namespace::open(&path).unwrap();
        assert_eq!((found.id(), found.kind()), (id, NamespaceKind::Net));
        drop(found);
        Namespace::unpin(&path).unwrap();
        Namespace::unpin(&path).unwrap();
        assert!(!path.exists());
        assert_eq!(MountTable::read().unwrap().under(scratch.path()).count(), 0);
    });
}

#[test]
fn what_is_no_namespace_is_never_unmounted() {
    let scratch = tempfile::tempdir().unwrap();
    let [path, file] = ["target", "file"].map(|name| scratch.path().join(name));
    fs::write(&path, "").unwrap();
    fs::write(&file, "text").unwrap();
    in_private_mount_namespace(|_| {
        rustix::mount::mount_bind(&file, &path).unwrap();
        let error = Namespace::unpin(&path).unwrap_err();
        assert!(matches!(error, Error::OtherPin { .. }), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "text");
    })
    .unwrap();
}

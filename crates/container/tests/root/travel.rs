//! Mounts that travel between host and container, on the real kernel.

use crate::support;

use std::fs;
use std::path::Path;

use container::prepare::{FromHost, Stage, from_host, prepare_rootfs};
use container::{Bind, ContainerSpec, Error, MountPropagation, MountSpec, NamespaceSpec, ReadOnly};
use kernel::{Live, MountTable, in_private_mount_namespace};
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use support::start;

fn tmpfs(at: &Path) {
    mount("tmpfs", at, "tmpfs", MountFlags::empty(), None).unwrap();
}

/// A container with the host's users that has `source` at `/data`.
fn with(dir: &Path, source: &Path, propagation: MountPropagation) -> ContainerSpec {
    let mut start = start(dir);
    (start.ids, start.namespaces) = (None, support::spaces(NamespaceSpec::Host));
    start.mounts = vec![MountSpec::Bind(Bind {
        source: source.to_owned(),
        target: "/data".into(),
        ids: None,
        read_only: ReadOnly::No,
        propagation,
        options: vec![],
    })];
    start
}

/// Plays the host in a namespace of its own, in which `volume` is a shared mount.
fn on_a_host(play: impl FnOnce(&Path, &Path) + Send) {
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    let (volume, stage) = (dir.path().join("volume"), dir.path().join("stage"));
    fs::create_dir(&volume).unwrap();
    fs::create_dir(&stage).unwrap();
    in_private_mount_namespace(|_| {
        tmpfs(&volume);
        fs::create_dir(volume.join("from-host")).unwrap();
        fs::create_dir(volume.join("from-inside")).unwrap();
        mount_change(&volume, MountPropagationFlags::SHARED).unwrap();
        play(dir.path(), &volume);
    })
    .unwrap();
}

fn mounted(path: &Path) -> bool {
    MountTable::read().unwrap().at(path).is_some()
}

/// What arrives: on the host from inside, and inside from the host.
fn seen(dir: &Path, volume: &Path, propagation: MountPropagation) -> (bool, bool) {
    let start = with(dir, volume, propagation);
    let held = from_host(&Live::default(), &start).unwrap();
    // Both are asked while both exist: the inner one ends with its thread.
    let (to_inside, from_inside) = (std::sync::mpsc::channel(), std::sync::mpsc::channel());
    std::thread::scope(|scope| {
        let (ready, go) = (from_inside.0, to_inside.1);
        let stage = dir.join("stage");
        let start = &start;
        // The thread inherits the mount namespace of the one that starts it.
        let inner = scope.spawn(move || {
            in_private_mount_namespace(move |namespace| {
                let made =
                    prepare_rootfs(&Live::default(), start, held, Stage { dir: &stage, namespace }).unwrap();
                let bind = &made.ready.binds[0];
                tmpfs(&bind.join("from-inside"));
                ready.send(()).unwrap();
                go.recv().unwrap();
                mounted(&bind.join("from-host"))
            })
            .unwrap()
        });
        from_inside.1.recv().unwrap();
        tmpfs(&volume.join("from-host"));
        let on_host = mounted(&volume.join("from-inside"));
        to_inside.0.send(()).unwrap();
        (on_host, inner.join().unwrap())
    })
}

#[test]
fn mounts_travel_as_far_as_was_asked_for() {
    for (propagation, expected) in [
        (MountPropagation::Bidirectional, (true, true)),
        (MountPropagation::HostToContainer, (false, true)),
        (MountPropagation::None, (false, false)),
    ] {
        on_a_host(|dir, volume| assert_eq!(seen(dir, volume, propagation), expected, "{propagation:?}"));
    }
}

#[test]
fn a_mount_that_the_host_does_not_share_cannot_travel_both_ways() {
    on_a_host(|dir, volume| {
        mount_change(volume, MountPropagationFlags::PRIVATE).unwrap();
        let error =
            from_host(&Live::default(), &with(dir, volume, MountPropagation::Bidirectional)).unwrap_err();
        assert!(matches!(&error, Error::NotShared { bind } if bind == volume), "{error}");
        assert!(error.hint().unwrap().contains("make-shared"));
    });
}

/// The kernel makes every mount of a user namespace's own a follower: nothing would arrive.
#[test]
fn from_a_user_namespace_no_mount_travels_to_the_host() {
    on_a_host(|dir, volume| {
        let mut start = with(dir, volume, MountPropagation::Bidirectional);
        start.namespaces.user = NamespaceSpec::New;
        let error = from_host(&Live::default(), &start).unwrap_err();
        assert!(matches!(error, Error::BothWays { .. }), "{error}");
    });
}

#[test]
fn a_bind_that_nobody_held_is_not_mounted_one_way_in_silence() {
    on_a_host(|dir, volume| {
        let start = with(dir, volume, MountPropagation::Bidirectional);
        let stage = dir.join("stage");
        let made = in_private_mount_namespace(|namespace| {
            prepare_rootfs(&Live::default(), &start, FromHost::default(), Stage { dir: &stage, namespace })
                .map(drop)
        });
        assert!(matches!(made.unwrap(), Err(Error::NotHeld { .. })));
    });
}

//! Devices of the host in a container: as binds in a user namespace, as nodes without.

use crate::support;

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use container::spec::PreparedDevice;
use container::{Device, Error, NamespaceSpec, NodeOwner};
use rustix::fs::{CWD, FileType, makedev, mknodat};
use support::{BASE, inside, owner, start};

fn device(source: &Path, target: &str) -> Device {
    let (access, owner) = ("rw".into(), NodeOwner::Container);
    Device { source: source.to_owned(), target: target.into(), access, owner }
}

fn node(path: &Path, (major, minor): (u32, u32)) {
    mknodat(CWD, path, FileType::CharacterDevice, 0o640.into(), makedev(major, minor)).unwrap();
}

fn numbers(devices: &[PreparedDevice]) -> Vec<(String, char, u32, u32)> {
    let of =
        |d: &PreparedDevice| (d.target.display().to_string(), d.number.kind, d.number.major, d.number.minor);
    devices.iter().map(of).collect()
}

#[test]
fn in_a_user_namespace_a_device_is_made_outside_for_its_root_and_bound() {
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    let mut start = start(dir.path());
    start.devices = vec![device(Path::new("/dev/zero"), "/dev/nothing")];
    let read = inside(&start, dir.path(), |made| {
        let [device] = made.ready.devices.as_slice() else { panic!("one device") };
        assert_eq!(numbers(&made.ready.devices), [("/dev/nothing".to_owned(), 'c', 1, 5)]);
        assert_eq!(owner(device.bind.as_ref().unwrap()), (BASE, BASE));
        let mut bytes = [7_u8; 4];
        std::io::Read::read_exact(&mut File::open(device.bind.as_ref().unwrap()).unwrap(), &mut bytes)
            .unwrap();
        bytes
    });
    assert_eq!(read.unwrap(), [0; 4]);
}

#[test]
fn with_the_hosts_users_a_device_is_a_node_to_be_made() {
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    let mut start = start(dir.path());
    (start.ids, start.namespaces) = (None, support::spaces(NamespaceSpec::Host));
    start.devices = vec![device(Path::new("/dev/zero"), "/dev/nothing")];
    let bind = inside(&start, dir.path(), |made| made.ready.devices[0].bind.clone()).unwrap();
    assert_eq!(bind, None);
}

#[test]
fn a_directory_stands_for_all_devices_below_it() {
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    let mut start = start(dir.path());
    let given = dir.path().join("given");
    fs::create_dir_all(given.join("deep/pts")).unwrap();
    node(&given.join("one"), (1, 3));
    node(&given.join("deep/two"), (1, 5));
    node(&given.join("deep/pts/not-this"), (1, 7));
    node(&given.join("console"), (1, 7));
    fs::write(given.join("no-device"), "").unwrap();
    std::os::unix::fs::symlink("/dev/full", given.join("a-link")).unwrap();
    start.devices = vec![device(&given, "/dev/given")];
    let found = inside(&start, dir.path(), |made| {
        assert!(made.ready.devices.iter().all(|device| device.bind.is_some()));
        numbers(&made.ready.devices)
    });
    let two = ("/dev/given/deep/two".to_owned(), 'c', 1, 5);
    assert_eq!(found.unwrap(), [two, ("/dev/given/one".to_owned(), 'c', 1, 3)]);
}

#[test]
fn a_link_on_the_host_is_followed_to_its_device() {
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    let mut start = start(dir.path());
    let link = dir.path().join("link");
    std::os::unix::fs::symlink("/dev/full", &link).unwrap();
    start.devices = vec![device(&link, "/dev/x")];
    let found = inside(&start, dir.path(), |made| numbers(&made.ready.devices)).unwrap();
    assert_eq!(found, [("/dev/x".to_owned(), 'c', 1, 7)]);
}

#[test]
fn a_device_belongs_inside_to_the_numbers_that_it_belongs_to_outside() {
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    let mut start = start(dir.path());
    let (mapped, unmapped) = (dir.path().join("mapped"), dir.path().join("unmapped"));
    for (path, gid) in [(&mapped, 105), (&unmapped, 70_000)] {
        node(path, (1, 5));
        std::os::unix::fs::chown(path, Some(0), Some(gid)).unwrap();
    }
    start.devices = vec![device(&mapped, "/dev/a"), device(&unmapped, "/dev/b")];
    let seen = inside(&start, dir.path(), |made| {
        let [a, b] = [0, 1].map(|n: usize| made.ready.devices[n].bind.clone().unwrap());
        let mode = fs::metadata(&a).unwrap().mode() & 0o7777;
        (owner(&a), owner(&b), mode)
    });
    assert_eq!(seen.unwrap(), ((BASE, BASE + 105), (BASE, BASE), 0o640));
}

/// A privileged container of a user namespace has all of /dev. Its root would be the root of the host if it
/// could write to the host's disks.
#[test]
fn what_was_not_given_by_name_stays_the_hosts_and_is_nobodys_inside() {
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    let mut start = start(dir.path());
    let given = dir.path().join("given");
    fs::create_dir(&given).unwrap();
    node(&given.join("disk"), (1, 5));
    std::os::unix::fs::chown(given.join("disk"), Some(0), Some(6)).unwrap();
    start.devices = vec![Device { owner: NodeOwner::Host, ..device(&given, "/dev") }];
    let seen = inside(&start, dir.path(), |made| owner(made.ready.devices[0].bind.as_ref().unwrap()));
    assert_eq!(seen.unwrap(), (0, 6));
}

#[test]
fn what_every_container_has_is_not_given_to_it_twice() {
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    let mut start = start(dir.path());
    let other = device(Path::new("/dev/zero"), "/dev/full");
    start.devices = vec![device(Path::new("/dev/null"), "/dev/null"), other];
    let found = inside(&start, dir.path(), |made| numbers(&made.ready.devices)).unwrap();
    assert_eq!(found, [("/dev/full".to_owned(), 'c', 1, 5)]);
}

/// Passed over in silence, a container would run without what it asked for.
#[test]
fn what_is_no_device_is_refused_by_name() {
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    let mut start = start(dir.path());
    let empty = dir.path().join("empty");
    fs::create_dir(&empty).unwrap();
    for source in [Path::new("/etc/hostname"), &empty] {
        start.devices = vec![device(source, "/dev/x")];
        let error = inside(&start, dir.path(), |_| ()).unwrap_err();
        assert!(matches!(&error, Error::NoDevice { device } if device == source), "{error}");
    }
    start.devices = vec![device(Path::new("/dev/there-is-none"), "/dev/x")];
    let error = inside(&start, dir.path(), |_| ()).unwrap_err();
    assert!(error.to_string().contains("/dev/there-is-none"), "{error}");
}

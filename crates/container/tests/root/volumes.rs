//! Directories that an image wants to be volumes.

use crate::support;

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

use container::{ContainerSpec, Error, ImageVolume, NamespaceSpec, Owners};
use rustix::fs::{XattrFlags, lgetxattr, lsetxattr};
use support::{BASE, inside, owner, start};

/// `cap_net_raw=ep`, as the kernel writes it.
const CAPABILITY: [u8; 20] = [1, 0, 0, 2, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

fn with_volume(dir: &Path, target: &str) -> ContainerSpec {
    let mut start = start(dir);
    start.volumes = vec![ImageVolume { source: dir.join("volumes/0"), target: target.into() }];
    start
}

/// A directory of an image with all kinds of files.
fn data(layer: &Path) -> PathBuf {
    let data = layer.join("data");
    fs::create_dir_all(data.join("sub")).unwrap();
    fs::write(data.join("file"), "content").unwrap();
    chown(data.join("file"), Some(1000), Some(1001)).unwrap();
    fs::set_permissions(data.join("file"), Permissions::from_mode(0o4750)).unwrap();
    lsetxattr(data.join("file"), "user.note", b"kept", XattrFlags::empty()).unwrap();
    fs::write(data.join("program"), "").unwrap();
    lsetxattr(data.join("program"), "security.capability", &CAPABILITY, XattrFlags::empty()).unwrap();
    fs::hard_link(data.join("file"), data.join("sub/same")).unwrap();
    symlink("/etc/passwd", data.join("link")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, data.join("pipe"), 0o600.into()).unwrap();
    let sparse = fs::File::create(data.join("sparse")).unwrap();
    std::os::unix::fs::FileExt::write_at(&sparse, b"end", 1 << 30).unwrap();
    chown(&data, Some(7), Some(8)).unwrap();
    fs::set_permissions(&data, Permissions::from_mode(0o1770)).unwrap();
    fs::set_permissions(data.join("sub"), Permissions::from_mode(0o500)).unwrap();
    data
}

#[test]
fn a_volume_is_filled_from_the_image_and_is_the_containers() {
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    let start = with_volume(dir.path(), "/data");
    let in_image = data(&start.rootfs.lowers[0]);
    let volume = dir.path().join("volumes/0");
    inside(&start, dir.path(), |made| {
        let seen = &made.ready.volumes[0];
        assert_eq!(owner(seen), (BASE + 7, BASE + 8));
        assert_eq!(owner(&seen.join("file")), (BASE + 1000, BASE + 1001));
    })
    .unwrap();
    assert_eq!((owner(&volume), fs::metadata(&volume).unwrap().mode() & 0o7777), ((7, 8), 0o1770));
    let file = fs::metadata(volume.join("file")).unwrap();
    assert_eq!((file.uid(), file.gid(), file.mode() & 0o7777), (1000, 1001, 0o4750));
    assert_eq!(file.mtime_nsec(), fs::metadata(in_image.join("file")).unwrap().mtime_nsec());
    assert_eq!(file.ino(), fs::metadata(volume.join("sub/same")).unwrap().ino());
    assert_eq!(fs::read_to_string(volume.join("file")).unwrap(), "content");
    assert_eq!(fs::read_link(volume.join("link")).unwrap(), Path::new("/etc/passwd"));
    let mut value = [0; 32];
    let length = lgetxattr(volume.join("program"), "security.capability", value.as_mut_slice()).unwrap();
    assert_eq!(value[..length], CAPABILITY);
    assert_eq!(lgetxattr(volume.join("file"), "user.note", value.as_mut_slice()).unwrap(), 4);
    let sparse = fs::metadata(volume.join("sparse")).unwrap();
    assert_eq!(sparse.len(), (1 << 30) + 3);
    assert!(sparse.blocks() < 1000, "holes stay holes: {} blocks", sparse.blocks());
    assert_eq!(fs::metadata(volume.join("sub")).unwrap().mode() & 0o7777, 0o500);
    assert_eq!(fs::read_dir(dir.path().join("volumes")).unwrap().count(), 1);
}

#[test]
fn a_volume_is_filled_once_and_keeps_what_the_container_wrote() {
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    let start = with_volume(dir.path(), "/data");
    data(&start.rootfs.lowers[0]);
    inside(&start, dir.path(), |_| ()).unwrap();
    let volume = dir.path().join("volumes/0");
    fs::remove_file(volume.join("file")).unwrap();
    fs::write(volume.join("new"), "").unwrap();
    inside(&start, dir.path(), |_| ()).unwrap();
    assert!(!volume.join("file").exists() && volume.join("new").exists());
}

/// Whoever was killed at it leaves a directory of another name, which is begun anew.
#[test]
fn what_a_crash_left_half_filled_is_not_taken_for_the_volume() {
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    let start = with_volume(dir.path(), "/data");
    data(&start.rootfs.lowers[0]);
    let half = dir.path().join("volumes/0.filling");
    fs::create_dir_all(half.join("old/deep")).unwrap();
    fs::write(half.join("file"), "half").unwrap();
    inside(&start, dir.path(), |_| ()).unwrap();
    assert!(!half.exists());
    assert!(!dir.path().join("volumes/0/old").exists());
    assert_eq!(fs::read_to_string(dir.path().join("volumes/0/file")).unwrap(), "content");
}

#[test]
fn a_volume_that_the_image_does_not_have_is_empty_and_of_the_containers_root() {
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    let start = with_volume(dir.path(), "/run");
    let seen = inside(&start, dir.path(), |made| {
        let volume = &made.ready.volumes[0];
        (owner(volume), fs::metadata(volume).unwrap().mode() & 0o7777, fs::read_dir(volume).unwrap().count())
    });
    assert_eq!(seen.unwrap(), ((BASE, BASE), 0o755, 0));
    assert_eq!(owner(&dir.path().join("volumes/0")), (0, 0));
}

#[test]
fn with_several_layers_the_volume_is_what_they_show_together() {
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    let mut start = with_volume(dir.path(), "/data");
    data(&start.rootfs.lowers[0]);
    let upper = dir.path().join("upper-layer");
    fs::create_dir_all(upper.join("data")).unwrap();
    fs::write(upper.join("data/file"), "newer").unwrap();
    fs::write(upper.join("data/more"), "").unwrap();
    start.rootfs.lowers.insert(0, upper);
    inside(&start, dir.path(), |_| ()).unwrap();
    let volume = dir.path().join("volumes/0");
    assert_eq!(fs::read_to_string(volume.join("file")).unwrap(), "newer");
    assert!(volume.join("more").exists() && volume.join("program").exists());
}

#[test]
fn a_link_of_the_image_leads_to_no_directory_of_the_host() {
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    let start = with_volume(dir.path(), "/data");
    let outside = dir.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("secret"), "").unwrap();
    symlink(&outside, start.rootfs.lowers[0].join("data")).unwrap();
    inside(&start, dir.path(), |_| ()).unwrap();
    assert_eq!(fs::read_dir(dir.path().join("volumes/0")).unwrap().count(), 0);
}

#[test]
fn a_file_of_the_image_is_no_volume() {
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    let start = with_volume(dir.path(), "/data");
    fs::write(start.rootfs.lowers[0].join("data"), "").unwrap();
    let error = inside(&start, dir.path(), |_| ()).unwrap_err();
    assert!(matches!(error, Error::UnfitFile { .. }), "{error}");
}

#[test]
fn without_maps_owners_are_the_images_and_with_given_files_they_are_the_hosts() {
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    let mut plain = with_volume(dir.path(), "/data");
    data(&plain.rootfs.lowers[0]);
    (plain.ids, plain.namespaces) = (None, support::spaces(NamespaceSpec::Host));
    inside(&plain, dir.path(), |made| assert_eq!(owner(&made.ready.volumes[0].join("file")), (1000, 1001)))
        .unwrap();
    let mut given = support::start(dir.path());
    given.rootfs.owners = Owners::Chown;
    given.volumes = vec![ImageVolume { source: dir.path().join("volumes/1"), target: "/data".into() }];
    inside(&given, dir.path(), |made| {
        assert_eq!(owner(&made.ready.volumes[0].join("file")), (BASE + 1000, BASE + 1001));
    })
    .unwrap();
    assert_eq!(owner(&dir.path().join("volumes/1/file")), (BASE + 1000, BASE + 1001));
}

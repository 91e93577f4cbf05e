//! Idmapped mounts on the real kernel. Needs root.

use crate::common;

use std::fs;
use std::os::unix::fs::chown;
use std::path::Path;

use common::{BASE, file_of, map_from, owner, release, userns, without_touching_the_host};
use kernel::{Access, DetachedMount, Error, Submounts, UsernsFd};
use rustix::mount::{MountFlags, mount};
use tempfile::TempDir;

fn tmpfs(at: &Path) {
    fs::create_dir_all(at).unwrap();
    mount("tmpfs", at, "tmpfs", MountFlags::empty(), None).unwrap();
}

fn directories(scratch: &TempDir) -> (std::path::PathBuf, std::path::PathBuf) {
    let (source, target) = (scratch.path().join("source"), scratch.path().join("target"));
    fs::create_dir(&source).unwrap();
    fs::create_dir(&target).unwrap();
    (source, target)
}

fn owners_are_shifted_through_a_clone_of(source: &Path, target: &Path) {
    file_of(&source.join("of-root"), 0, 0);
    file_of(&source.join("of-1000"), 1000, 100);
    DetachedMount::idmapped(source, &userns(), Access::ReadWrite, Submounts::Without)
        .unwrap()
        .attach(target)
        .unwrap();
    assert_eq!(owner(&target.join("of-root")), (BASE, BASE));
    assert_eq!(owner(&target.join("of-1000")), (BASE + 1000, BASE + 100));
    // What a mapped ID writes lands on disk as the container's ID.
    chown(target.join("of-root"), Some(BASE + 7), Some(BASE + 8)).unwrap();
    assert_eq!(owner(&source.join("of-root")), (7, 8));
    assert_eq!(owner(&source.join("of-1000")), (1000, 100));
}

#[test]
fn a_directory_on_disk_shows_shifted_owners() {
    let scratch = tempfile::tempdir_in("/var/tmp").unwrap();
    let (source, target) = directories(&scratch);
    without_touching_the_host(scratch.path(), |_| owners_are_shifted_through_a_clone_of(&source, &target));
    assert_eq!(fs::read_dir(&target).unwrap().count(), 0);
}

#[test]
fn a_tmpfs_shows_shifted_owners() {
    let scratch = tempfile::tempdir().unwrap();
    let (source, target) = directories(&scratch);
    without_touching_the_host(scratch.path(), |_| {
        tmpfs(&source);
        owners_are_shifted_through_a_clone_of(&source, &target);
    });
}

#[test]
fn user_and_group_ids_may_be_mapped_to_different_blocks() {
    let scratch = tempfile::tempdir().unwrap();
    let (source, target) = directories(&scratch);
    file_of(&source.join("file"), 5, 6);
    without_touching_the_host(scratch.path(), |_| {
        let userns = UsernsFd::create(&map_from(BASE), &map_from(BASE + 65_536)).unwrap();
        let clone = DetachedMount::idmapped(&source, &userns, Access::ReadWrite, Submounts::Without).unwrap();
        clone.attach(&target).unwrap();
        assert_eq!(owner(&target.join("file")), (BASE + 5, BASE + 65_536 + 6));
    });
}

#[test]
fn a_read_only_clone_cannot_be_written_through() {
    let scratch = tempfile::tempdir().unwrap();
    let (source, target) = directories(&scratch);
    without_touching_the_host(scratch.path(), |_| {
        let clone =
            DetachedMount::idmapped(&source, &userns(), Access::ReadOnly, Submounts::Without).unwrap();
        clone.attach(&target).unwrap();
        let error = fs::write(target.join("file"), "text").unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
        fs::write(source.join("file"), "text").unwrap();
    });
}

#[test]
fn mounts_below_are_mapped_when_included_and_empty_when_not() {
    let scratch = tempfile::tempdir().unwrap();
    let (source, target) = directories(&scratch);
    let below = source.join("below");
    without_touching_the_host(scratch.path(), |_| {
        tmpfs(&below);
        file_of(&below.join("file"), 1, 1);
        let clone = |submounts| DetachedMount::idmapped(&source, &userns(), Access::ReadWrite, submounts);
        clone(Submounts::Without).unwrap().attach(&target).unwrap();
        assert!(!target.join("below/file").exists());
        clone(Submounts::Included).unwrap().attach(&target).unwrap();
        assert_eq!(owner(&target.join("below/file")), (BASE + 1, BASE + 1));
    });
}

#[test]
fn a_filesystem_that_cannot_be_idmapped_is_named_with_the_reason() {
    let error = DetachedMount::idmapped(Path::new("/proc"), &userns(), Access::ReadWrite, Submounts::Without)
        .unwrap_err();
    assert!(matches!(error, Error::Idmap { .. }), "{error}");
    assert_eq!(error.to_string(), "cannot idmap a mount of /proc: Invalid argument (os error 22)");
    assert!(error.hint().unwrap().contains("cannot be idmapped"));
}

/// Linux 6.15 gives an idmapped mount another map; before, it is refused by name.
#[test]
fn a_second_map_takes_the_place_of_the_first_or_is_refused() {
    let scratch = tempfile::tempdir_in("/var/tmp").unwrap();
    let (source, target) = directories(&scratch);
    file_of(&source.join("file"), 1, 2);
    without_touching_the_host(scratch.path(), |_| {
        let through = |path: &Path, userns: &UsernsFd| {
            DetachedMount::idmapped(path, userns, Access::ReadWrite, Submounts::Without)
        };
        through(&source, &userns()).unwrap().attach(&target).unwrap();
        let other = UsernsFd::create(&map_from(BASE + 65_536), &map_from(BASE + 131_072)).unwrap();
        let again = through(&target, &other);
        println!("Linux {:?}: {}", release(), if again.is_ok() { "mapped anew" } else { "refused" });
        if release() < (6, 15) {
            let error = again.unwrap_err();
            assert_eq!(error, Error::AlreadyIdmapped { path: target.clone() });
            assert!(error.hint().unwrap().contains("6.15"), "{error}");
        } else {
            again.unwrap().attach(&target).unwrap();
            assert_eq!(owner(&target.join("file")), (BASE + 65_536 + 1, BASE + 131_072 + 2));
        }
    });
    assert_eq!(owner(&source.join("file")), (1, 2));
}

#[test]
fn missing_paths_are_named() {
    let missing = Path::new("/nonexistent/source");
    let error =
        DetachedMount::idmapped(missing, &userns(), Access::ReadWrite, Submounts::Without).unwrap_err();
    assert!(error.to_string().contains("/nonexistent/source"), "{error}");
    let scratch = tempfile::tempdir().unwrap();
    let (source, target) = directories(&scratch);
    without_touching_the_host(scratch.path(), |_| {
        let clone =
            DetachedMount::idmapped(&source, &userns(), Access::ReadWrite, Submounts::Without).unwrap();
        let error = clone.attach(&target.join("missing")).unwrap_err();
        assert!(error.to_string().contains("target/missing: No such file"), "{error}");
    });
}

//! Binds, propagation, read-only trees and flags on the real kernel. Needs root.

use crate::common;

use std::fs;
use std::io::ErrorKind;
use std::os::fd::AsFd;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{BASE, file_of, owner, userns, without_touching_the_host};
use kernel::{
    Access, Attributes, DetachedMount, Dir, Error, Filesystem, FilesystemKind, Flags, LastLink, MountEntry,
    MountTable, Node, Owner, Propagation, Source, Submounts, Unmount, Within,
};
use rustix::io::Errno;
use tempfile::TempDir;

fn tmpfs() -> Filesystem {
    Filesystem::new(FilesystemKind::Tmpfs { size: None, inodes: None, mode: 0o755, owner: Owner::ROOT })
}

struct Place {
    scratch: TempDir,
}

impl Place {
    fn new() -> Self {
        let place = Self { scratch: tempfile::tempdir_in("/var/tmp").unwrap() };
        for name in ["source/below", "target"] {
            fs::create_dir_all(place.at(name)).unwrap();
        }
        place
    }

    fn at(&self, path: &str) -> PathBuf {
        self.scratch.path().join(path)
    }

    /// A clone of `source` with these attributes, at `target`.
    fn bind(&self, attributes: &Attributes<'_>) -> kernel::Result<()> {
        let mut clone = DetachedMount::clone_of(Source::Path(&self.at("source")), attributes.submounts)?;
        clone.set(attributes)?;
        clone.attach(&self.at("target"))
    }

    fn mount_at(&self, path: &str) -> MountEntry {
        MountTable::read().unwrap().at(&self.at(path)).unwrap().clone()
    }
}

fn writes(path: &Path) -> Result<(), ErrorKind> {
    fs::write(path, "text").map_err(|error| error.kind())
}

#[test]
fn a_plain_bind_leaves_mounts_below_out_and_a_recursive_one_has_them() {
    let place = Place::new();
    without_touching_the_host(place.scratch.path(), |_| {
        tmpfs().make().unwrap().attach(&place.at("source/below")).unwrap();
        fs::write(place.at("source/below/file"), "text").unwrap();
        for (submounts, there) in [(Submounts::Without, false), (Submounts::Included, true)] {
            place.bind(&Attributes { submounts, ..Attributes::default() }).unwrap();
            assert_eq!(place.at("target/below/file").exists(), there);
            kernel::unmount(&place.at("target"), Unmount::Lazy).unwrap();
        }
    });
}

#[test]
fn read_only_holds_for_one_mount_or_for_all_below() {
    let place = Place::new();
    without_touching_the_host(place.scratch.path(), |_| {
        tmpfs().make().unwrap().attach(&place.at("source/below")).unwrap();
        let read_only =
            |submounts| Attributes { access: Access::ReadOnly, submounts, ..Attributes::default() };
        place.bind(&read_only(Submounts::Included)).unwrap();
        let refused = Err(ErrorKind::ReadOnlyFilesystem);
        assert_eq!(writes(&place.at("target/file")), refused);
        assert_eq!(writes(&place.at("target/below/file")), refused);
        assert!(place.mount_at("target/below").read_only());
        // The original stays writable, also below.
        assert_eq!(writes(&place.at("source/file")), Ok(()));
        assert_eq!(writes(&place.at("source/below/file")), Ok(()));
        kernel::unmount(&place.at("target"), Unmount::Lazy).unwrap();
        // With the mounts below, but only the topmost read-only: what a plain `readOnly` means.
        let mut clone =
            DetachedMount::clone_of(Source::Path(&place.at("source")), Submounts::Included).unwrap();
        clone.set(&read_only(Submounts::Without)).unwrap();
        clone.attach(&place.at("target")).unwrap();
        assert_eq!(writes(&place.at("target/file")), refused);
        assert_eq!(writes(&place.at("target/below/file")), Ok(()));
    });
}

#[test]
fn mounts_travel_as_propagation_says() {
    // (what the clone is told, seen in the clone when made at the source, and the other way round)
    for (propagation, inward, outward) in [
        (Propagation::Private, false, false),
        (Propagation::Slave, true, false),
        (Propagation::Shared, true, true),
    ] {
        let place = Place::new();
        without_touching_the_host(place.scratch.path(), |_| {
            let source = place.at("source");
            fs::create_dir(source.join("other")).unwrap();
            let mut shared = DetachedMount::clone_of(Source::Path(&source), Submounts::Without).unwrap();
            shared
                .set(&Attributes { propagation: Some(Propagation::Shared), ..Attributes::default() })
                .unwrap();
            shared.attach(&source).unwrap();
            place.bind(&Attributes { propagation: Some(propagation), ..Attributes::default() }).unwrap();
            tmpfs().make().unwrap().attach(&place.at("source/below")).unwrap();
            tmpfs().make().unwrap().attach(&place.at("target/other")).unwrap();
            let table = MountTable::read().unwrap();
            assert_eq!(table.at(&place.at("target/below")).is_some(), inward, "{propagation}");
            assert_eq!(table.at(&place.at("source/other")).is_some(), outward, "{propagation}");
        });
    }
}

#[test]
fn an_unbindable_mount_is_not_bound() {
    let place = Place::new();
    without_touching_the_host(place.scratch.path(), |_| {
        place
            .bind(&Attributes { propagation: Some(Propagation::Unbindable), ..Attributes::default() })
            .unwrap();
        let error =
            DetachedMount::clone_of(Source::Path(&place.at("target")), Submounts::Without).unwrap_err();
        assert!(matches!(error, Error::CloneMount { errno: Errno::INVAL, .. }), "{error}");
    });
}

#[test]
fn flags_forbid_devices_programs_and_links() {
    let place = Place::new();
    let program = place.at("source/program");
    fs::write(&program, "#!/bin/sh\nexit 0\n").unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    symlink("program", place.at("source/link")).unwrap();
    without_touching_the_host(place.scratch.path(), |_| {
        let flags = Flags::NOSUID | Flags::NODEV | Flags::NOEXEC | Flags::NOSYMFOLLOW;
        place.bind(&Attributes { flags, ..Attributes::default() }).unwrap();
        let options = place.mount_at("target").options;
        for name in ["nosuid", "nodev", "noexec", "nosymfollow"] {
            assert!(options.iter().any(|option| option == name), "{name}: {options:?}");
        }
        let error = Command::new(place.at("target/program")).status().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::PermissionDenied);
        assert!(fs::read(place.at("target/link")).is_err());
    });
}

#[test]
fn a_mount_goes_to_the_very_directory_that_is_held() {
    let place = Place::new();
    fs::create_dir(place.at("elsewhere")).unwrap();
    file_of(&place.at("source/file"), 3, 4);
    without_touching_the_host(place.scratch.path(), |_| {
        let dir = Dir::open(place.scratch.path()).unwrap();
        let hold = |name: &str| dir.node(Path::new(name), Within::NoLinks, LastLink::Keep).unwrap();
        let (source, target) = (hold("source"), hold("target"));
        // Both paths lead elsewhere by now.
        for name in ["source", "target"] {
            fs::rename(place.at(name), place.at(&format!("{name}-moved"))).unwrap();
            symlink(place.at("elsewhere"), place.at(name)).unwrap();
        }
        let userns = userns();
        let mut clone = DetachedMount::clone_of(Source::Node(source.as_fd()), Submounts::Without).unwrap();
        clone.set(&Attributes { idmap: Some(&userns), ..Attributes::default() }).unwrap();
        clone.attach_at(target.as_fd()).unwrap();
        assert_eq!(owner(&place.at("target-moved/file")), (BASE + 3, BASE + 4));
        assert_eq!(fs::read_dir(place.at("elsewhere")).unwrap().count(), 0);
        // By path, a link in the last place is not followed.
        let clone = DetachedMount::clone_of(Source::Node(source.as_fd()), Submounts::Without).unwrap();
        assert!(clone.attach(&place.at("target")).is_err());
        let error = kernel::unmount(&place.at("target"), Unmount::Now).unwrap_err();
        assert_eq!(error, Error::NotMounted { path: place.at("target") });
    });
}

#[test]
fn a_single_file_can_be_mounted_over_another() {
    let place = Place::new();
    file_of(&place.at("source/file"), 5, 6);
    fs::write(place.at("target/file"), "covered").unwrap();
    without_touching_the_host(place.scratch.path(), |_| {
        let file = Node::open(&place.at("source/file")).unwrap();
        let userns = userns();
        let mut clone = DetachedMount::clone_of(Source::Node(file.as_fd()), Submounts::Without).unwrap();
        clone.set(&Attributes { idmap: Some(&userns), ..Attributes::default() }).unwrap();
        clone.attach(&place.at("target/file")).unwrap();
        assert_eq!(owner(&place.at("target/file")), (BASE + 5, BASE + 6));
        assert!(place.mount_at("target/file").idmapped());
    });
}

#[test]
fn a_filesystem_is_filled_before_anybody_sees_it() {
    let place = Place::new();
    without_touching_the_host(place.scratch.path(), |_| {
        let owner = Owner { uid: BASE + 1, gid: BASE + 2 };
        let kind = FilesystemKind::Tmpfs { size: Some(1 << 20), inodes: Some(100), mode: 0o1770, owner };
        let tmpfs = Filesystem { flags: Flags::NODEV, ..Filesystem::new(kind) }.make().unwrap();
        let root = tmpfs.root().unwrap();
        root.make_dir("early".as_ref(), kernel::DirMode { mode: 0o700, owner: None }).unwrap();
        tmpfs.attach(&place.at("target")).unwrap();
        let found = Dir::open(&place.at("target")).unwrap().stat().unwrap();
        assert_eq!((found.owner(), found.mode, found.is_mount_root), (owner, 0o1770, true));
        assert!(place.at("target/early").exists());
        let mount = place.mount_at("target");
        assert_eq!(found.mount_id, mount.id);
        let sized = mount.super_options.iter().any(|option| option == "size=1024k");
        assert!(sized && mount.options.iter().any(|option| option == "nodev"), "{mount:?}");
    });
}

#[test]
fn a_setting_that_the_kernel_refuses_is_named_with_its_words() {
    let options = vec![kernel::FsOption::new("no-such-setting", 1)];
    let kind = FilesystemKind::Other { name: "tmpfs".into(), source: None, options };
    let error = Filesystem::new(kind).make().unwrap_err().to_string();
    assert!(error.starts_with("cannot make a tmpfs with no-such-setting=1: Invalid argument"), "{error}");
    assert!(error.contains("the kernel says: tmpfs: Unknown parameter 'no-such-setting'"), "{error}");
    let kind = FilesystemKind::Other { name: "no-such-fs".into(), source: None, options: vec![] };
    let error = Filesystem::new(kind).make().unwrap_err();
    assert!(matches!(error, Error::MakeFilesystem { errno: Errno::NODEV, .. }), "{error}");
}

#[test]
fn the_older_way_of_mounting_makes_the_same() {
    let place = Place::new();
    without_touching_the_host(place.scratch.path(), |_| {
        let owner = Owner { uid: BASE, gid: BASE + 9 };
        let kind = FilesystemKind::Tmpfs { size: Some(4096), inodes: None, mode: 0o750, owner };
        let tmpfs = Filesystem { access: Access::ReadOnly, ..Filesystem::new(kind) };
        tmpfs.mount_at(&place.at("target")).unwrap();
        let found = Dir::open(&place.at("target")).unwrap().stat().unwrap();
        assert_eq!((found.owner(), found.mode), (owner, 0o750));
        assert_eq!(writes(&place.at("target/file")), Err(ErrorKind::ReadOnlyFilesystem));
    });
}

#[test]
fn a_mount_in_use_is_taken_away_lazily_only() {
    let place = Place::new();
    without_touching_the_host(place.scratch.path(), |_| {
        tmpfs().make().unwrap().attach(&place.at("target")).unwrap();
        let busy = fs::File::create(place.at("target/file")).unwrap();
        let error = kernel::unmount(&place.at("target"), Unmount::Now).unwrap_err();
        assert!(matches!(error, Error::Unmount { errno: Errno::BUSY, .. }), "{error}");
        assert!(error.hint().is_some());
        kernel::unmount(&place.at("target"), Unmount::Lazy).unwrap();
        assert!(!place.at("target/file").exists());
        drop(busy);
    });
}

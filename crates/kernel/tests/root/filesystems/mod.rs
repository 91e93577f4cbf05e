//! Each filesystem tried for real: idmapped, or refused by name. Needs root and the `mkfs` programs.
//!
//! The same test runs on older kernels in the VM: what a kernel can do is asked, and only compared here
//! with what its version should be able to do.

use crate::common;
mod fuse;
mod image;

use std::fs;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{BASE, file_of, owner, release, userns, without_touching_the_host};
use kernel::probe::{self, Answer};
use kernel::{
    Access, DetachedMount, Error, Filesystem, FilesystemKind, MountPoints, MountTable, Overlay, Owner,
    Submounts,
};
use rustix::io::Errno;
use tempfile::TempDir;

pub(crate) struct Place {
    scratch: TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        let place = Self { scratch: tempfile::tempdir_in("/var/tmp").unwrap() };
        for name in ["source", "target", "content"] {
            fs::create_dir(place.at(name)).unwrap();
        }
        place
    }

    pub(crate) fn at(&self, path: &str) -> PathBuf {
        self.scratch.path().join(path)
    }

    pub(crate) fn text(&self, path: &str) -> String {
        self.at(path).to_str().unwrap().to_owned()
    }

    /// Attaches an idmapped clone of `source` to `target`, or says why it cannot be.
    pub(crate) fn idmap(&self) -> kernel::Result<()> {
        DetachedMount::idmapped(&self.at("source"), &userns(), Access::ReadWrite, Submounts::Without)?
            .attach(&self.at("target"))
    }

    /// `source` has a filesystem that can be idmapped since this version, or by no version that there is.
    pub(crate) fn can_be_idmapped(&self, name: &str, since: Option<(u32, u32)>) -> bool {
        let table = MountTable::read().unwrap();
        assert_eq!(table.at(&self.at("source")).unwrap().filesystem, name);
        let answer = probe::idmap(&self.at("source"));
        let can = since.is_some_and(|since| release() >= since);
        println!("Linux {:?}: {name} can {}be idmapped", release(), if answer.works() { "" } else { "not " });
        assert_eq!(answer.works(), can, "{name} on Linux {:?}: {answer:?}", release());
        match answer {
            Answer::Works(found) => assert_eq!(found, name),
            Answer::Refused(refusal) => {
                let says = format!("{name}, which {} is on, cannot be idmapped", self.text("source"));
                assert!(refusal.cause.starts_with(&says), "{refusal:?}");
                let error = self.idmap().unwrap_err();
                assert!(matches!(error, Error::Idmap { errno: Errno::INVAL, .. }), "{error}");
            }
        }
        can
    }
}

/// Makes an empty file as the user and group with these IDs: by a process of their own, for a thread that changes its user makes
/// the whole process undumpable, which other tests look at.
fn file_by(uid: u32, gid: u32, file: &Path) {
    let made = Command::new("touch").arg(file).uid(uid).gid(gid).status().unwrap();
    assert!(made.success(), "{}", file.display());
}

/// Reads show the host's IDs, writes land with the container's.
fn translates_both_ways(place: &Place) {
    let (source, target) = (place.at("source"), place.at("target"));
    fs::set_permissions(&source, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    file_of(&source.join("of-root"), 0, 0);
    file_of(&source.join("of-1000"), 1000, 100);
    place.idmap().unwrap();
    assert!(MountTable::read().unwrap().at(&target).unwrap().idmapped());
    assert_eq!(owner(&target.join("of-root")), (BASE, BASE));
    assert_eq!(owner(&target.join("of-1000")), (BASE + 1000, BASE + 100));
    file_by(BASE + 7, BASE + 8, &target.join("new"));
    assert_eq!(owner(&target.join("new")), (BASE + 7, BASE + 8));
    assert_eq!(owner(&source.join("new")), (7, 8), "on disk");
    chown(target.join("of-root"), Some(BASE + 5), Some(BASE + 6)).unwrap();
    assert_eq!(owner(&source.join("of-root")), (5, 6), "on disk");
    // Whoever has no ID inside cannot own anything inside: not even the host's root.
    let error = fs::write(target.join("of-nobody"), "").unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EOVERFLOW));
}

/// An image that is made empty and written to.
fn writable(name: &str, mebibytes: u64, mkfs: &[&str]) {
    let place = Place::new();
    let image = image::blank(place.scratch.path(), mebibytes);
    let (program, arguments) = mkfs.split_first().unwrap();
    image::run(program, &[arguments, &[image.to_str().unwrap()]].concat());
    without_touching_the_host(place.scratch.path(), |_| {
        image::mount(&image, name, Access::ReadWrite, &place.at("source"));
        // All of them are older than the oldest kernel that is supported, 5.19.
        assert!(place.can_be_idmapped(name, Some((5, 15))));
        translates_both_ways(&place);
    });
}

/// An image that is made of files, and never written to.
fn read_only(name: &str, since: (u32, u32), make: impl FnOnce(&Place)) {
    let place = Place::new();
    file_of(&place.at("content/file"), 1000, 100);
    make(&place);
    without_touching_the_host(place.scratch.path(), |_| {
        image::mount(&place.at("image"), name, Access::ReadOnly, &place.at("source"));
        assert_eq!(owner(&place.at("source/file")), (1000, 100));
        if place.can_be_idmapped(name, Some(since)) {
            place.idmap().unwrap();
            assert_eq!(owner(&place.at("target/file")), (BASE + 1000, BASE + 100));
        }
    });
}

/// A filesystem without a disk.
fn in_memory(kind: &FilesystemKind, since: Option<(u32, u32)>, body: impl FnOnce(&Place) + Send) {
    let place = Place::new();
    without_touching_the_host(place.scratch.path(), |_| {
        let made = Filesystem::new(kind.clone()).make().unwrap_or_else(|error| panic!("{error}"));
        made.attach(&place.at("source")).unwrap();
        if place.can_be_idmapped(kind.name(), since) {
            body(&place);
        }
    });
}

fn nothing_else(name: &str) -> FilesystemKind {
    FilesystemKind::Other { name: name.to_owned(), source: None, options: vec![] }
}

#[test]
fn ext4_is_idmapped() {
    writable("ext4", 16, &["mkfs.ext4", "-q"]);
}

#[test]
fn xfs_is_idmapped() {
    writable("xfs", 320, &["mkfs.xfs", "-q"]);
}

#[test]
fn btrfs_is_idmapped() {
    writable("btrfs", 128, &["mkfs.btrfs", "-q"]);
}

#[test]
fn squashfs_is_idmapped() {
    read_only("squashfs", (6, 2), |place| {
        let (content, image) = (place.text("content"), place.text("image"));
        image::run("mksquashfs", &[&content, &image, "-quiet", "-no-progress", "-no-xattrs", "-mem", "32M"]);
    });
}

#[test]
fn erofs_is_idmapped() {
    read_only("erofs", (5, 19), |place| {
        image::run("mkfs.erofs", &["--quiet", &place.text("image"), &place.text("content")]);
    });
}

#[test]
fn tmpfs_is_idmapped() {
    let kind = FilesystemKind::Tmpfs { size: Some(1 << 20), inodes: None, mode: 0o777, owner: Owner::ROOT };
    in_memory(&kind, Some((6, 3)), translates_both_ways);
}

/// Its files hold pages, which need not be there for a file to be made.
#[test]
fn hugetlbfs_is_idmapped() {
    let (page_size, mode, owner) = (2 << 20, 0o777, Owner::ROOT);
    let kind = FilesystemKind::Hugetlbfs { page_size, size: None, mode, owner };
    in_memory(&kind, Some((6, 9)), |place| {
        let (source, target) = (place.at("source"), place.at("target"));
        fs::File::create(source.join("file")).unwrap();
        chown(source.join("file"), Some(1000), Some(100)).unwrap();
        place.idmap().unwrap();
        assert_eq!(common::owner(&target.join("file")), (BASE + 1000, BASE + 100));
        file_by(BASE + 7, BASE + 8, &target.join("new"));
        assert_eq!(common::owner(&source.join("new")), (7, 8));
    });
}

#[test]
fn ramfs_proc_sysfs_and_devpts_are_refused_by_name() {
    for name in ["ramfs", "proc", "sysfs", "devpts"] {
        in_memory(&nothing_else(name), None, |_| {});
    }
}

/// Its layers can be, the overlay itself cannot.
#[test]
fn an_overlay_is_refused_by_name() {
    let place = Place::new();
    for name in ["lower", "upper", "work"] {
        fs::create_dir(place.at(name)).unwrap();
    }
    without_touching_the_host(place.scratch.path(), |namespace| {
        let lower = place.at("lower");
        let layer = DetachedMount::idmapped(&lower, &userns(), Access::ReadOnly, Submounts::Without).unwrap();
        let (upper, work, points) = (place.at("upper"), place.at("work"), place.at("content"));
        let overlay = Overlay { lowers: vec![layer], upper: &upper, work: &work, label: None, options: &[] };
        let (made, given) = overlay.make(MountPoints::new(&points, namespace)).unwrap();
        println!("Linux {:?} was given the layers {given}", release());
        made.attach(&place.at("source")).unwrap();
        assert!(!place.can_be_idmapped("overlay", None));
    });
}

#[test]
fn fuse_is_idmapped_if_its_server_agrees_and_else_refused_by_name() {
    for (server, since) in [(fuse::Agrees::No, None), (fuse::Agrees::Yes, Some((6, 12)))] {
        let place = Place::new();
        without_touching_the_host(place.scratch.path(), |_| {
            let _server = fuse::serve(&place.at("source"), server);
            if place.can_be_idmapped("fuse", since) {
                place.idmap().unwrap();
                assert_eq!(owner(&place.at("target")), (BASE + fuse::OWNER, BASE + fuse::OWNER));
            }
        });
    }
}

/// One that does not answer must not keep us from finding out what it is.
#[test]
fn a_filesystem_whose_server_is_silent_is_refused_and_not_waited_for() {
    let place = Place::new();
    without_touching_the_host(place.scratch.path(), |_| {
        let _silent = fuse::silent(&place.at("source"));
        assert!(!place.can_be_idmapped("fuse", None));
    });
}

#[test]
fn one_mount_that_cannot_be_idmapped_refuses_the_whole_tree() {
    let place = Place::new();
    fs::create_dir(place.at("source/below")).unwrap();
    without_touching_the_host(place.scratch.path(), |_| {
        Filesystem::new(nothing_else("ramfs")).make().unwrap().attach(&place.at("source/below")).unwrap();
        let source = place.at("source");
        let clone = |submounts| DetachedMount::idmapped(&source, &userns(), Access::ReadWrite, submounts);
        assert!(clone(Submounts::Without).is_ok());
        let error = clone(Submounts::Included).unwrap_err();
        assert!(matches!(&error, Error::Idmap { path, .. } if *path == source), "{error}");
        let refused: Vec<_> = probe::idmap_tree(Path::new(&source)).unwrap();
        let refused: Vec<_> = refused.iter().filter(|(_, answer)| !answer.works()).collect();
        assert_eq!(refused.len(), 1);
        assert_eq!(refused[0].0, place.at("source/below"));
    });
}

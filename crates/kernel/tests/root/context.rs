//! SELinux contexts of whole mounts, by both ways of mounting. Where SELinux is not active, as on most
//! machines that this runs on, they must be refused by name; the VM has a kernel with it. Needs root.

use crate::common;

use std::fs;
use std::path::{Path, PathBuf};

use common::{BASE, owner, userns, without_touching_the_host};
use kernel::{
    Access, Attributes, DetachedMount, Error, Filesystem, FilesystemKind, MountPoints, MountTable, Overlay,
    Owner, Source, Submounts, verify_context,
};
use rustix::io::Errno;
use tempfile::TempDir;

const LABEL: &str = "system_u:object_r:container_file_t:s0:c1,c2";
const OTHER: &str = "system_u:object_r:container_file_t:s0:c3,c4";

fn selinux() -> bool {
    let active = Path::new("/sys/fs/selinux/enforce").exists();
    println!("SELinux is {}active", if active { "" } else { "not " });
    active
}

fn tmpfs(context: Option<&str>) -> Filesystem {
    let kind = FilesystemKind::Tmpfs { size: Some(1 << 20), inodes: None, mode: 0o777, owner: Owner::ROOT };
    Filesystem { context: context.map(str::to_owned), ..Filesystem::new(kind) }
}

struct Place {
    scratch: TempDir,
}

impl Place {
    fn new() -> Self {
        let place = Self { scratch: tempfile::tempdir_in("/var/tmp").unwrap() };
        for name in ["new", "old", "bound", "lower", "upper", "work", "points"] {
            fs::create_dir(place.at(name)).unwrap();
        }
        place
    }

    fn at(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }
}

fn context_at(path: &Path) -> Option<String> {
    MountTable::read().unwrap().at(path).unwrap().context().map(str::to_owned)
}

#[test]
fn both_ways_of_mounting_set_the_same_context_or_name_what_is_missing() {
    let place = Place::new();
    without_touching_the_host(place.scratch.path(), |_| {
        let (new, old) = (place.at("new"), place.at("old"));
        if selinux() {
            tmpfs(Some(LABEL)).make().unwrap().attach(&new).unwrap();
            tmpfs(Some(LABEL)).mount_at(&old).unwrap();
            for path in [&new, &old] {
                assert_eq!(context_at(path).as_deref(), Some(LABEL));
                verify_context(path, LABEL).unwrap();
            }
        } else {
            let error = tmpfs(Some(LABEL)).make().unwrap_err();
            assert!(matches!(&error, Error::FilesystemOption { errno: Errno::INVAL, .. }), "{error}");
            assert!(error.hint().unwrap().contains("SELinux is not active"), "{error}");
            let error = tmpfs(Some(LABEL)).mount_at(&old).unwrap_err();
            assert!(matches!(error, Error::MakeFilesystem { errno: Errno::INVAL, .. }), "{error}");
            assert!(MountTable::read().unwrap().at(&old).is_none());
        }
    });
}

/// The kernel takes a context for a bind mount and forgets it: what is seen afterwards is what counts.
#[test]
fn a_mount_without_the_context_is_found_out() {
    let place = Place::new();
    without_touching_the_host(place.scratch.path(), |_| {
        let bound = place.at("bound");
        let plain = DetachedMount::clone_of(Source::Path(&place.at("lower")), Submounts::Without).unwrap();
        plain.attach(&bound).unwrap();
        let found = None;
        let error = verify_context(&bound, LABEL).unwrap_err();
        assert_eq!(error, Error::OtherContext { path: bound.clone(), wanted: LABEL.to_owned(), found });
        assert!(
            error.to_string().ends_with(&format!("has no context and not the context {LABEL}")),
            "{error}"
        );
        assert!(matches!(verify_context(&place.at("new"), LABEL), Err(Error::NotMounted { .. })));
    });
}

#[test]
fn a_context_is_compared_by_meaning_and_another_is_named() {
    let place = Place::new();
    without_touching_the_host(place.scratch.path(), |_| {
        let new = place.at("new");
        if !selinux() {
            assert!(tmpfs(Some(LABEL)).make().is_err());
            return;
        }
        // The kernel shows categories in its own order.
        let reversed = LABEL.replace("c1,c2", "c2,c1");
        tmpfs(Some(&reversed)).make().unwrap().attach(&new).unwrap();
        verify_context(&new, LABEL).unwrap();
        let found = Some(LABEL.to_owned());
        let error = verify_context(&new, OTHER).unwrap_err();
        assert_eq!(error, Error::OtherContext { path: new.clone(), wanted: OTHER.to_owned(), found });
        assert!(error.hint().unwrap().contains("the first mount sets it"));
    });
}

#[test]
fn clones_keep_the_context_also_idmapped() {
    let place = Place::new();
    without_touching_the_host(place.scratch.path(), |_| {
        let (new, bound) = (place.at("new"), place.at("bound"));
        if !selinux() {
            assert!(tmpfs(Some(LABEL)).make().is_err());
            return;
        }
        tmpfs(Some(LABEL)).make().unwrap().attach(&new).unwrap();
        let mut clone = DetachedMount::clone_of(Source::Path(&new), Submounts::Without).unwrap();
        if kernel::probe::tmpfs_idmap().works() {
            let userns = userns();
            clone.set(&Attributes { idmap: Some(&userns), ..Attributes::default() }).unwrap();
            clone.attach(&bound).unwrap();
            assert_eq!(owner(&bound), (BASE, BASE));
        } else {
            clone.attach(&bound).unwrap();
        }
        verify_context(&bound, LABEL).unwrap();
    });
}

#[test]
fn an_overlay_has_a_context_of_its_own_in_either_way() {
    let place = Place::new();
    without_touching_the_host(place.scratch.path(), |namespace| {
        let lower = place.at("lower");
        let layer = DetachedMount::idmapped(&lower, &userns(), Access::ReadOnly, Submounts::Without).unwrap();
        let (upper, work, points) = (place.at("upper"), place.at("work"), place.at("points"));
        let overlay =
            Overlay { lowers: vec![layer], upper: &upper, work: &work, label: Some(LABEL), options: &[] };
        let made = overlay.make(MountPoints::new(&points, namespace));
        if selinux() {
            let (made, given) = made.unwrap();
            println!("Linux {:?} was given the layers {given}", common::release());
            made.attach(&place.at("bound")).unwrap();
            verify_context(&place.at("bound"), LABEL).unwrap();
        } else {
            let error = made.unwrap_err().to_string();
            assert!(error.contains("set the context of: Invalid argument"), "{error}");
        }
    });
}

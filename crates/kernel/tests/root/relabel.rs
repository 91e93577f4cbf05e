//! Labels of a tree that its owner has laid traps in. Needs root; SELinux need not be on: the attribute is kept all
//! the same.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use kernel::{Relabelled, relabel};
use rustix::fs::{XattrFlags, lgetxattr, lsetxattr};

const LABEL: &str = "system_u:object_r:container_file_t:s0:c1,c2";
const ATTRIBUTE: &str = "security.selinux";

fn label(path: &Path) -> Option<String> {
    let mut bytes = [0; 256];
    let length = lgetxattr(path, ATTRIBUTE, &mut bytes[..]).ok()?;
    Some(String::from_utf8(bytes[..length].to_vec()).unwrap().trim_end_matches('\0').to_owned())
}

/// Not on tmpfs, where only a kernel with SELinux on keeps the attribute.
fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in("/var/tmp").unwrap()
}

#[test]
fn all_of_a_tree_is_labelled_and_nothing_that_its_links_lead_to() {
    let (inside, outside) = (scratch(), scratch());
    let (volume, other) = (inside.path(), outside.path());
    fs::create_dir_all(volume.join("a/b")).unwrap();
    fs::write(volume.join("a/b/file"), "").unwrap();
    fs::write(other.join("secret"), "").unwrap();
    fs::hard_link(volume.join("a/b/file"), volume.join("again")).unwrap();
    symlink(other.join("secret"), volume.join("file-link")).unwrap();
    symlink(other, volume.join("a/dir-link")).unwrap();
    symlink("/nowhere", volume.join("dangling")).unwrap();
    let done = relabel(volume, LABEL).unwrap().unwrap();
    assert_eq!(done, Relabelled { changed: 7, same: 1 }, "what has two names is one file");
    for name in ["", "a", "a/b", "a/b/file", "again", "file-link", "a/dir-link", "dangling"] {
        assert_eq!(label(&volume.join(name)).as_deref(), Some(LABEL), "{name}");
    }
    for untouched in [other, &other.join("secret")] {
        assert_ne!(label(untouched).as_deref(), Some(LABEL), "{}", untouched.display());
    }
    let again = relabel(volume, LABEL).unwrap().unwrap();
    assert_eq!(again, Relabelled { changed: 0, same: 8 });
}

#[test]
fn a_single_file_is_labelled_and_its_neighbours_are_not() {
    let dir = scratch();
    let (file, neighbour) = (dir.path().join("file"), dir.path().join("neighbour"));
    fs::write(&file, "").unwrap();
    fs::write(&neighbour, "").unwrap();
    let foreign = "system_u:object_r:container_file_t:s0:c8,c9";
    lsetxattr(&file, ATTRIBUTE, foreign.as_bytes(), XattrFlags::empty()).unwrap();
    assert_eq!(relabel(&file, LABEL).unwrap(), Some(Relabelled { changed: 1, same: 0 }));
    assert_eq!(label(&file).as_deref(), Some(LABEL));
    assert_ne!(label(&neighbour).as_deref(), Some(LABEL));
}

/// The mount is made in a namespace that only this thread is in, and is gone with it before anything is removed.
#[test]
fn what_is_mounted_in_a_tree_keeps_its_labels() {
    let (inside, outside) = (scratch(), scratch());
    let (volume, other) = (inside.path().to_owned(), outside.path().to_owned());
    fs::create_dir(volume.join("mounted")).unwrap();
    fs::write(other.join("file"), "").unwrap();
    let (there, source) = (volume.clone(), other.clone());
    std::thread::spawn(move || {
        let _namespace = kernel::PrivateMountNamespace::enter().unwrap();
        let clone =
            kernel::DetachedMount::clone_of(kernel::Source::Path(&source), kernel::Submounts::Without)
                .unwrap();
        clone.attach(&there.join("mounted")).unwrap();
        let done = relabel(&there, LABEL).unwrap().unwrap();
        assert_eq!(done, Relabelled { changed: 1, same: 0 }, "the tree's own top alone");
    })
    .join()
    .unwrap();
    for untouched in [&other, &other.join("file"), &volume.join("mounted")] {
        assert_ne!(label(untouched).as_deref(), Some(LABEL), "{}", untouched.display());
    }
}

#[test]
fn a_filesystem_that_keeps_no_labels_is_said_to_keep_none_and_a_tree_too_deep_is_refused() {
    assert_eq!(relabel(Path::new("/proc/self/stat"), LABEL).unwrap(), None);
    let dir = scratch();
    let mut deep = dir.path().to_owned();
    for _ in 0..205 {
        deep.push("d");
    }
    fs::create_dir_all(&deep).unwrap();
    let error = relabel(dir.path(), LABEL).unwrap_err().to_string();
    assert!(error.starts_with("cannot label ") && error.contains("/d/d/"), "{error}");
}

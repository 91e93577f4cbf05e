//! Overlays from detached idmapped layers on the real kernel. Needs root.
#![allow(clippy::unwrap_used)]

mod common;

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};

use common::{BASE, file_of, owner, userns, without_touching_the_host};
use kernel::{Access, DetachedMount, Overlay, Result, Submounts};
use tempfile::TempDir;

struct Layers {
    scratch: TempDir,
}

impl Layers {
    fn new() -> Self {
        let layers = Self { scratch: tempfile::tempdir_in("/var/tmp").unwrap() };
        for name in ["top", "bottom", "upper", "work", "merged"] {
            fs::create_dir(layers.dir(name)).unwrap();
        }
        chown(layers.dir("upper"), Some(BASE), Some(BASE)).unwrap();
        layers
    }

    fn dir(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    fn lower(&self, name: &str) -> DetachedMount {
        DetachedMount::idmapped(&self.dir(name), &userns(), Access::ReadOnly, Submounts::Without).unwrap()
    }

    fn merge(&self, lowers: &[DetachedMount]) -> Result<()> {
        let (upper, work) = (self.dir("upper"), self.dir("work"));
        Overlay { lowers, upper: &upper, work: &work }.make()?.attach(&self.dir("merged"))
    }
}

fn append(path: &Path) {
    OpenOptions::new().append(true).open(path).unwrap().write_all(b" and more").unwrap();
}

#[test]
fn copy_up_keeps_the_mapped_owner_and_leaves_the_layer_alone() {
    let layers = Layers::new();
    file_of(&layers.dir("bottom/file"), 1000, 100);
    without_touching_the_host(layers.scratch.path(), || {
        layers.merge(&[layers.lower("top"), layers.lower("bottom")]).unwrap();
        let merged = layers.dir("merged");
        assert_eq!(owner(&merged), (BASE, BASE));
        assert_eq!(owner(&merged.join("file")), (BASE + 1000, BASE + 100));
        append(&merged.join("file"));
        assert_eq!(owner(&merged.join("file")), (BASE + 1000, BASE + 100));
    });
    assert_eq!(owner(&layers.dir("upper/file")), (BASE + 1000, BASE + 100));
    assert_eq!(owner(&layers.dir("bottom/file")), (1000, 100));
    assert_eq!(fs::read_to_string(layers.dir("bottom/file")).unwrap(), "text");
}

#[test]
fn the_first_lower_layer_is_the_topmost() {
    let layers = Layers::new();
    fs::write(layers.dir("top/file"), "top").unwrap();
    fs::write(layers.dir("bottom/file"), "bottom").unwrap();
    without_touching_the_host(layers.scratch.path(), || {
        layers.merge(&[layers.lower("top"), layers.lower("bottom")]).unwrap();
        assert_eq!(fs::read_to_string(layers.dir("merged/file")).unwrap(), "top");
    });
}

#[test]
fn paths_that_are_long_or_have_marks_of_their_own_are_taken_as_they_are() {
    let layers = Layers::new();
    let deep = layers.dir(&format!("{}/{}/a\\b,c:d", "x".repeat(200), "y".repeat(200)));
    let (upper, work) = (deep.join("upper"), deep.join("work"));
    fs::create_dir_all(&upper).unwrap();
    fs::create_dir_all(&work).unwrap();
    without_touching_the_host(layers.scratch.path(), || {
        let lowers = [layers.lower("bottom")];
        Overlay { lowers: &lowers, upper: &upper, work: &work }
            .make()
            .unwrap()
            .attach(&layers.dir("merged"))
            .unwrap();
        fs::write(layers.dir("merged/file"), "text").unwrap();
    });
    assert!(upper.join("file").exists());
}

#[test]
fn a_refusal_carries_the_kernels_own_words() {
    let layers = Layers::new();
    let (work, read_only) = (layers.dir("work"), layers.dir("merged"));
    without_touching_the_host(layers.scratch.path(), || {
        layers.lower("top").attach(&read_only).unwrap();
        let lowers = [layers.lower("bottom")];
        let text =
            Overlay { lowers: &lowers, upper: &read_only, work: &work }.make().unwrap_err().to_string();
        assert!(text.contains(&format!("{}: set upperdir", read_only.display())), "{text}");
        assert!(text.contains("the kernel says: overlay: ") && text.contains("read-only"), "{text}");
    });
}

#[test]
fn where_the_kernel_says_nothing_the_reader_is_sent_to_its_log() {
    let layers = Layers::new();
    let inside_upper = layers.dir("upper/work");
    fs::create_dir(&inside_upper).unwrap();
    let upper = layers.dir("upper");
    let error =
        Overlay { lowers: &[layers.lower("top")], upper: &upper, work: &inside_upper }.make().unwrap_err();
    assert!(error.to_string().contains("create it: Invalid argument"), "{error}");
    assert!(error.hint().unwrap().contains("dmesg"));
}

#[test]
fn a_missing_upper_layer_is_named() {
    let layers = Layers::new();
    let missing = layers.dir("missing");
    let work = layers.dir("work");
    let error = Overlay { lowers: &[layers.lower("top")], upper: &missing, work: &work }.make().unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("cannot open {}: No such file or directory (os error 2)", missing.display())
    );
}

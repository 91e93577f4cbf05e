//! Overlays from detached idmapped layers on the real kernel, given in both ways. Needs root.

use crate::common;

use std::env;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};

use common::{BASE, file_of, owner, release, userns, without_touching_the_host};
use kernel::{
    Access, DetachedMount, Error, FsOption, LayersGiven, MountPoints, Overlay, PrivateMountNamespace, Result,
    Submounts,
};
use rustix::io::Errno;
use tempfile::TempDir;

/// How an overlay is asked for.
#[derive(Debug, Clone, Copy)]
enum Way {
    AsTheKernelAllows,
    ByMountPoint,
}

const WAYS: [Way; 2] = [Way::AsTheKernelAllows, Way::ByMountPoint];

struct Layers {
    scratch: TempDir,
}

impl Layers {
    /// Not in /tmp: a tmpfs can be idmapped since Linux 6.3 only.
    fn new() -> Self {
        let parent = env::var_os("TMPDIR").map_or_else(|| PathBuf::from("/var/tmp"), PathBuf::from);
        let layers = Self { scratch: tempfile::tempdir_in(parent).unwrap() };
        for name in ["top", "bottom", "upper", "work", "points", "merged"] {
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

    fn make(
        &self,
        overlay: Overlay<'_>,
        way: Way,
        namespace: &PrivateMountNamespace,
    ) -> Result<DetachedMount> {
        let dir = self.dir("points");
        let points = MountPoints::new(&dir, namespace);
        match way {
            Way::AsTheKernelAllows => overlay.make(points).map(|(mount, _)| mount),
            Way::ByMountPoint => overlay.make_by_mount_point(points),
        }
    }

    fn merge(&self, names: &[&str], way: Way, namespace: &PrivateMountNamespace) {
        let (upper, work) = (self.dir("upper"), self.dir("work"));
        let lowers = names.iter().map(|name| self.lower(name)).collect();
        let made = self
            .make(Overlay { lowers, upper: &upper, work: &work, label: None, options: &[] }, way, namespace)
            .unwrap();
        made.attach(&self.dir("merged")).unwrap();
    }

    /// What becomes of an overlay with these two directories and one layer.
    fn refusal(&self, upper: &Path, work: &Path, way: Way) -> Error {
        let namespace = PrivateMountNamespace::enter().unwrap();
        let lowers = vec![self.lower("bottom")];
        let error = self
            .make(Overlay { lowers, upper, work, label: None, options: &[] }, way, &namespace)
            .unwrap_err();
        assert_eq!(mounts_below(self.scratch.path()), Vec::<String>::new(), "{error}");
        error
    }
}

fn append(path: &Path) {
    OpenOptions::new().append(true).open(path).unwrap().write_all(b" and more").unwrap();
}

/// The mounts of this thread's namespace that are at or below `dir`.
fn mounts_below(dir: &Path) -> Vec<String> {
    let mounts = fs::read_to_string("/proc/thread-self/mountinfo").unwrap();
    mounts.lines().filter(|line| line.contains(dir.to_str().unwrap())).map(str::to_owned).collect()
}

fn takes_descriptors() -> bool {
    let layers = Layers::new();
    let (upper, work) = (layers.dir("upper"), layers.dir("work"));
    Overlay { lowers: vec![layers.lower("top")], upper: &upper, work: &work, label: None, options: &[] }
        .make_by_descriptor()
        .is_ok()
}

#[test]
fn layers_are_given_by_descriptor_where_the_kernel_takes_them() {
    let layers = Layers::new();
    without_touching_the_host(layers.scratch.path(), |namespace| {
        let (upper, work, points) = (layers.dir("upper"), layers.dir("work"), layers.dir("points"));
        let overlay = Overlay {
            lowers: vec![layers.lower("top")],
            upper: &upper,
            work: &work,
            label: None,
            options: &[],
        };
        let (_, given) = overlay.make(MountPoints::new(&points, namespace)).unwrap();
        println!("Linux {:?} was given the layers {given}", release());
        assert_eq!(given == LayersGiven::ByDescriptor, takes_descriptors());
        assert_eq!(given == LayersGiven::ByDescriptor, release() >= (6, 13));
    });
}

/// So that the kernel waits once, for the namespace, and not once for each of them.
#[test]
fn layers_may_be_left_to_the_end_of_the_namespace() {
    let layers = Layers::new();
    without_touching_the_host(layers.scratch.path(), |namespace| {
        let (upper, work, points) = (layers.dir("upper"), layers.dir("work"), layers.dir("points"));
        let lowers = vec![layers.lower("top"), layers.lower("bottom")];
        let overlay = Overlay { lowers, upper: &upper, work: &work, label: None, options: &[] };
        let (made, given) = overlay.make(MountPoints::new(&points, namespace).leaving_layers()).unwrap();
        let left = if given == LayersGiven::ByDescriptor { 2 } else { 0 };
        assert_eq!(mounts_below(&points).len(), left);
        made.attach(&layers.dir("merged")).unwrap();
    });
}

/// Settings reach the kernel whichever way the layers do.
#[test]
fn settings_are_those_that_were_asked_for() {
    for way in WAYS {
        let layers = Layers::new();
        without_touching_the_host(layers.scratch.path(), |namespace| {
            let (upper, work) = (layers.dir("upper"), layers.dir("work"));
            let options = [FsOption::new("metacopy", "on"), FsOption::new("redirect_dir", "on")];
            let overlay = |options| {
                let lowers = vec![layers.lower("top")];
                layers.make(
                    Overlay { lowers, upper: &upper, work: &work, label: None, options },
                    way,
                    namespace,
                )
            };
            overlay(&options).unwrap().attach(&layers.dir("merged")).unwrap();
            assert!(mounts_below(&layers.dir("merged"))[0].contains("metacopy=on"));
            let refused = overlay(&[FsOption::new("no-such", "on")]).unwrap_err();
            assert!(matches!(refused, Error::Overlay { errno: Errno::INVAL, .. }), "{refused}");
        });
    }
}

#[test]
fn copy_up_keeps_the_mapped_owner_and_leaves_the_layer_alone() {
    for way in WAYS {
        let layers = Layers::new();
        file_of(&layers.dir("bottom/file"), 1000, 100);
        without_touching_the_host(layers.scratch.path(), |namespace| {
            layers.merge(&["top", "bottom"], way, namespace);
            let merged = layers.dir("merged");
            assert_eq!(owner(&merged), (BASE, BASE), "{way:?}");
            assert_eq!(owner(&merged.join("file")), (BASE + 1000, BASE + 100), "{way:?}");
            append(&merged.join("file"));
            assert_eq!(owner(&merged.join("file")), (BASE + 1000, BASE + 100), "{way:?}");
        });
        assert_eq!(owner(&layers.dir("upper/file")), (BASE + 1000, BASE + 100), "{way:?}");
        assert_eq!(owner(&layers.dir("bottom/file")), (1000, 100), "{way:?}");
        assert_eq!(fs::read_to_string(layers.dir("bottom/file")).unwrap(), "text", "{way:?}");
    }
}

#[test]
fn the_first_lower_layer_is_the_topmost() {
    for way in WAYS {
        let layers = Layers::new();
        fs::write(layers.dir("top/file"), "top").unwrap();
        fs::write(layers.dir("bottom/file"), "bottom").unwrap();
        without_touching_the_host(layers.scratch.path(), |namespace| {
            layers.merge(&["top", "bottom"], way, namespace);
            assert_eq!(fs::read_to_string(layers.dir("merged/file")).unwrap(), "top", "{way:?}");
        });
    }
}

#[test]
fn only_the_overlay_stays_mounted() {
    for way in WAYS {
        let layers = Layers::new();
        fs::write(layers.dir("points/file"), "the caller's").unwrap();
        without_touching_the_host(layers.scratch.path(), |namespace| {
            layers.merge(&["top", "bottom"], way, namespace);
            let mounts = mounts_below(layers.scratch.path());
            assert_eq!(mounts.len(), 1, "{way:?}: {mounts:?}");
            let left: Vec<_> =
                fs::read_dir(layers.dir("points")).unwrap().map(|e| e.unwrap().file_name()).collect();
            assert_eq!(left, ["file"], "{way:?}");
        });
    }
}

#[test]
fn paths_that_are_long_or_have_marks_of_their_own_are_taken_as_they_are() {
    for way in WAYS {
        let layers = Layers::new();
        let deep = format!("{}/{}/a\\b,c:d", "x".repeat(200), "y".repeat(200));
        let [upper, work, lower] = ["upper", "work", "lower"].map(|name| format!("{deep}/{name}"));
        for dir in [&upper, &work, &lower] {
            fs::create_dir_all(layers.dir(dir)).unwrap();
        }
        fs::write(layers.dir(&lower).join("below"), "text").unwrap();
        without_touching_the_host(layers.scratch.path(), |namespace| {
            let (upper, work) = (layers.dir(&upper), layers.dir(&work));
            let overlay = Overlay {
                lowers: vec![layers.lower(&lower)],
                upper: &upper,
                work: &work,
                label: None,
                options: &[],
            };
            layers.make(overlay, way, namespace).unwrap().attach(&layers.dir("merged")).unwrap();
            fs::write(layers.dir("merged/file"), "text").unwrap();
            assert!(layers.dir("merged/below").exists(), "{way:?}");
        });
        assert!(layers.dir(&upper).join("file").exists(), "{way:?}");
    }
}

#[test]
fn an_overlay_takes_as_many_layers_as_images_have() {
    for way in WAYS {
        let layers = Layers::new();
        let names: Vec<String> = (0..128).map(|number| format!("layer-{number}")).collect();
        for name in &names {
            fs::create_dir(layers.dir(name)).unwrap();
            fs::write(layers.dir(name).join(name), "text").unwrap();
        }
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        without_touching_the_host(layers.scratch.path(), |namespace| {
            layers.merge(&names, way, namespace);
            assert_eq!(fs::read_dir(layers.dir("merged")).unwrap().count(), 128, "{way:?}");
        });
    }
}

#[test]
fn mount_points_may_cover_the_upper_layer_itself() {
    let layers = Layers::new();
    without_touching_the_host(layers.scratch.path(), |namespace| {
        let (upper, work) = (layers.dir("upper"), layers.dir("work"));
        let overlay = Overlay {
            lowers: vec![layers.lower("top")],
            upper: &upper,
            work: &work,
            label: None,
            options: &[],
        };
        let points = MountPoints::new(layers.scratch.path(), namespace);
        overlay.make_by_mount_point(points).unwrap().attach(&layers.dir("merged")).unwrap();
        fs::write(layers.dir("merged/file"), "text").unwrap();
    });
    assert!(layers.dir("upper/file").exists());
}

#[test]
fn a_refusal_by_descriptor_carries_the_kernels_own_words() {
    let takes_descriptors = takes_descriptors();
    let layers = Layers::new();
    let (work, read_only) = (layers.dir("work"), layers.dir("merged"));
    without_touching_the_host(layers.scratch.path(), |_| {
        layers.lower("top").attach(&read_only).unwrap();
        let overlay = Overlay {
            lowers: vec![layers.lower("bottom")],
            upper: &read_only,
            work: &work,
            label: None,
            options: &[],
        };
        let error = overlay.make_by_descriptor().unwrap_err();
        let text = error.to_string();
        if takes_descriptors {
            assert!(text.contains(&format!("{}: set upperdir", read_only.display())), "{text}");
            assert!(text.contains("the kernel says: overlay: ") && text.contains("read-only"), "{text}");
        } else {
            assert!(text.contains(&format!("{}: set lowerdir+", read_only.display())), "{text}");
            assert!(error.hint().unwrap().contains("6.13"), "{error:?}");
        }
    });
}

#[test]
fn where_the_kernel_says_nothing_the_reader_is_sent_to_its_log() {
    for way in WAYS {
        let layers = Layers::new();
        let inside_upper = layers.dir("upper/work");
        fs::create_dir(&inside_upper).unwrap();
        let error = layers.refusal(&layers.dir("upper"), &inside_upper, way);
        assert!(error.to_string().contains("it: Invalid argument"), "{way:?}: {error}");
        assert!(error.hint().unwrap().contains("dmesg"), "{way:?}: {error}");
    }
}

#[test]
fn a_missing_upper_layer_is_named() {
    for way in WAYS {
        let layers = Layers::new();
        let missing = layers.dir("missing");
        let error = layers.refusal(&missing, &layers.dir("work"), way);
        let text = format!("cannot open {}: No such file or directory (os error 2)", missing.display());
        assert_eq!(error.to_string(), text, "{way:?}");
    }
}

#[test]
fn a_missing_directory_for_mount_points_is_named() {
    let layers = Layers::new();
    fs::remove_dir(layers.dir("points")).unwrap();
    let error = layers.refusal(&layers.dir("upper"), &layers.dir("work"), Way::ByMountPoint);
    assert!(matches!(&error, Error::MountPoints { dir, .. } if *dir == layers.dir("points")), "{error}");
}

#[test]
fn more_layers_than_one_mount_can_be_told_of_are_refused_not_cut_off() {
    let layers = Layers::new();
    let (upper, work) = (layers.dir("upper"), layers.dir("work"));
    without_touching_the_host(layers.scratch.path(), |namespace| {
        let lowers = (0..200).map(|_| layers.lower("top")).collect();
        let overlay = Overlay { lowers, upper: &upper, work: &work, label: None, options: &[] };
        let error = layers.make(overlay, Way::ByMountPoint, namespace).unwrap_err();
        assert!(error.to_string().ends_with("200 lower layers are too many"), "{error}");
    });
}

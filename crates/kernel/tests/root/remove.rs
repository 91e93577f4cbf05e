//! Trees with mounts in them are not removed, whenever the mount appears. Needs root.

use crate::common;

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use common::{rounds, under_attack, without_touching_the_host};
use kernel::{DetachedMount, Dir, Error, MountTable, Source, Submounts, Unmount};
use rustix::fs::{IFlags, ioctl_getflags, ioctl_setflags};
use rustix::io::Errno;
use tempfile::TempDir;

/// How often a careless removal may be lucky before the race counts as none.
const PATIENCE: usize = 100_000;

struct Place {
    scratch: TempDir,
}

impl Place {
    /// `volume/tree` with some files, and `outside` with one that must stay.
    fn new() -> Self {
        let place = Self { scratch: tempfile::tempdir_in("/var/tmp").unwrap() };
        fs::create_dir_all(place.at("outside/deep")).unwrap();
        fs::create_dir_all(place.at("volume")).unwrap();
        place.refill();
        fs::write(place.at("outside/file"), "precious").unwrap();
        place
    }

    fn refill(&self) {
        fs::create_dir_all(self.at("volume/tree/sub")).unwrap();
        for name in ["a", "sub/b", "sub/c"] {
            fs::write(self.at("volume/tree").join(name), "").unwrap();
        }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.scratch.path().join(path)
    }

    fn bind_outside(&self, over: &Path) -> kernel::Result<()> {
        let outside = self.at("outside");
        DetachedMount::clone_of(Source::Path(&outside), Submounts::Without)?.attach(over)
    }

    fn remove(&self) -> kernel::Result<kernel::Removed> {
        Dir::open(&self.at("volume")).unwrap().remove_tree(OsStr::new("tree"))
    }

    fn is_precious_there(&self) -> bool {
        fs::read_to_string(self.at("outside/file")).is_ok_and(|text| text == "precious")
    }
}

#[test]
fn a_mount_below_keeps_the_whole_tree() {
    let place = Place::new();
    without_touching_the_host(place.scratch.path(), |_| {
        let point = place.at("volume/tree/sub");
        place.bind_outside(&point).unwrap();
        let error = place.remove().unwrap_err();
        assert_eq!(error, Error::MountInTheWay { path: point.clone() });
        assert!(error.hint().unwrap().contains("unmount"));
        assert!(place.at("volume/tree/a").exists());
        kernel::unmount(&point, Unmount::Now).unwrap();
        assert_eq!(place.remove().unwrap().others, 3);
    });
    assert!(place.is_precious_there());
}

#[test]
fn a_mount_over_a_file_or_over_the_tree_itself_keeps_it_as_well() {
    let place = Place::new();
    without_touching_the_host(place.scratch.path(), |_| {
        let file = place.at("volume/tree/a");
        let precious = place.at("outside/file");
        let clone = DetachedMount::clone_of(Source::Path(&precious), Submounts::Without).unwrap();
        clone.attach(&file).unwrap();
        assert_eq!(place.remove().unwrap_err(), Error::MountInTheWay { path: file.clone() });
        kernel::unmount(&file, Unmount::Now).unwrap();
        let tree = place.at("volume/tree");
        place.bind_outside(&tree).unwrap();
        assert_eq!(place.remove().unwrap_err(), Error::MountInTheWay { path: tree.clone() });
    });
    assert!(place.is_precious_there() && place.at("volume/tree/sub/c").exists());
}

/// The mount table is read by path, which a directory that was moved since it was opened belies: the
/// kernel's own refusal must do alone.
#[test]
fn a_mount_that_the_table_does_not_show_is_not_entered() {
    let place = Place::new();
    without_touching_the_host(place.scratch.path(), |_| {
        let point = place.at("volume/tree/sub");
        place.bind_outside(&point).unwrap();
        let volume = Dir::open(&place.at("volume")).unwrap();
        // What lies under a cover has no path of its own.
        place.bind_outside(&place.at("volume")).unwrap();
        let error = volume.remove_tree(OsStr::new("tree")).unwrap_err();
        assert!(matches!(error, Error::MountInTheWay { .. }), "{error}");
    });
    assert!(place.is_precious_there());
}

#[test]
fn nothing_outside_is_removed_while_a_mount_comes_and_goes() {
    let place = Place::new();
    without_touching_the_host(place.scratch.path(), |_| {
        let point = place.at("volume/tree/sub");
        // Threads that are started here share this mount namespace.
        let attack = || {
            if place.bind_outside(&point).is_ok() {
                let _ = kernel::unmount(&point, Unmount::Lazy);
            }
        };
        let careless = || {
            place.refill();
            let _ = careless_remove(&place.at("volume/tree"));
            !place.is_precious_there()
        };
        let (met, escaped) = under_attack(attack, || {
            let mut met = 0;
            for _ in 0..rounds() * 100 {
                let _ = fs::create_dir_all(place.at("volume/tree/sub"));
                // Through the mount, at times: that is not ours to prevent here.
                for name in ["a", "sub/b", "sub/c"] {
                    let _ = fs::write(place.at("volume/tree").join(name), "");
                }
                match place.remove() {
                    Ok(_) => {}
                    // The second: the mount was there, and gone when it was looked for.
                    Err(Error::MountInTheWay { .. } | Error::Remove { errno: Errno::BUSY, .. }) => met += 1,
                    Err(error) => panic!("{error}"),
                }
                assert!(place.is_precious_there(), "removed through the mount");
            }
            (met, (0..PATIENCE).any(|_| careless()))
        });
        println!("{met} removals met a mount");
        assert!(met > 0 && escaped, "the careless way must lose this race ({met} met)");
        while MountTable::read().unwrap().at(&point).is_some() {
            kernel::unmount(&point, Unmount::Lazy).unwrap();
        }
    });
}

/// As the standard library and `rm -r` do it: by descriptor and without following links, but into mounts.
fn careless_remove(path: &Path) -> std::io::Result<()> {
    fs::remove_dir_all(path)
}

#[test]
fn what_cannot_be_removed_is_named() {
    let place = Place::new();
    let file = place.at("volume/tree/sub/b");
    let open = fs::File::open(&file).unwrap();
    let flags = ioctl_getflags(&open).unwrap();
    ioctl_setflags(&open, flags | IFlags::IMMUTABLE).unwrap();
    let outcome = place.remove();
    ioctl_setflags(&open, flags).unwrap();
    let error = outcome.unwrap_err();
    assert!(matches!(&error, Error::Remove { path, .. } if *path == file), "{error}");
    place.remove().unwrap();
}

//! Somebody swaps files, directories and links while a path is walked (CVE-2017-1002101, CVE-2018-15664,
//! CVE-2021-25741, CVE-2021-30465). Each race is also run by the usual check and use of a path, which must
//! lose it: else the race would prove nothing. Needs no root.

use crate::common;

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Component, Path, PathBuf};

use common::{rounds, under_attack};
use kernel::{Dir, DirMode, Error, LastLink, Within};
use rustix::fs::{CWD, OFlags, RenameFlags, renameat_with};
use tempfile::TempDir;

/// How often a careless walk may be lucky before the race counts as none.
const PATIENCE: usize = 2_000_000;

struct Place {
    scratch: TempDir,
}

impl Place {
    /// `volume/sub/file` says "inside"; `volume/evil` is a link to `outside`, where `file` says "outside".
    fn new() -> Self {
        // In memory: a disk would only slow the race down.
        let place = Self { scratch: tempfile::tempdir_in("/dev/shm").unwrap() };
        fs::create_dir_all(place.at("volume/sub/deep")).unwrap();
        fs::create_dir_all(place.at("outside/deep")).unwrap();
        fs::write(place.at("volume/sub/file"), "inside").unwrap();
        fs::write(place.at("outside/file"), "outside").unwrap();
        symlink(place.at("outside"), place.at("volume/evil")).unwrap();
        place
    }

    fn at(&self, path: &str) -> PathBuf {
        self.scratch.path().join(path)
    }

    fn volume(&self) -> Dir {
        Dir::open(&self.at("volume")).unwrap()
    }

    /// Directory and link change places.
    fn swap(&self) {
        let (sub, evil) = (self.at("volume/sub"), self.at("volume/evil"));
        renameat_with(CWD, &sub, CWD, &evil, RenameFlags::EXCHANGE).unwrap();
    }
}

/// As it is usually done: resolve, check that the result is inside, then use the path.
fn careless_open(root: &Path, rel: &Path) -> io::Result<fs::File> {
    let real = fs::canonicalize(root.join(rel))?;
    if !real.starts_with(root) {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    fs::File::open(root.join(rel))
}

/// As a resolver in user space does it: part by part, each opened from the one before, no link followed.
fn careless_steps(root: &Path, rel: &Path) -> io::Result<u64> {
    let mut at = fs::File::open(root)?;
    for part in rel.components() {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        at = rustix::fs::openat(&at, part.as_os_str(), flags, rustix::fs::Mode::empty())?.into();
    }
    Ok(at.metadata()?.ino())
}

fn careless_make_dirs(root: &Path, rel: &Path) -> io::Result<()> {
    let mut path = root.to_owned();
    for component in rel.components() {
        let Component::Normal(name) = component else { return Err(io::ErrorKind::InvalidInput.into()) };
        path.push(name);
        if fs::symlink_metadata(&path).is_ok_and(|meta| meta.is_symlink()) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        match fs::create_dir(&path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Looks at each entry and goes down into what was a directory then.
fn careless_remove(path: &Path) -> io::Result<()> {
    for entry in fs::read_dir(path)? {
        let path = entry?.path();
        if fs::symlink_metadata(&path)?.is_dir() {
            careless_remove(&path)?;
        } else {
            fs::remove_file(&path)?;
        }
    }
    fs::remove_dir(path)
}

fn text(mut file: fs::File) -> String {
    let mut text = String::new();
    file.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn no_open_escapes_while_a_directory_and_a_link_change_places() {
    let place = Place::new();
    let (volume, root) = (place.volume(), fs::canonicalize(place.at("volume")).unwrap());
    let path = Path::new("sub/file");
    let careful = || match volume.node(path, Within::Beneath, LastLink::Follow) {
        Ok(node) => Some(text(node.reopen(OFlags::RDONLY).unwrap())),
        Err(Error::Below { .. }) => None,
        Err(error) => panic!("{error}"),
    };
    let careless = || careless_open(&root, path).is_ok_and(|file| text(file) == "outside");
    under_attack(
        || place.swap(),
        || {
            let read: Vec<String> = (0..rounds() * 1_000).filter_map(|_| careful()).collect();
            assert!(!read.is_empty(), "the path was never there");
            assert!(read.iter().all(|text| text == "inside"));
            assert!((0..PATIENCE).any(|_| careless()), "the careless way must lose this race");
        },
    );
}

#[test]
fn no_dots_escape_while_a_directory_is_moved_out() {
    let place = Place::new();
    let volume = place.volume();
    let (deep, away) = (place.at("volume/sub/deep"), place.at("outside/moved"));
    let secret = fs::metadata(place.at("outside/file")).unwrap().ino();
    let path = Path::new("sub/deep/../file");
    let careful = |within| match volume.node(path, within, LastLink::Follow) {
        Ok(node) => node.stat().unwrap().ino == secret,
        Err(_) => false,
    };
    let careless = || careless_steps(&place.at("volume"), path).is_ok_and(|ino| ino == secret);
    let attack = || {
        fs::rename(&deep, &away).unwrap();
        fs::rename(&away, &deep).unwrap();
    };
    under_attack(attack, || {
        let escaped = (0..rounds() * 1_000).any(|_| careful(Within::Beneath) || careful(Within::AsRoot));
        assert!(!escaped);
        assert!((0..PATIENCE).any(|_| careless()), "the careless way must lose this race");
    });
}

#[test]
fn no_directory_is_made_outside_while_a_directory_and_a_link_change_places() {
    let place = Place::new();
    let (volume, root) = (place.volume(), place.at("volume"));
    let like = DirMode { mode: 0o700, owner: None };
    let outside = || fs::read_dir(place.at("outside")).unwrap().count();
    let careless = |round| {
        let _ = careless_make_dirs(&root, Path::new(&format!("sub/bad-{round}")));
        outside() > 2
    };
    under_attack(
        || place.swap(),
        || {
            for round in 0..rounds() * 300 {
                // Whether it succeeds is a matter of luck.
                let _ = volume.make_dirs(Path::new(&format!("sub/new-{round}/below")), like);
            }
            assert_eq!(outside(), 2, "something was made outside");
            assert!((0..PATIENCE).any(careless), "the careless way must lose this race");
        },
    );
}

#[test]
fn nothing_outside_is_removed_while_a_directory_and_a_link_change_places() {
    let place = Place::new();
    let volume = place.volume();
    let tree = place.at("volume/tree");
    // Many of them, so that a careless removal has many chances to go wrong.
    let pairs: Vec<_> =
        (0..16).map(|n| (tree.join(format!("sub-{n}")), tree.join(format!("evil-{n}")))).collect();
    let fill = || {
        for (sub, evil) in &pairs {
            fs::create_dir_all(sub).unwrap();
            symlink(place.at("outside"), evil).unwrap();
        }
    };
    // Sooner or later in each round all are gone.
    let attack = || {
        for (sub, evil) in &pairs {
            let _ = renameat_with(CWD, sub, CWD, evil, RenameFlags::EXCHANGE);
        }
    };
    let careless = || {
        fill();
        let _ = careless_remove(&tree);
        let escaped = !place.at("outside/file").exists();
        volume.remove_tree(OsStr::new("tree")).unwrap();
        escaped
    };
    under_attack(attack, || {
        for _ in 0..rounds() * 40 {
            fill();
            volume.remove_tree(OsStr::new("tree")).unwrap();
        }
        assert!(place.at("outside/file").exists() && place.at("outside/deep").exists());
        assert!((0..PATIENCE).any(|_| careless()), "the careless way must lose this race");
    });
}

//! Paths below a directory that is held open. Needs no root.

use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;

use kernel::{Dir, DirMode, Error, Kind, LastLink, Removed, Within};
use rustix::fs::OFlags;
use rustix::io::Errno;
use tempfile::TempDir;

const PLAIN: DirMode = DirMode { mode: 0o755, owner: None };

/// `inside` with a file, a directory and links of all sorts; `outside` with a secret.
struct Place {
    scratch: TempDir,
    dir: Dir,
}

impl Place {
    fn new() -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let (inside, outside) = (scratch.path().join("inside"), scratch.path().join("outside"));
        fs::create_dir_all(inside.join("sub")).unwrap();
        fs::create_dir(&outside).unwrap();
        fs::write(inside.join("sub/file"), "inside").unwrap();
        fs::write(outside.join("file"), "outside").unwrap();
        symlink("sub/file", inside.join("link")).unwrap();
        symlink("/sub/file", inside.join("absolute")).unwrap();
        symlink("../outside/file", inside.join("up")).unwrap();
        symlink(outside.join("file"), inside.join("away")).unwrap();
        let dir = Dir::open(&inside).unwrap();
        Self { scratch, dir }
    }

    fn read(&self, path: &str, within: Within) -> Result<String, Errno> {
        let node = match self.dir.node(Path::new(path), within, LastLink::Follow) {
            Ok(node) => node,
            Err(Error::Below { errno, .. }) => return Err(errno),
            Err(error) => panic!("{error}"),
        };
        let mut text = String::new();
        node.reopen(OFlags::RDONLY).unwrap().read_to_string(&mut text).unwrap();
        Ok(text)
    }
}

#[test]
fn what_leads_outside_is_an_error_beneath_and_stays_inside_as_root() {
    let place = Place::new();
    // Only here: where things are removed, no link leads to what a mistake would cost.
    symlink("/", place.dir.path().join("root")).unwrap();
    let inside = || Ok("inside".to_owned());
    for (path, beneath, as_root, no_links) in [
        ("sub/file", inside(), inside(), inside()),
        ("sub/../sub/file", inside(), inside(), inside()),
        ("link", inside(), inside(), Err(Errno::LOOP)),
        ("absolute", Err(Errno::XDEV), inside(), Err(Errno::LOOP)),
        ("/sub/file", Err(Errno::XDEV), inside(), Err(Errno::XDEV)),
        ("up", Err(Errno::XDEV), Err(Errno::NOENT), Err(Errno::LOOP)),
        ("away", Err(Errno::XDEV), Err(Errno::NOENT), Err(Errno::LOOP)),
        ("../outside/file", Err(Errno::XDEV), Err(Errno::NOENT), Err(Errno::XDEV)),
        ("../inside/sub/file", Err(Errno::XDEV), Err(Errno::NOENT), Err(Errno::XDEV)),
        ("../../../../sub/file", Err(Errno::XDEV), inside(), Err(Errno::XDEV)),
        ("root/sub/file", Err(Errno::XDEV), inside(), Err(Errno::LOOP)),
        ("root/etc/passwd", Err(Errno::XDEV), Err(Errno::NOENT), Err(Errno::LOOP)),
    ] {
        assert_eq!(place.read(path, Within::Beneath), beneath, "{path} beneath");
        assert_eq!(place.read(path, Within::AsRoot), as_root, "{path} as root");
        assert_eq!(place.read(path, Within::NoLinks), no_links, "{path} without links");
    }
}

#[test]
fn an_escape_is_said_to_be_one() {
    let place = Place::new();
    let error = place.dir.node(Path::new("up"), Within::Beneath, LastLink::Follow).unwrap_err();
    let inside = place.scratch.path().join("inside");
    let text = format!("cannot open up below {}: Invalid cross-device link (os error 18)", inside.display());
    assert_eq!(error.to_string(), text);
    assert_eq!(error.hint(), Some("the path leads outside of the directory"));
}

/// `root`, `cwd` and `fd/N` in /proc are no paths but jumps.
#[test]
fn magic_links_are_never_followed() {
    let own = Dir::open(Path::new("/proc/self")).unwrap();
    for within in [Within::Beneath, Within::AsRoot, Within::NoLinks] {
        for path in ["root/etc", "cwd", "exe", "fd/0"] {
            let error = own.node(Path::new(path), within, LastLink::Follow).unwrap_err();
            assert!(matches!(error, Error::Below { errno: Errno::LOOP, .. }), "{path} {within:?}: {error}");
        }
    }
    assert!(matches!(Dir::open(Path::new("/proc/self/root")), Err(Error::Open { errno: Errno::LOOP, .. })));
}

#[test]
fn only_absolute_paths_are_opened() {
    assert_eq!(Dir::open(Path::new("etc")).unwrap_err(), Error::NotAbsolute { path: "etc".into() });
}

#[test]
fn a_link_can_be_kept_and_is_then_no_file() {
    let place = Place::new();
    let link = place.dir.node(Path::new("up"), Within::Beneath, LastLink::Keep).unwrap();
    assert_eq!(link.stat().unwrap().kind, Kind::Symlink);
    assert!(matches!(link.reopen(OFlags::RDONLY), Err(Error::Open { errno: Errno::LOOP, .. })));
}

#[test]
fn a_directory_stays_itself_when_its_path_leads_elsewhere() {
    let place = Place::new();
    let (inside, moved) = (place.scratch.path().join("inside"), place.scratch.path().join("moved"));
    let sub = place.dir.node(Path::new("sub"), Within::NoLinks, LastLink::Keep).unwrap();
    fs::rename(&inside, &moved).unwrap();
    symlink(place.scratch.path().join("outside"), &inside).unwrap();
    assert_eq!(place.read("sub/file", Within::Beneath).unwrap(), "inside");
    let found = sub.open_dir().unwrap().stat().unwrap();
    assert!(
        found.same_file(&sub.stat().unwrap()) && found.ino == fs::metadata(moved.join("sub")).unwrap().ino()
    );
}

#[test]
fn entries_are_listed_with_their_kinds() {
    let place = Place::new();
    let mut entries = place.dir.entries().unwrap();
    entries.sort_by(|one, other| one.name.cmp(&other.name));
    let found: Vec<_> = entries.iter().map(|entry| (entry.name.to_str().unwrap(), entry.kind)).collect();
    let link = Kind::Symlink;
    let expected =
        [("absolute", link), ("away", link), ("link", link), ("sub", Kind::Directory), ("up", link)];
    assert_eq!(found, expected);
    // Again, from the start.
    assert_eq!(place.dir.entries().unwrap().len(), expected.len());
}

#[test]
fn missing_directories_get_the_exact_mode_and_others_keep_theirs() {
    let place = Place::new();
    place.dir.make_dirs(Path::new("sub/a/b"), DirMode { mode: 0o2777, owner: None }).unwrap();
    let mode = |path: &str| fs::metadata(place.dir.path().join(path)).unwrap().mode() & 0o7777;
    let before = fs::metadata(place.scratch.path().join("outside")).unwrap().mode() & 0o7777;
    assert_eq!((mode("sub"), mode("sub/a"), mode("sub/a/b")), (before, 0o2777, 0o2777));
    let again = place.dir.make_dirs(Path::new("sub/a/b"), PLAIN).unwrap();
    assert_eq!(mode("sub/a/b"), 0o2777);
    again.sync().unwrap();
}

#[test]
fn directories_are_made_through_no_link_and_no_dots() {
    let place = Place::new();
    symlink("../outside", place.dir.path().join("out")).unwrap();
    let make = |path: &str| place.dir.make_dirs(Path::new(path), PLAIN);
    assert!(matches!(make("out/x"), Err(Error::Below { errno: Errno::LOOP, .. })));
    for path in ["../x", "sub/../../x", "/x"] {
        assert!(matches!(make(path), Err(Error::NotAName { .. })), "{path}");
    }
    assert!(matches!(make("sub/file/x"), Err(Error::Below { errno: Errno::NOTDIR, .. })));
    assert_eq!(fs::read_dir(place.scratch.path().join("outside")).unwrap().count(), 1);
    for name in ["..", ".", "a/b", "", "/"] {
        let made = place.dir.make_dir(OsStr::new(name), PLAIN);
        assert!(matches!(made, Err(Error::NotAName { .. })), "{name}");
    }
    place.dir.make_dir(OsStr::new("new"), PLAIN).unwrap();
    let error = place.dir.make_dir(OsStr::new("new"), PLAIN).unwrap_err();
    assert!(matches!(error, Error::MakeDir { errno: Errno::EXIST, .. }), "{error}");
}

#[test]
fn a_tree_is_removed_with_its_links_and_not_what_they_lead_to() {
    let place = Place::new();
    let parent = Dir::open(place.scratch.path()).unwrap();
    let removed = parent.remove_tree(OsStr::new("inside")).unwrap();
    assert_eq!(removed, Removed { directories: 2, others: 5 });
    assert!(!place.scratch.path().join("inside").exists());
    assert_eq!(fs::read_to_string(place.scratch.path().join("outside/file")).unwrap(), "outside");
    assert_eq!(parent.remove_tree(OsStr::new("inside")).unwrap(), Removed::default());
}

#[test]
fn a_link_or_a_file_is_removed_as_such() {
    let place = Place::new();
    for name in ["away", "up"] {
        assert_eq!(place.dir.remove_tree(OsStr::new(name)).unwrap().others, 1);
    }
    assert!(place.scratch.path().join("outside/file").exists());
    for name in ["..", ".", "sub/file", ""] {
        assert!(matches!(place.dir.remove_tree(OsStr::new(name)), Err(Error::NotAName { .. })), "{name}");
    }
    assert!(place.dir.path().join("sub/file").exists());
}

/// A pod can nest directories until no path is long enough to name them.
#[test]
fn a_tree_deeper_than_any_path_is_removed() {
    const DEEP: u32 = 300;
    let scratch = tempfile::tempdir().unwrap();
    let top = Dir::open(scratch.path()).unwrap();
    let mut dir = top.make_dir(OsStr::new("deep"), PLAIN).unwrap();
    for number in 1..DEEP {
        rustix::fs::openat(&dir, "file", OFlags::CREATE | OFlags::CLOEXEC, 0o600.into()).unwrap();
        dir = dir.make_dir(OsStr::new(&format!("{number:0200}")), PLAIN).unwrap();
    }
    let removed = top.remove_tree(OsStr::new("deep")).unwrap();
    assert_eq!(removed, Removed { directories: DEEP.into(), others: (DEEP - 1).into() });
    assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 0);
}

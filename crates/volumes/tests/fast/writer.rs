//! The atomic writer, as whoever runs the test: what it makes, what it leaves alone, what it repairs.

use crate::trees;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use proptest::prelude::*;
use tempfile::{TempDir, tempdir};
use trees::{check_tidy, file, own_ids, payload, payload_of, seen, snapshot, write};
use volumes::writer::{Error, Writer, Written};

/// Puts something into a directory.
type Plant = fn(&Path);
type PlantAt<'a> = Box<dyn Fn(&Path) + 'a>;

fn written(files: &[(&str, &str, u32)]) -> TempDir {
    let dir = tempdir().unwrap();
    assert_eq!(write(dir.path(), &payload(files)).unwrap(), Written::Replaced);
    dir
}

fn set_of(dir: &Path) -> String {
    fs::read_link(dir.join("..data")).unwrap().to_str().unwrap().to_owned()
}

fn inodes(dir: &Path) -> Vec<(String, u64, i64)> {
    let mut found: Vec<_> = snapshot(dir)
        .into_keys()
        .map(|name| {
            let meta = fs::symlink_metadata(dir.join(&name)).unwrap();
            (name, meta.ino(), meta.ctime_nsec())
        })
        .collect();
    found.sort();
    found
}

#[test]
fn the_layout_is_upstreams() {
    let dir = written(&[("a", "1", 0o644), ("d/e/f", "2", 0o400), ("d/g", "3", 0o4711)]);
    let (me, set) = (rustix::process::geteuid().as_raw(), set_of(dir.path()));
    let group = rustix::process::getegid().as_raw();
    let owner = format!("{me}:{group}");
    let mut found = snapshot(dir.path());
    found.remove(".");
    let wanted = [
        ("..data", format!("link {owner} -> {set}")),
        (&set, format!("dir 0755 {owner}")),
        (&format!("{set}/a"), format!("file 0644 {owner} 1")),
        (&format!("{set}/d"), format!("dir 0755 {owner}")),
        (&format!("{set}/d/e"), format!("dir 0755 {owner}")),
        (&format!("{set}/d/e/f"), format!("file 0400 {owner} 2")),
        (&format!("{set}/d/g"), format!("file 4711 {owner} 3")),
        ("a", format!("link {owner} -> ..data/a")),
        ("d", format!("link {owner} -> ..data/d")),
    ];
    assert_eq!(found, wanted.map(|(k, v)| (k.to_owned(), v)).into());
    check_tidy(dir.path());
}

#[test]
fn nothing_changed_means_nothing_written() {
    let files = [("a", "1", 0o644), ("d/e", "2", 0o400)];
    let dir = written(&files);
    let before = inodes(dir.path());
    assert_eq!(write(dir.path(), &payload(&files)).unwrap(), Written::Nothing);
    assert_eq!(inodes(dir.path()), before);
}

#[test]
fn an_empty_volume_has_a_set_too() {
    let dir = written(&[]);
    assert!(seen(dir.path()).is_empty());
    check_tidy(dir.path());
    assert_eq!(write(dir.path(), &payload(&[])).unwrap(), Written::Nothing);
}

#[test]
fn a_change_of_content_mode_or_names_makes_a_new_set() {
    let changes: [&[(&str, &str, u32)]; 5] = [
        &[("a", "1", 0o644), ("b", "2", 0o644)],
        &[("a", "1", 0o644), ("b", "3", 0o644)],
        // The mode alone: upstream leaves the old one.
        &[("a", "1", 0o600), ("b", "3", 0o644)],
        &[("a", "1", 0o600)],
        &[("a/b", "1", 0o600), ("c", "", 0o444)],
    ];
    let dir = tempdir().unwrap();
    let mut sets = vec![];
    for files in changes {
        assert_eq!(write(dir.path(), &payload(files)).unwrap(), Written::Replaced);
        sets.push(set_of(dir.path()));
        let wanted: BTreeMap<_, _> =
            files.iter().map(|(p, c, _)| ((*p).to_owned(), (*c).to_owned())).collect();
        assert_eq!(seen(dir.path()), wanted);
        for (path, _, bits) in files {
            assert_eq!(fs::metadata(dir.path().join(path)).unwrap().mode() & 0o7777, *bits);
        }
        check_tidy(dir.path());
    }
    sets.dedup();
    assert_eq!(sets.len(), changes.len());
}

#[test]
fn what_somebody_changed_in_the_set_is_put_right() {
    let files = [("a", "1", 0o644), ("d/e", "2", 0o644)];
    let spoils: [Plant; 7] = [
        |set| fs::write(set.join("a"), "other").unwrap(),
        |set| fs::write(set.join("a"), "2").unwrap(),
        |set| fs::set_permissions(set.join("d/e"), fs::Permissions::from_mode(0o600)).unwrap(),
        |set| fs::write(set.join("d/extra"), "").unwrap(),
        |set| fs::remove_file(set.join("d/e")).unwrap(),
        |set| {
            fs::remove_file(set.join("a")).unwrap();
            symlink("d/e", set.join("a")).unwrap();
        },
        |set| fs::set_permissions(set, fs::Permissions::from_mode(0o700)).unwrap(),
    ];
    for spoil in spoils {
        let dir = written(&files);
        spoil(&dir.path().join(set_of(dir.path())));
        assert_eq!(write(dir.path(), &payload(&files)).unwrap(), Written::Replaced);
        assert_eq!(seen(dir.path())["a"], "1");
        check_tidy(dir.path());
        assert_eq!(write(dir.path(), &payload(&files)).unwrap(), Written::Nothing);
    }
}

/// Upstream's writer fails on it for ever.
#[test]
fn a_leftover_of_an_unfinished_swap_is_repaired() {
    let files = [("a", "1", 0o644)];
    let dir = written(&files);
    symlink("..2016_02_01_15_04_05.12345678", dir.path().join("..data_tmp")).unwrap();
    assert_eq!(write(dir.path(), &payload(&files)).unwrap(), Written::Repaired);
    check_tidy(dir.path());
    symlink("..2016_02_01_15_04_05.12345678", dir.path().join("..data_tmp")).unwrap();
    assert_eq!(write(dir.path(), &payload(&[("a", "2", 0o644)])).unwrap(), Written::Replaced);
    check_tidy(dir.path());
}

#[test]
fn sets_that_nothing_leads_to_are_removed_and_foreign_names_are_kept() {
    let files = [("a", "1", 0o644)];
    let dir = written(&files);
    let leftover = dir.path().join("..2016_02_01_15_04_05.12345678");
    fs::create_dir_all(leftover.join("d")).unwrap();
    fs::write(leftover.join("d/e"), "old").unwrap();
    for name in ["mount-point", "..other"] {
        fs::create_dir(dir.path().join(name)).unwrap();
    }
    symlink("/etc/passwd", dir.path().join("foreign")).unwrap();
    symlink("..data/b", dir.path().join("stale-but-not-ours")).unwrap();
    symlink("..data/gone", dir.path().join("gone")).unwrap();
    assert_eq!(write(dir.path(), &payload(&files)).unwrap(), Written::Repaired);
    let left = snapshot(dir.path());
    assert!(!leftover.exists() && !left.contains_key("gone"));
    for name in ["mount-point", "..other", "foreign", "stale-but-not-ours"] {
        assert!(left.contains_key(name), "{name} was not made by the writer");
    }
    assert_eq!(write(dir.path(), &payload(&files)).unwrap(), Written::Nothing);
}

#[test]
fn a_name_that_is_taken_is_named_and_nothing_is_touched() {
    let plants: [(&str, Plant); 4] = [
        ("file", |at| fs::write(at, "mine").unwrap()),
        ("directory", |at| fs::create_dir(at).unwrap()),
        ("symbolic link", |at| symlink("/etc", at).unwrap()),
        ("symbolic link", |at| symlink("..data/../..", at).unwrap()),
    ];
    for (word, plant) in plants {
        let dir = written(&[("a", "1", 0o644)]);
        plant(&dir.path().join("b"));
        let before = snapshot(dir.path());
        let error = write(dir.path(), &payload(&[("a", "2", 0o644), ("b", "3", 0o644)])).unwrap_err();
        assert!(matches!(error, Error::InTheWay { .. }), "{error}");
        assert!(error.to_string().contains(&format!("b is in the way: a {word}")), "{error}");
        assert!(error.hint().is_some());
        assert_eq!(snapshot(dir.path()), before);
    }
}

/// The volume may be writable for the pod: what it plants at the writer's own names is replaced, and
/// what its links lead to is never touched.
#[test]
fn what_a_pod_plants_at_the_writers_names_never_leads_outside() {
    let outside = tempdir().unwrap();
    fs::create_dir(outside.path().join("d")).unwrap();
    fs::write(outside.path().join("d/a"), "precious").unwrap();
    let target = outside.path().join("d").to_str().unwrap().to_owned();
    let stamp = "..2016_02_01_15_04_05.12345678";
    let plants: Vec<PlantAt<'_>> = vec![
        Box::new(|dir| link(&target, dir, "..data")),
        Box::new(|dir| link("../../../etc", dir, "..data")),
        Box::new(|dir| {
            link(&target, dir, stamp);
            link(stamp, dir, "..data");
        }),
        Box::new(|dir| {
            link(&target, dir, "..data_tmp");
            link(stamp, dir, "..data");
        }),
        Box::new(|dir| {
            fs::create_dir_all(dir.join("..data/x")).unwrap();
            symlink(&target, dir.join("..data/x/a")).unwrap();
        }),
        Box::new(|dir| {
            fs::create_dir_all(dir.join("..data_tmp")).unwrap();
            symlink(&target, dir.join("..data_tmp/a")).unwrap();
        }),
        Box::new(|dir| fs::write(dir.join("..data"), "a file").unwrap()),
        Box::new(|dir| {
            // A set of the right form with links in it.
            fs::create_dir_all(dir.join(stamp)).unwrap();
            symlink(format!("{target}/a"), dir.join(stamp).join("a")).unwrap();
            symlink(&target, dir.join(stamp).join("d")).unwrap();
            link(stamp, dir, "..data");
        }),
        Box::new(|dir| {
            fs::create_dir_all(dir.join(stamp)).unwrap();
            let made = std::process::Command::new("mkfifo").arg(dir.join(stamp).join("a")).status().unwrap();
            assert!(made.success());
            link(stamp, dir, "..data");
        }),
    ];
    let before = snapshot(outside.path());
    for (number, plant) in plants.iter().enumerate() {
        let dir = tempdir().unwrap();
        plant(dir.path());
        let files = [("a", "1", 0o600), ("d/e", "2", 0o600)];
        assert_eq!(write(dir.path(), &payload(&files)).unwrap(), Written::Replaced, "plant {number}");
        let wanted = BTreeMap::from([("a", "1"), ("d/e", "2")].map(|(k, v)| (k.to_owned(), v.to_owned())));
        assert_eq!(seen(dir.path()), wanted, "plant {number}");
        assert_eq!(snapshot(outside.path()), before, "plant {number}");
    }
}

fn link(target: &str, dir: &Path, name: &str) {
    symlink(target, dir.join(name)).unwrap();
}

#[test]
fn an_owner_outside_the_map_is_named_with_its_file() {
    let dir = tempdir().unwrap();
    let mut token = file("token", "t", 0o600);
    token.owner = Some(trees::id(1000));
    let error = write(dir.path(), &payload_of([token])).unwrap_err();
    assert!(error.to_string().contains("token of volume"), "{error}");
    assert!(error.to_string().contains("uid 1000 is not mapped"), "{error}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

/// Two writers of one volume, also through one descriptor, take turns.
#[test]
fn writers_of_one_volume_take_turns() {
    let dir = tempdir().unwrap();
    let volume = kernel::Dir::open(dir.path()).unwrap();
    let owners = own_ids();
    let writer = Writer { volume: &volume, owners: &owners, fs_group: None };
    let sets = ["one", "two", "three"]
        .map(|content| payload(&[("a", content, 0o644), ("b", content, 0o644), (content, "x", 0o644)]));
    std::thread::scope(|scope| {
        for set in &sets {
            scope.spawn(move || (0..30).all(|_| writer.write(set).is_ok()).then_some(()).unwrap());
        }
    });
    check_tidy(dir.path());
    let found = seen(dir.path());
    assert_eq!((found.len(), &found["a"]), (3, &found["b"]));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(trees::cases()))]

    /// Against the plainest model: whatever was there, after a write the visible files are the payload's
    /// and the volume is tidy; a second write finds nothing to do.
    #[test]
    fn after_any_writes_the_volume_is_the_last_payload(
        history in prop::collection::vec(
            prop::collection::btree_map("[ab](/[ab]){0,2}", ("[xy]{0,3}", prop::sample::select(vec![0o644u32, 0o600, 0o7444])), 0..5),
            1..5)
    ) {
        let dir = tempdir().unwrap();
        for files in history {
            let clash = files.keys().any(|a| files.keys().any(|b| a.starts_with(&format!("{b}/"))));
            if clash {
                continue;
            }
            let set = payload_of(files.iter().map(|(p, (c, m))| file(p, c, *m)));
            write(dir.path(), &set).unwrap();
            let contents: BTreeMap<_, _> = files.iter().map(|(p, (c, _))| (p.clone(), c.clone())).collect();
            prop_assert_eq!(seen(dir.path()), contents);
            for (path, (_, mode)) in &files {
                prop_assert_eq!(fs::metadata(dir.path().join(path)).unwrap().mode() & 0o7777, *mode);
            }
            check_tidy(dir.path());
            prop_assert_eq!(write(dir.path(), &set).unwrap(), Written::Nothing);
        }
    }
}

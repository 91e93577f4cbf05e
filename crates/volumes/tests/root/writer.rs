//! The atomic writer on the real kernel: what a pod sees, and what a hostile one achieves. Needs root.

use crate::trees;

use std::fs;
use std::os::unix::fs::{MetadataExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use kernel::{Access, DetachedMount, Dir, IdMaps, Submounts, UsernsFd};
use testkit::Race;
use trees::{BASE, Meanwhile, block, check_tidy, exchange, file, id, inside, payload, payload_of, scratch};
use trees::{races, seen, snapshot, write_as};
use volumes::ownership::{FsGroup, Owners};
use volumes::payload::Payload;
use volumes::writer::{Error, Written};

fn group(access: Access) -> Option<FsGroup> {
    Some(FsGroup { group: id(2000), access })
}

fn volume() -> (tempfile::TempDir, PathBuf) {
    let scratch = scratch();
    let dir = scratch.path().join("volume");
    fs::create_dir(&dir).unwrap();
    (scratch, dir)
}

fn pods_files() -> Payload {
    let mut token = file("token", "secret", 0o600);
    token.owner = Some(id(1000));
    payload_of([file("plain", "text", 0o644), file("d/closed", "mine", 0o400), token])
}

/// What a process in the pod's user namespace sees of each file.
fn look_inside(dir: &Path) -> String {
    inside(&format!(
        "cd {} && stat -Lc '%n %u:%g %a' . plain d d/closed token && cat plain d/closed token",
        dir.display()
    ))
}

#[test]
fn through_an_idmapped_mount_the_pod_sees_its_own_ids_and_the_disk_has_them() {
    let (scratch, dir) = volume();
    for (fs_group, shown, disk_gid) in [
        (None, ". 0:0 755\nplain 0:0 644\nd 0:0 755\nd/closed 0:0 400\ntoken 1000:0 600\ntextminesecret", 0),
        (
            group(Access::ReadOnly),
            ". 0:2000 2755\nplain 0:2000 644\nd 0:2000 2755\nd/closed 0:2000 440\ntoken 1000:2000 640\ntextminesecret",
            2000,
        ),
    ] {
        assert_eq!(write_as(&dir, &pods_files(), &Owners::Container, fs_group).unwrap(), Written::Replaced);
        kernel::in_private_mount_namespace(|_| {
            let at = scratch.path().join("at");
            fs::create_dir_all(&at).unwrap();
            let maps = IdMaps::of_block(ids::IdBlock::new(BASE.into(), 65_536).unwrap());
            let userns = UsernsFd::charged(&maps, kernel::Charge::Caller).unwrap();
            let clone = DetachedMount::idmapped(&dir, &userns, Access::ReadOnly, Submounts::Without).unwrap();
            clone.attach(&at).unwrap();
            assert_eq!(look_inside(&at), shown);
        })
        .unwrap();
        let token = fs::metadata(dir.join("token")).unwrap();
        assert_eq!((token.uid(), token.gid()), (1000, disk_gid));
    }
}

#[test]
fn without_an_idmapped_mount_the_disk_has_the_translated_ids_and_the_pod_sees_its_own() {
    let (_scratch, dir) = volume();
    let owners = Owners::Translated(block());
    write_as(&dir, &pods_files(), &owners, group(Access::ReadOnly)).unwrap();
    assert_eq!(
        look_inside(&dir),
        ". 0:2000 2755\nplain 0:2000 644\nd 0:2000 2755\nd/closed 0:2000 440\ntoken 1000:2000 640\ntextminesecret"
    );
    // Links too: every single thing is of the block.
    for (name, line) in snapshot(&dir) {
        let owner = format!("{BASE}:{}", BASE + 2000);
        let tokens = format!("{}:{}", BASE + 1000, BASE + 2000);
        assert!(line.contains(&owner) || name.ends_with("/token") && line.contains(&tokens), "{name} {line}");
    }
    // A member of the group reads what is the group's, and nobody else does.
    let as_user = |groups: &str| {
        let cat = format!("cat {}/d/closed 2>&1 || true", dir.display());
        inside(&format!("setpriv --reuid 5 --regid 5 --groups {groups} sh -c '{cat}'"))
    };
    assert_eq!(as_user("2000"), "mine");
    assert!(as_user("2001").contains("Permission denied"));
}

#[test]
fn a_change_of_owner_or_group_alone_is_applied() {
    let (_scratch, dir) = volume();
    let files = pods_files();
    write_as(&dir, &files, &Owners::Container, None).unwrap();
    let changed = |fs_group, owners: &Owners| write_as(&dir, &files, owners, fs_group).unwrap();
    assert_eq!(changed(group(Access::ReadOnly), &Owners::Container), Written::Replaced);
    assert_eq!(fs::metadata(dir.join("plain")).unwrap().gid(), 2000);
    assert_eq!(changed(group(Access::ReadOnly), &Owners::Translated(block())), Written::Replaced);
    assert_eq!(fs::metadata(dir.join("plain")).unwrap().gid(), BASE + 2000);
    assert_eq!(changed(group(Access::ReadOnly), &Owners::Translated(block())), Written::Nothing);
    chown(fs::canonicalize(dir.join("token")).unwrap(), Some(7), None).unwrap();
    assert_eq!(changed(group(Access::ReadOnly), &Owners::Translated(block())), Written::Replaced);
    std::os::unix::fs::lchown(dir.join("plain"), Some(7), Some(7)).unwrap();
    assert_eq!(changed(group(Access::ReadOnly), &Owners::Translated(block())), Written::Repaired);
    assert_eq!(fs::symlink_metadata(dir.join("plain")).unwrap().uid(), BASE);
    check_tidy(&dir);
}

/// A reader that resolves `..data` once has one version of every file, with its mode.
#[test]
fn a_reader_never_sees_a_mix_of_two_sets() {
    let (_scratch, dir) = volume();
    let version = |n: usize| {
        let mode = if n.is_multiple_of(2) { 0o644 } else { 0o600 };
        let text = format!("version {n}");
        payload(&[("a", &text, mode), ("d/b", &text, mode), ("d/e/c", &text, mode)])
    };
    write_as(&dir, &version(0), &Owners::Container, None).unwrap();
    let read = std::sync::Arc::new(AtomicUsize::new(0));
    let readers: Vec<Meanwhile> = (0..2)
        .map(|_| {
            let (dir, read) = (dir.clone(), read.clone());
            Meanwhile::again_and_again(move || {
                let set = dir.join(fs::read_link(dir.join("..data")).unwrap());
                let of = |name: &str| -> std::io::Result<(String, u32)> {
                    let path = set.join(name);
                    Ok((fs::read_to_string(&path)?, fs::metadata(&path)?.mode() & 0o7777))
                };
                // The set may be gone by now; then it was the old one.
                let (Ok(a), Ok(b), Ok(c)) = (of("a"), of("d/b"), of("d/e/c")) else { return false };
                assert!(a == b && b == c, "{a:?} {b:?} {c:?}");
                read.fetch_add(1, Ordering::Relaxed);
                true
            })
        })
        .collect();
    for n in 1..=races() {
        assert_eq!(write_as(&dir, &version(n), &Owners::Container, None).unwrap(), Written::Replaced);
    }
    while read.load(Ordering::Relaxed) == 0 {
        std::thread::yield_now();
    }
    drop(readers);
    println!("{} whole sets were read", read.load(Ordering::Relaxed));
    check_tidy(&dir);
}

#[test]
fn a_mount_in_an_old_set_is_named_and_nothing_on_it_is_removed() {
    let (scratch, dir) = volume();
    write_as(&dir, &payload(&[("a", "1", 0o644)]), &Owners::Container, None).unwrap();
    kernel::in_private_mount_namespace(|_| {
        let old = dir.join("..2016_02_01_15_04_05.12345678");
        let precious = scratch.path().join("precious");
        fs::create_dir_all(old.join("m")).unwrap();
        fs::create_dir(&precious).unwrap();
        fs::write(precious.join("file"), "precious").unwrap();
        rustix::mount::mount_bind(&precious, old.join("m")).unwrap();
        let error = write_as(&dir, &payload(&[("a", "2", 0o644)]), &Owners::Container, None).unwrap_err();
        assert!(matches!(error, Error::Dir(_)), "{error}");
        assert!(error.to_string().contains("12345678/m"), "{error}");
        assert_eq!(fs::read_to_string(precious.join("file")).unwrap(), "precious");
        // What readers see is new all the same.
        assert_eq!(seen(&dir)["a"], "2");
    })
    .unwrap();
    assert_eq!(
        write_as(&dir, &payload(&[("a", "2", 0o644)]), &Owners::Container, None).unwrap(),
        Written::Repaired
    );
    check_tidy(&dir);
}

/// What a hostile pod can do to a volume that it can write to: while a set is written, put links to
/// the host's files in the place of the set, of a directory in it, and of the writer's own links.
struct Attack {
    /// Ends before what it races on is removed.
    racing: Meanwhile,
    _scratch: tempfile::TempDir,
    dir: PathBuf,
    outside: PathBuf,
}

impl Attack {
    fn new() -> Self {
        let (scratch, dir) = volume();
        let outside = scratch.path().join("outside");
        fs::create_dir(&outside).unwrap();
        for n in 0..FILES {
            fs::write(outside.join(format!("f{n}")), "precious").unwrap();
        }
        // What is there to be swapped from the start.
        write_as(&dir, &attacked_files(usize::MAX), &Owners::Translated(block()), None).unwrap();
        let (at, links) = (dir.clone(), scratch.path().join("links"));
        fs::create_dir(&links).unwrap();
        let target = outside.clone();
        let racing = Meanwhile::again_and_again(move || {
            let mut swapped = false;
            for entry in fs::read_dir(&at).unwrap().flatten() {
                let name = entry.file_name();
                if name.to_string_lossy().starts_with("..2") {
                    // Into the set that is being written.
                    let link = links.join("d");
                    let _ = symlink(&target, &link);
                    swapped |= exchange(&entry.path().join("d"), &link);
                    let _ = fs::remove_dir_all(&link).or_else(|_| fs::remove_file(&link));
                }
            }
            for name in ["..data_tmp", "..data"] {
                let link = links.join(name);
                let _ = symlink(&target, &link);
                swapped |= exchange(&at.join(name), &link);
                let _ = fs::remove_dir_all(&link).or_else(|_| fs::remove_file(&link));
            }
            swapped
        });
        Self { racing, _scratch: scratch, dir, outside }
    }

    fn escaped(&self) -> bool {
        let spoiled = |(name, line): (String, String)| name != "." && line != "file 0644 0:0 precious";
        let found = snapshot(&self.outside);
        found.len() != FILES + 1 || found.into_iter().any(spoiled)
    }
}

const FILES: usize = 20;

fn attacked_files(round: usize) -> Payload {
    let text = format!("round {round}");
    payload_of((0..FILES).map(|n| file(&format!("d/f{n}"), &text, 0o666)))
}

#[test]
fn a_pod_that_swaps_links_in_cannot_have_anything_outside_changed() {
    let attack = Attack::new();
    let mut written = 0;
    let mut race = Race::of(races());
    while race.goes_on(written > 0) {
        let round = race.round();
        let done = write_as(&attack.dir, &attacked_files(round), &Owners::Translated(block()), None);
        written += usize::from(done.is_ok());
        assert!(!attack.escaped(), "round {round}: {done:?}");
    }
    let swaps = attack.racing.times();
    println!("{swaps} swaps, {written} of {} writes succeeded under attack", race.rounds());
    assert!(swaps > 0 && written > 0, "nothing was raced");
    let Attack { racing, _scratch, dir, .. } = attack;
    drop(racing);
    write_as(&dir, &attacked_files(races()), &Owners::Translated(block()), None).unwrap();
    assert_eq!(seen(&dir).len(), FILES);
    check_tidy(&dir);
}

/// The same attack on a writer that goes by paths: it is real.
#[test]
fn a_writer_that_goes_by_paths_does_write_outside() {
    let attack = Attack::new();
    for round in 0..100_000 {
        let _ = write_by_paths(&attack.dir, &attacked_files(round), round);
        if attack.escaped() {
            println!("escaped in round {round}");
            return;
        }
    }
    panic!("the attack never worked: the test above proves nothing");
}

fn write_by_paths(dir: &Path, payload: &Payload, round: usize) -> std::io::Result<()> {
    let set = dir.join(format!("..2016_02_01_15_04_05.{round}"));
    fs::create_dir(&set)?;
    fs::create_dir(set.join("d"))?;
    for (path, file) in payload.files() {
        fs::write(set.join(path.as_str()), &file.content)?;
        chown(set.join(path.as_str()), Some(BASE), Some(BASE))?;
    }
    fs::remove_dir_all(&set)
}

#[test]
fn a_volume_on_a_read_only_filesystem_is_named_and_left_alone() {
    let (_scratch, dir) = volume();
    kernel::in_private_mount_namespace(|_| {
        rustix::mount::mount("tmpfs", &dir, "tmpfs", rustix::mount::MountFlags::RDONLY, None).unwrap();
        let error = write_as(&dir, &payload(&[("a", "1", 0o644)]), &Owners::Container, None).unwrap_err();
        assert!(error.to_string().contains("Read-only file system"), "{error}");
        assert!(Dir::open(&dir).unwrap().entries().unwrap().is_empty());
    })
    .unwrap();
}

#[test]
fn a_volume_without_room_is_named_and_readers_keep_the_old_set() {
    let (_scratch, dir) = volume();
    kernel::in_private_mount_namespace(|_| {
        rustix::mount::mount("tmpfs", &dir, "tmpfs", rustix::mount::MountFlags::empty(), Some(c"size=64k"))
            .unwrap();
        write_as(&dir, &payload(&[("a", "small", 0o644)]), &Owners::Container, None).unwrap();
        let big = "x".repeat(1 << 17);
        let error = write_as(&dir, &payload(&[("a", &big, 0o644)]), &Owners::Container, None).unwrap_err();
        assert!(error.hint().unwrap().contains("full"), "{error}");
        assert_eq!(seen(&dir)["a"], "small");
        check_tidy(&dir);
    })
    .unwrap();
}

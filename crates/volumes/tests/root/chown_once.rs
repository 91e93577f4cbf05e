//! chownOnce on the real kernel. Needs root, setcap and chattr.

use crate::trees;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, lchown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use ids::{IdBlock, UserNamespace};
use kernel::Dir;
use proptest::prelude::*;
use testkit::Race;
use trees::{BASE, Meanwhile, block, exchange, inside, races, run, scratch, snapshot};
use volumes::chown_once::{ChownOnce, Error, Phase, Progress, Shifted};

/// A tree and the place of its journal.
struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Self {
        let home = Self(scratch());
        fs::create_dir(home.tree()).unwrap();
        home
    }

    fn tree(&self) -> PathBuf {
        self.0.path().join("tree")
    }

    fn journal(&self) -> PathBuf {
        self.0.path().join("journal")
    }

    fn file(&self, name: &str, mode: u32, owner: (u32, u32)) -> PathBuf {
        let path = self.tree().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, name).unwrap();
        chown(&path, Some(owner.0), Some(owner.1)).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    fn with(
        &self,
        ids: &UserNamespace,
        work: impl FnOnce(&ChownOnce<'_>) -> Result<Shifted, Error>,
    ) -> Result<Shifted, Error> {
        let (tree, journal) = (Dir::open(&self.tree()).unwrap(), self.journal());
        work(&ChownOnce { tree: &tree, journal: &journal, ids })
    }

    fn give(&self) -> Result<Shifted, Error> {
        self.with(&block(), |job| job.give(&mut |_| {}))
    }

    fn give_telling(&self, told: &mut dyn FnMut(Progress<'_>)) -> Result<Shifted, Error> {
        self.with(&block(), |job| job.give(told))
    }

    fn back(&self) -> Result<Shifted, Error> {
        self.with(&block(), |job| job.take_back(&mut |_| {}))
    }

    fn owner(&self, name: &str) -> (u32, u32) {
        let meta = fs::symlink_metadata(self.tree().join(name)).unwrap();
        (meta.uid(), meta.gid())
    }

    /// Fails with the words, and nothing was changed.
    fn refuses(&self, words: &str) -> Error {
        let before = snapshot(&self.tree());
        let error = self.give().unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
        assert!(error.hint().is_some(), "{error}");
        assert_eq!(snapshot(&self.tree()), before);
        assert!(!self.journal().exists());
        error
    }
}

fn capabilities(path: &Path) -> String {
    let shown = Command::new("getcap").arg("-n").arg(path).output().unwrap().stdout;
    String::from_utf8(shown).unwrap().replace(path.to_str().unwrap(), "").trim().to_owned()
}

/// The same with no setuid or setgid file in it.
fn without_special_bits(tree: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let plain = |line: &String| match line.split_once(' ') {
        Some((kind, rest)) if kind != "dir" && kind != "link" => {
            let (mode, rest) = rest.split_once(' ').unwrap();
            format!("{kind} {:04o} {rest}", u32::from_str_radix(mode, 8).unwrap() & 0o1777)
        }
        _ => line.clone(),
    };
    tree.iter().map(|(name, line)| (name.clone(), plain(line))).collect()
}

#[test]
fn a_tree_is_given_whole_and_comes_back_as_it_was_without_special_bits() {
    let home = Home::new();
    home.file("plain", 0o640, (0, 0));
    home.file("d/deep", 0o600, (1000, 100));
    home.file("runs", 0o6755, (33, 34));
    let tool = home.file("tool", 0o755, (0, 0));
    run("setcap", &["cap_net_raw=ep", tool.to_str().unwrap()]);
    let linked = home.file("linked", 0o644, (5, 65_535));
    fs::hard_link(linked, home.tree().join("d/linked-too")).unwrap();
    symlink("/etc/passwd", home.tree().join("link")).unwrap();
    lchown(home.tree().join("link"), Some(6), Some(7)).unwrap();
    run("mkfifo", &["-m", "600", home.tree().join("pipe").to_str().unwrap()]);
    fs::set_permissions(home.tree().join("d"), fs::Permissions::from_mode(0o3777)).unwrap();
    let before = snapshot(&home.tree());

    assert_eq!(home.give().unwrap(), Shifted { files: 9, vanished: 0, stripped: 0 });
    for (name, owner) in [
        ("plain", (0, 0)),
        ("d/deep", (1000, 100)),
        ("runs", (33, 34)),
        ("linked", (5, 65_535)),
        ("d/linked-too", (5, 65_535)),
        ("link", (6, 7)),
        ("pipe", (0, 0)),
        ("d", (0, 0)),
        (".", (0, 0)),
    ] {
        assert_eq!(home.owner(name), (BASE + owner.0, BASE + owner.1), "{name}");
    }
    assert_eq!(fs::metadata(home.tree().join("runs")).unwrap().mode() & 0o7777, 0o6755);
    assert_eq!(fs::metadata(home.tree().join("d")).unwrap().mode() & 0o7777, 0o3777);
    assert_eq!(capabilities(&tool), format!("cap_net_raw=ep [rootid={BASE}]"));
    let t = home.tree();
    assert_eq!(
        inside(&format!("cd {} && stat -c '%u:%g %a' d/deep runs && getcap tool", t.display())),
        "1000:100 600\n33:34 6755\ntool cap_net_raw=ep\n"
    );

    assert_eq!(home.give().unwrap(), Shifted::default(), "given is given");
    assert_eq!(home.back().unwrap(), Shifted { files: 9, vanished: 0, stripped: 2 });
    assert_eq!(snapshot(&home.tree()), without_special_bits(&before));
    assert_eq!(capabilities(&tool), "");
    assert!(!home.journal().exists());
    assert_eq!(home.back().unwrap(), Shifted::default());
}

#[test]
fn what_the_pod_made_comes_back_with_the_containers_ids_and_never_as_a_program_of_the_hosts_root() {
    let home = Home::new();
    home.file("old", 0o644, (1, 1));
    home.give().unwrap();
    home.file("new", 0o4711, (BASE + 1000, BASE + 1000));
    home.file("shell", 0o6755, (BASE, BASE));
    let tool = home.file("tool", 0o755, (BASE, BASE));
    let t = home.tree();
    assert_eq!(inside(&format!("setcap cap_setuid=ep {}/tool && echo set", t.display())), "set\n");
    home.file("made-on-the-host", 0o644, (0, 0));
    assert_eq!(home.back().unwrap().stripped, 3);
    assert_eq!(home.owner("new"), (1000, 1000));
    assert_eq!(fs::metadata(home.tree().join("new")).unwrap().mode() & 0o7777, 0o711);
    assert_eq!(home.owner("shell"), (0, 0));
    assert_eq!(fs::metadata(home.tree().join("shell")).unwrap().mode() & 0o7777, 0o755);
    assert_eq!((home.owner("tool"), capabilities(&tool)), ((0, 0), String::new()));
    assert_eq!(home.owner("made-on-the-host"), (0, 0));
}

#[test]
fn ids_outside_the_container_are_refused_before_anything_is_changed() {
    let home = Home::new();
    home.file("a", 0o644, (0, 0));
    home.file("d/strange", 0o644, (65_536, 0));
    let error = home.refuses("tree/d/strange belongs to uid 65536, which is outside the container's IDs");
    assert!(matches!(error, Error::Outside { id: 65_536, .. }));
    chown(home.tree().join("d/strange"), Some(0), Some(BASE)).unwrap();
    home.refuses(&format!("belongs to gid {BASE}"));
}

#[test]
fn a_mount_in_the_tree_is_named_and_refused() {
    let home = Home::new();
    home.file("a", 0o644, (0, 0));
    let other = scratch();
    fs::create_dir(home.tree().join("m")).unwrap();
    kernel::in_private_mount_namespace(|_| {
        rustix::mount::mount_bind(other.path(), home.tree().join("m")).unwrap();
        home.refuses("tree/m is a mount in the tree");
    })
    .unwrap();
}

#[test]
fn a_file_with_a_name_outside_the_tree_is_refused() {
    let home = Home::new();
    let file = home.file("a", 0o644, (0, 0));
    fs::hard_link(file, home.0.path().join("outside")).unwrap();
    home.refuses("tree/a has 2 names and only 1 of them in the tree");
}

struct Immutable(PathBuf);

impl Drop for Immutable {
    fn drop(&mut self) {
        run("chattr", &["-i", self.0.to_str().unwrap()]);
    }
}

#[test]
fn an_immutable_file_is_named_before_anything_is_changed() {
    let home = Home::new();
    let fixed = home.file("d/fixed", 0o644, (0, 0));
    run("chattr", &["+i", fixed.to_str().unwrap()]);
    let _fixed = Immutable(fixed);
    home.refuses("tree/d/fixed is immutable");
}

#[test]
fn a_map_in_which_an_id_could_be_shifted_twice_is_refused() {
    let home = Home::new();
    let line = ids::IdMapping::new(0, 1000, 65_536).unwrap();
    let caller = ids::CallerMapping::new(vec![line], vec![line]).unwrap();
    let error = home.with(&UserNamespace::Caller(caller), |job| job.give(&mut |_| {})).unwrap_err();
    assert!(matches!(error, Error::Overlap { .. }), "{error}");
    let error = home.with(&UserNamespace::Host, |job| job.give(&mut |_| {})).unwrap_err();
    assert!(matches!(error, Error::NoMap { .. }), "{error}");
}

#[test]
fn a_given_tree_is_given_to_nobody_else() {
    let home = Home::new();
    home.file("a", 0o644, (0, 0));
    home.give().unwrap();
    let other = IdBlock::new((BASE + 65_536).into(), 65_536).unwrap();
    let other = UserNamespace::Leased { uids: other, gids: other };
    let error = home.with(&other, |job| job.give(&mut |_| {})).unwrap_err();
    assert!(matches!(error, Error::GivenToOthers { .. }), "{error}");
    assert_eq!(home.owner("a"), (BASE, BASE));
    // Whoever takes it back need not know whose it was.
    home.with(&other, |job| job.take_back(&mut |_| {})).unwrap();
    assert_eq!(home.owner("a"), (0, 0));
}

#[test]
fn a_journal_that_cannot_be_believed_changes_nothing() {
    let home = Home::new();
    home.file("a", 0o644, (0, 0));
    home.give().unwrap();
    let (before, good) = (snapshot(&home.tree()), fs::read_to_string(home.journal()).unwrap());
    for (from, to) in
        [("wardlet-chown-once 1", "wardlet-chown-once 2"), (" 0 0 0644 ", " 0 0 4644 "), ("\nend ", "\nEND ")]
    {
        fs::write(home.journal(), good.replacen(from, to, 1)).unwrap();
        let error = home.back().unwrap_err();
        assert!(matches!(error, Error::Damaged { .. }), "{from}: {error}");
        assert_eq!(snapshot(&home.tree()), before);
    }
    fs::remove_file(home.journal()).unwrap();
    let error = home.back().unwrap_err();
    assert!(matches!(error, Error::NoJournal { .. }), "{error}");
    home.give().unwrap_err();
    assert_eq!(snapshot(&home.tree()), before);
    fs::write(home.journal(), &good).unwrap();
    home.back().unwrap();
    assert_eq!(home.owner("a"), (0, 0));
}

#[test]
fn the_journal_of_another_tree_and_one_in_the_tree_are_refused() {
    let home = Home::new();
    home.file("a", 0o644, (0, 0));
    home.give().unwrap();
    fs::rename(home.tree(), home.0.path().join("moved")).unwrap();
    fs::create_dir(home.tree()).unwrap();
    home.file("b", 0o644, (0, 0));
    let error = home.give().unwrap_err();
    assert!(matches!(error, Error::OtherTree { .. }), "{error}");
    let (tree, journal) = (Dir::open(&home.tree()).unwrap(), home.tree().join("journal"));
    let error = ChownOnce { tree: &tree, journal: &journal, ids: &block() }.give(&mut |_| {}).unwrap_err();
    assert!(matches!(error, Error::JournalInside { .. }), "{error}");
    assert_eq!(home.owner("b"), (0, 0));
}

#[test]
fn two_at_once_do_not_shift_one_tree() {
    let home = Home::new();
    (0..300).for_each(|n| drop(home.file(&format!("f{n}"), 0o644, (0, 0))));
    let mut second = None;
    home.give_telling(&mut |_| {
        second.get_or_insert_with(|| home.give());
    })
    .unwrap();
    let second = second.unwrap().unwrap_err();
    assert!(matches!(second, Error::Busy { .. }), "{second}");
}

/// Files that come and go while the tree is shifted: those of the pod stay the pod's, those of the host are
/// shifted like all others, and one in the place of another is not taken for it.
#[test]
fn files_that_appear_meanwhile_are_shifted_at_most_once() {
    let home = Home::new();
    (0..600).for_each(|n| drop(home.file(&format!("f{n}"), 0o644, (1, 1))));
    let mut made = false;
    let shifted = home
        .give_telling(&mut |progress| {
            if progress.phase == Phase::Shifting && !made {
                made = true;
                home.file("of-the-pod", 0o644, (BASE + 9, BASE + 9));
                home.file("of-the-host", 0o4755, (9, 9));
                for n in 0..600 {
                    // The same names, other files.
                    if home.owner(&format!("f{n}")) == (1, 1) && n % 2 == 0 {
                        fs::remove_file(home.tree().join(format!("f{n}"))).unwrap();
                        home.file(&format!("f{n}"), 0o644, (BASE + 2, BASE + 2));
                    }
                }
            }
        })
        .unwrap();
    assert!(made && shifted.vanished > 0, "{shifted:?}");
    assert_eq!(home.owner("of-the-pod"), (BASE + 9, BASE + 9));
    assert_eq!(home.owner("of-the-host"), (BASE + 9, BASE + 9));
    assert_eq!(fs::metadata(home.tree().join("of-the-host")).unwrap().mode() & 0o7777, 0o4755);
    for n in 0..600 {
        assert!([(BASE + 1, BASE + 1), (BASE + 2, BASE + 2)].contains(&home.owner(&format!("f{n}"))), "f{n}");
    }
}

/// While the tree is shifted, a directory in it turns into a link to the host's files and back.
struct Attack {
    /// Ends before what it races on is removed.
    racing: Meanwhile,
    home: Home,
    outside: PathBuf,
}

impl Attack {
    fn new() -> Self {
        let home = Home::new();
        let outside = home.0.path().join("outside");
        fs::create_dir(&outside).unwrap();
        for n in 0..10 {
            home.file(&format!("d/f{n}"), 0o644, (0, 0));
            fs::write(outside.join(format!("f{n}")), "precious").unwrap();
        }
        symlink(&outside, home.tree().join("link")).unwrap();
        let tree = home.tree();
        let racing = Meanwhile::again_and_again(move || exchange(&tree.join("d"), &tree.join("link")));
        Self { racing, home, outside }
    }

    fn escaped(&self) -> bool {
        snapshot(&self.outside).into_iter().any(|(_, line)| !line.contains(" 0:0"))
    }
}

#[test]
fn a_link_swapped_in_never_leads_a_shift_outside() {
    let attack = Attack::new();
    let (mut race, mut given, mut back) = (Race::of(races() / 2), 0, 0);
    while race.goes_on(given > 0 && back > 0) {
        // It may end with an error, as the tree changes all the time; the next call goes on.
        let gone = (attack.home.give(), attack.home.back());
        assert!(!attack.escaped(), "round {}: {gone:?}", race.round());
        (given, back) = (given + usize::from(gone.0.is_ok()), back + usize::from(gone.1.is_ok()));
    }
    let swaps = attack.racing.times();
    println!("{swaps} swaps, given {given} and back {back} of {} times under attack", race.rounds());
    assert!(swaps > 0 && given > 0 && back > 0, "nothing was raced");
}

/// The same attack on a chown by paths: it is real.
#[test]
fn a_chown_by_paths_does_shift_files_outside() {
    let attack = Attack::new();
    for round in 0..100_000 {
        chown_by_paths(&attack.home.tree());
        if attack.escaped() {
            println!("escaped in round {round}");
            return;
        }
    }
    panic!("the attack never worked: the test above proves nothing");
}

fn chown_by_paths(path: &Path) {
    let Ok(meta) = fs::symlink_metadata(path) else { return };
    if meta.is_dir() {
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            chown_by_paths(&entry.path());
        }
    }
    let _ = lchown(path, Some(BASE + meta.uid() % 65_536), Some(BASE + meta.gid() % 65_536));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(trees::cases().min(2000) / 4))]

    /// Against the plainest model: every number plus the base, everything else as it was.
    #[test]
    fn giving_adds_the_base_to_every_owner_and_taking_back_takes_it_away(
        files in prop::collection::btree_map("[ab]{1,2}(/[ab]{1,2}){0,2}", (0u32..0o10000, 0u32..65_536, 0u32..65_536, any::<bool>()), 0..10)
    ) {
        let home = Home::new();
        for (path, (mode, uid, gid, is_link)) in &files {
            let at = home.tree().join(path);
            if fs::create_dir_all(at.parent().unwrap()).is_err() || at.exists() {
                continue;
            }
            if *is_link {
                symlink("/etc/passwd", &at).unwrap();
                lchown(&at, Some(*uid), Some(*gid)).unwrap();
            } else {
                home.file(path, *mode, (*uid, *gid));
            }
        }
        let before = snapshot(&home.tree());
        let owners = |home: &Home| -> BTreeMap<String, (u32, u32)> {
            before.keys().map(|name| (name.clone(), home.owner(name))).collect()
        };
        let plain = owners(&home);
        home.give().unwrap();
        let given = owners(&home);
        for (name, (uid, gid)) in plain {
            prop_assert_eq!(given[&name], (uid + BASE, gid + BASE));
        }
        home.back().unwrap();
        prop_assert_eq!(snapshot(&home.tree()), without_special_bits(&before));
    }
}

//! chownOnce killed at system call N, N swept over giving a tree and taking it back. Needs root and strace.
//!
//! Whatever the last call left: every file has its old owner or its new one, and the same call made again
//! leaves every file shifted exactly once: with its special bits and capabilities once it is given, without
//! them once it was given and is back.

use crate::kill;
use crate::trees;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, lchown, symlink};
use std::path::Path;
use std::process::Command;

use kill::{HOME, Sweep, act, kill_in};
use testkit::{Dice, rounds};
use trees::{BASE, run, snapshot};

/// A tree in `tree`, and room for a journal beside it.
fn make(home: &Path) {
    let tree = home.join("tree");
    fs::create_dir_all(tree.join("d/e")).unwrap();
    let file = |name: &str, mode: u32, owner: (u32, u32)| {
        let path = tree.join(name);
        fs::write(&path, name).unwrap();
        chown(&path, Some(owner.0), Some(owner.1)).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    };
    file("plain", 0o644, (0, 0));
    file("d/e/deep", 0o600, (1000, 100));
    file("runs-as-me", 0o6755, (33, 34));
    let tool = file("tool", 0o755, (0, 0));
    run("setcap", &["cap_net_raw=ep", tool.to_str().unwrap()]);
    let linked = file("d/linked", 0o644, (5, 5));
    fs::hard_link(linked, tree.join("also-linked")).unwrap();
    symlink("/etc/passwd", tree.join("link")).unwrap();
    lchown(tree.join("link"), Some(6), Some(6)).unwrap();
    fs::set_permissions(tree.join("d"), fs::Permissions::from_mode(0o3777)).unwrap();
}

fn words(what: &str, home: &Path) -> Vec<String> {
    let (tree, journal) = (home.join("tree"), home.join("journal"));
    [what, tree.to_str().unwrap(), journal.to_str().unwrap()].map(str::to_owned).to_vec()
}

/// Everything about the tree, with the capabilities in it.
fn state(home: &Path) -> BTreeMap<String, String> {
    let tree = home.join("tree");
    let mut found = snapshot(&tree);
    let tool = tree.join("tool");
    let shown = Command::new("getcap").args(["-n", tool.to_str().unwrap()]).output().unwrap().stdout;
    let shown = String::from_utf8(shown).unwrap().replace(tool.to_str().unwrap(), "");
    found.insert("capabilities of tool".to_owned(), shown);
    found
}

/// No file ever has an owner of neither side, or two of different sides.
fn check_sides(home: &Path) {
    for name in snapshot(&home.join("tree")).into_keys() {
        let meta = fs::symlink_metadata(home.join("tree").join(&name)).unwrap();
        let (user, group) = (side(meta.uid()), side(meta.gid()));
        assert!(user.is_some() && user == group, "{name}: {}:{}", meta.uid(), meta.gid());
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Side {
    Container,
    Block,
}

fn side(id: u32) -> Option<Side> {
    match id {
        0..2000 => Some(Side::Container),
        _ if (BASE..BASE + 65_536).contains(&id) => Some(Side::Block),
        _ => None,
    }
}

struct States {
    plain: BTreeMap<String, String>,
    back: BTreeMap<String, String>,
    given: BTreeMap<String, String>,
}

fn states() -> States {
    let home = tempfile::tempdir_in(HOME).unwrap();
    make(home.path());
    let plain = state(home.path());
    act(&words("give", home.path()));
    let given = state(home.path());
    assert_eq!(given["runs-as-me"], format!("file 6755 {}:{} runs-as-me", BASE + 33, BASE + 34));
    assert!(given["capabilities of tool"].contains(&format!("rootid={BASE}")), "{given:?}");
    act(&words("back", home.path()));
    let back = state(home.path());
    assert_eq!(back["runs-as-me"], "file 0755 33:34 runs-as-me");
    assert_eq!(back["capabilities of tool"], "");
    States { plain, back, given }
}

/// Every other time the tree is not given after all, but taken back at once.
#[test]
fn killed_at_any_call_of_giving_every_file_is_shifted_once() {
    let states = states();
    let resumed = Cell::new(false);
    Sweep { prepare: &make, words: &|home| words("give", home) }.run(|home| {
        check_sides(home);
        if resumed.replace(!resumed.get()) {
            act(&words("give", home));
            assert_eq!(state(home), states.given);
        }
        let is_given = home.join("journal").exists();
        act(&words("back", home));
        assert_eq!(state(home), if is_given { &states.back } else { &states.plain }.clone());
        assert!(!home.join("journal").exists());
    });
}

#[test]
fn killed_at_any_call_of_taking_back_every_file_is_shifted_once() {
    let states = states();
    let prepare = |home: &Path| {
        make(home);
        act(&words("give", home));
    };
    Sweep { prepare: &prepare, words: &|home| words("back", home) }.run(|home| {
        check_sides(home);
        act(&words("back", home));
        assert_eq!(state(home), states.back);
        assert!(!home.join("journal").exists());
    });
}

/// Killed, resumed, killed again, and so on: at random calls, with a seed that is printed.
#[test]
fn killed_again_and_again_every_file_is_shifted_once() {
    let states = states();
    let sweep = Sweep { prepare: &make, words: &|home| words("give", home) };
    let calls = sweep.calls();
    let mut dice = Dice::thrown("chown");
    for round in 0..3 * rounds() {
        let home = tempfile::tempdir_in(HOME).unwrap();
        make(home.path());
        for _ in 0..6 {
            let call = &calls[dice.below(calls.len())];
            let what = if dice.below(3) == 0 { "back" } else { "give" };
            kill_in(&words(what, home.path()), call);
            check_sides(home.path());
        }
        // Only what was never taken back still has its special bits.
        act(&words("give", home.path()));
        check_sides(home.path());
        let given = state(home.path());
        if given != states.given {
            act(&words("back", home.path()));
            assert_eq!(state(home.path()), states.back, "round {round}: {given:?}");
        }
    }
}

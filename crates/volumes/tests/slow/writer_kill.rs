//! The atomic writer killed at system call N, N swept over a whole update. Needs root and strace.
//!
//! Whatever the last call left: a reader has the old set or the new one, whole, with its modes and
//! owners; and the next write leaves a volume that is right and tidy.

use crate::kill;
use crate::trees;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use kill::{HOME, Sweep, act, recorded};
use trees::{BASE, check_tidy, seen};

fn words(dir: &Path, version: &str) -> Vec<String> {
    ["write", dir.to_str().unwrap(), version].map(str::to_owned).to_vec()
}

/// What the set that `..data` leads to has: path to content, mode and owner.
fn current(dir: &Path) -> Option<BTreeMap<String, String>> {
    let set = dir.join(fs::read_link(dir.join("..data")).ok()?);
    let of = |path: String| {
        let meta = fs::metadata(set.join(&path)).unwrap();
        let content = fs::read_to_string(set.join(&path)).unwrap();
        let shown = format!("{content} {:o} {}:{}", meta.mode() & 0o7777, meta.uid(), meta.gid());
        (path, shown)
    };
    let names = |dir: &Path| -> Vec<String> {
        fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect()
    };
    let top = names(&set).into_iter().filter(|name| name != "d");
    Some(top.chain(names(&set.join("d")).into_iter().map(|name| format!("d/{name}"))).map(of).collect())
}

fn version(n: &str) -> BTreeMap<String, String> {
    let mode = if n == "1" { "640" } else { "644" };
    let line = format!("version {n} {mode} {BASE}:{}", BASE + 2000);
    let names = ["a".to_owned(), "d/b".to_owned(), format!("only-{n}")];
    names.into_iter().map(|name| (name, line.clone())).collect()
}

fn put_right(dir: &Path, last: &str) {
    act(&words(dir, last));
    assert_eq!(current(dir), Some(version(last)));
    let visible: Vec<String> = seen(dir).into_keys().collect();
    assert_eq!(visible, version(last).into_keys().collect::<Vec<_>>());
    check_tidy(dir);
}

#[test]
fn killed_at_any_call_of_the_first_write() {
    Sweep { prepare: &|_| {}, words: &|dir| words(dir, "1") }.run(|dir| {
        assert!([None, Some(version("1"))].contains(&current(dir)), "{:?}", current(dir));
        put_right(dir, "1");
    });
}

#[test]
fn killed_at_any_call_of_an_update_and_then_updated_again() {
    Sweep { prepare: &|dir| act(&words(dir, "0")), words: &|dir| words(dir, "1") }.run(|dir| {
        let now = current(dir).unwrap();
        assert!(now == version("0") || now == version("1"), "{now:?}");
        put_right(dir, if now == version("0") { "1" } else { "2" });
    });
}

/// What a loss of power leaves depends on the order of syncs: everything of the new set before the swap,
/// and the swap before anything of the old set goes.
#[test]
fn the_new_set_is_synced_before_the_swap_and_the_swap_before_the_old_set_goes() {
    let dir = tempfile::tempdir_in(HOME).unwrap();
    act(&words(dir.path(), "0"));
    let old = fs::read_link(dir.path().join("..data")).unwrap().to_str().unwrap().to_owned();
    let trace = recorded(&words(dir.path(), "1"));
    let lines: Vec<&str> = trace.lines().collect();
    let at = |what: &dyn Fn(&str) -> bool| lines.iter().position(|line| what(line));
    let swap = at(&|line| line.contains("renameat") && line.contains("..data_tmp")).unwrap();
    let new = fs::read_link(dir.path().join("..data")).unwrap();
    let set = dir.path().join(new);
    for path in ["", "/a", "/d", "/d/b", "/only-1"] {
        let synced = format!("<{}{path}>)", set.display());
        let sync = at(&|line| line.contains("fsync(") && line.contains(&synced));
        assert!(sync.is_some_and(|sync| sync < swap), "{path} is not on disk before the swap:\n{trace}");
    }
    let volume = format!("<{}>)", dir.path().display());
    let after = lines.iter().skip(swap).position(|line| line.contains("fsync(") && line.contains(&volume));
    let after = swap + after.unwrap();
    let gone = at(&|line| line.contains("unlinkat(") && line.contains(&old)).unwrap();
    assert!(swap < after && after < gone, "{swap} {after} {gone}:\n{trace}");
}

/// A large set is synced with its filesystem, and that before the swap, too.
#[test]
fn a_large_set_is_synced_at_once_before_the_swap() {
    let dir = tempfile::tempdir_in(HOME).unwrap();
    let words = ["write-many", dir.path().to_str().unwrap(), "100"].map(str::to_owned);
    let trace = recorded(&words);
    let at = |what: &str| trace.lines().position(|line| line.contains(what));
    assert!(at("syncfs(").unwrap() < at("renameat").unwrap(), "{trace}");
    assert_eq!(trace.matches("fsync(").count(), 1, "the volume's own directory");
    assert_eq!(seen(dir.path()).len(), 100);
}

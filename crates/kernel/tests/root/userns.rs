//! User namespaces on the real kernel. Needs root.

use crate::common;

use std::fs;
use std::os::fd::AsFd;
use std::os::fd::AsRawFd;

use common::{BASE, map_from, userns};
use ids::{IdKind, IdMapping};
use kernel::{Error, UsernsFd};

fn namespace_of(userns: &UsernsFd) -> String {
    let link = format!("/proc/self/fd/{}", userns.as_fd().as_raw_fd());
    fs::read_link(link).unwrap().display().to_string()
}

fn children() -> String {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    tasks.map(|task| fs::read_to_string(task.unwrap().path().join("children")).unwrap_or_default()).collect()
}

/// It counts the children of its process.
#[test]
fn each_namespace_is_a_new_one_and_no_process_is_left_behind() {
    if !testkit::in_own_process("userns::each_namespace_is_a_new_one_and_no_process_is_left_behind") {
        return;
    }
    let ours = fs::read_link("/proc/self/ns/user").unwrap().display().to_string();
    let first = userns();
    let second = userns();
    assert_ne!(namespace_of(&first), namespace_of(&second));
    for made in [&first, &second] {
        assert_ne!(namespace_of(made), ours);
        assert!(namespace_of(made).starts_with("user:["));
    }
    assert_eq!(children(), "");

    let (uids, gids) = (map_from(BASE), map_from(BASE + 65_536));
    for _ in 0..200 {
        UsernsFd::create(&uids, &gids).unwrap();
    }
    assert_eq!(children(), "");

    let twice = [uids[0], uids[0]];
    let error = UsernsFd::create(&twice, &gids).unwrap_err();
    assert!(matches!(error, Error::WriteMap { kind: IdKind::Uid, .. }), "{error}");
    assert!(error.to_string().contains("0 1073741824 65536"), "{error}");
    assert!(error.hint().unwrap().contains("overlap"));
    let none: [IdMapping; 0] = [];
    let error = UsernsFd::create(&uids, &none).unwrap_err();
    assert!(matches!(error, Error::WriteMap { kind: IdKind::Gid, .. }), "{error}");
    assert_eq!(children(), "");
}

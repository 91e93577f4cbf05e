#![no_main]
//! The users and groups of an image: a name is resolved by any `/etc/passwd` and `/etc/group`, or refused,
//! and nobody becomes the user that the kernel has no number for.

use std::cell::LazyCell;
use std::fs;

use container::{GroupPolicy, WantedUser, user};
use kernel::Dir;
use libfuzzer_sys::fuzz_target;
use tempfile::TempDir;

thread_local! {
    static ROOT: LazyCell<TempDir> = LazyCell::new(|| {
        let root = tempfile::tempdir_in("/dev/shm").expect("a directory in memory");
        fs::create_dir(root.path().join("etc")).expect("a directory of its own");
        root
    });
}

fuzz_target!(|bytes: &[u8]| {
    let mut parts = bytes.splitn(3, |byte| *byte == 0);
    let name = parts.next().map(|name| String::from_utf8_lossy(name).into_owned());
    ROOT.with(|root| {
        for file in ["etc/passwd", "etc/group"] {
            fs::write(root.path().join(file), parts.next().unwrap_or_default()).expect("writable");
        }
        let dir = Dir::open(root.path()).expect("the directory");
        let wanted = WantedUser { name, uid: None, gid: None, groups: vec![7], policy: GroupPolicy::Merge };
        if let Ok((user, home)) = user::resolve(&dir, &wanted) {
            assert!(user.uid < u32::MAX && user.gid < u32::MAX, "{user:?}");
            assert!(user.groups.contains(&user.gid) && user.groups.contains(&7), "{user:?}");
            assert!(user.groups.iter().all(|gid| *gid < u32::MAX), "{user:?}");
            assert!(home.is_none_or(|home| home.starts_with('/')));
        }
    });
});

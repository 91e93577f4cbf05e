//! What the root tests share.
#![allow(dead_code, clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use ids::{IdBlock, IdMapping};
use kernel::{PrivateMountNamespace, UsernsFd};

/// The first host ID of the block that tests map to.
pub(crate) const BASE: u32 = 1_073_741_824;

pub(crate) fn map_from(base: u32) -> [IdMapping; 1] {
    [IdMapping::of_block(IdBlock::new(base.into(), 65_536).unwrap())]
}

pub(crate) fn userns() -> UsernsFd {
    UsernsFd::create(&map_from(BASE), &map_from(BASE)).unwrap()
}

pub(crate) fn owner(path: &Path) -> (u32, u32) {
    let meta = fs::symlink_metadata(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    (meta.uid(), meta.gid())
}

pub(crate) fn file_of(path: &Path, uid: u32, gid: u32) {
    fs::write(path, "text").unwrap();
    std::os::unix::fs::chown(path, Some(uid), Some(gid)).unwrap();
}

/// Runs `body` where its mounts cannot reach the host, and proves that none did.
pub(crate) fn without_touching_the_host(scratch: &Path, body: impl FnOnce(&PrivateMountNamespace) + Send) {
    kernel::in_private_mount_namespace(body).unwrap();
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.contains(scratch.to_str().unwrap()), "a mount reached the host: {mounts}");
}

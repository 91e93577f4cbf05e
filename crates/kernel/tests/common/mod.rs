//! What the root tests share.
#![allow(dead_code, clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use ids::{IdBlock, IdMapping};
use kernel::{PrivateMountNamespace, UsernsFd};
use rustix::process::{DumpableBehavior, dumpable_behavior};
use testkit::wait_until;

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

/// Major and minor number of the running kernel.
pub(crate) fn release() -> (u32, u32) {
    let text = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = text.split(['.', '-']).map(|number| number.trim().parse().unwrap());
    (numbers.next().unwrap(), numbers.next().unwrap())
}

/// How often a race is run: `WARDLET_ROUNDS` makes it longer.
pub(crate) fn rounds() -> usize {
    std::env::var("WARDLET_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(10)
}

/// Else a debugger, or a process of ours that reads our own /proc, would find all doors shut. They are the
/// whole process's: they are shut for a moment while another test makes or looks into a namespace.
pub(crate) fn doors_are_open() {
    wait_until("the process is dumpable", || dumpable_behavior().unwrap() == DumpableBehavior::Dumpable);
}

/// Runs `body` while another thread does `attack` over and over.
pub(crate) fn under_attack<T>(mut attack: impl FnMut() + Send, body: impl FnOnce() -> T) -> T {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                attack();
            }
        });
        // The attacker is stopped also when the body panics, or nobody would ever hear of it.
        let outcome = catch_unwind(AssertUnwindSafe(body));
        over.store(true, Ordering::Relaxed);
        outcome.unwrap_or_else(|panic| resume_unwind(panic))
    })
}

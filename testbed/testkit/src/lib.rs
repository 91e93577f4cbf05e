//! What tests of several crates share: programs killed at a system call of choice, seeds that can be had again, waiting,
//! wardlet's own programs, a terminal, a FUSE server.
//!
//! A run is recorded once under strace. Then it is repeated for every call that counts, and killed at the
//! entry of that call: a process that is killed leaves whatever its last system call left.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "only tests use this"
)]

mod alone;
mod call;
mod chance;
pub mod fuse;
mod programs;
mod race;
mod terminal;
mod waiting;

use std::process::Command;
use std::sync::OnceLock;

pub use alone::in_own_process;
pub use call::{Call, calls_since, changes, changes_since};
pub use chance::{Dice, rounds, rounds_or};
pub use programs::{example, programs};
pub use race::Race;
pub use terminal::Terminal;
pub use waiting::{PATIENCE, wait_for, wait_for_success, wait_until};

/// strace over whatever is added, its threads and its children included.
///
/// # Panics
/// Without strace on this machine.
#[must_use]
pub fn strace() -> Command {
    need_strace();
    let mut command = Command::new("strace");
    command.args(["-f", "-qq"]);
    command
}

/// # Panics
/// Without strace on this machine.
pub fn need_strace() {
    static FOUND: OnceLock<bool> = OnceLock::new();
    let answers = || Command::new("strace").arg("-V").output().is_ok_and(|done| done.status.success());
    assert!(*FOUND.get_or_init(answers), "this test needs strace: apt-get install strace");
}

//! For tests: programs killed at a system call of choice, and chance that can be had again.
//!
//! A run is recorded once under strace. Then it is repeated for every call that counts, and killed at the
//! entry of that call: a process that is killed leaves whatever its last system call left.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "only tests use this")]

mod call;
mod chance;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

pub use call::{Call, calls_since, changes, changes_since};
pub use chance::{Dice, rounds, rounds_or};

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

/// The program `examples/NAME.rs` of the package in that directory, built if nobody has.
///
/// # Panics
/// Where it cannot be built.
#[must_use]
pub fn example(name: &str, package: &str) -> PathBuf {
    let here = std::env::current_exe().expect("a test knows its program");
    let profile = here.parent().and_then(Path::parent).expect("tests lie in target/PROFILE/deps");
    let program = profile.join("examples").join(name);
    if !program.exists() {
        let cargo = std::env::var("CARGO").unwrap_or_else(|_| env!("CARGO").to_owned());
        let manifest = format!("{package}/Cargo.toml");
        let words = ["build", "--example", name, "--manifest-path", &manifest];
        let built = Command::new(cargo).args(words).status().expect("cargo runs");
        assert!(built.success(), "cannot build the example `{name}`");
    }
    program
}

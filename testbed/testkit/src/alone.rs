//! A test in a process of its own.

use std::process::Command;

const INSIDE: &str = "WARDLET_TEST_ALONE";

/// For a test that counts what its whole process has: descriptors, children, threads. Tests of one binary share a process; this
/// one runs again, alone, in another. `name` is the test's path, as in `probe::nothing_is_left`.
///
/// True in the process of its own, where the test is to go on; false where that process has passed and the test is to return.
///
/// # Panics
/// Where the test fails in its own process, or has another name.
#[must_use]
pub fn in_own_process(name: &str) -> bool {
    if std::env::var_os(INSIDE).is_some_and(|inside| inside == name) {
        return true;
    }
    let own = std::env::current_exe().expect("a test knows its program");
    let mut again = Command::new(own);
    again.args(["--exact", name, "--nocapture", "--test-threads=1"]).env(INSIDE, name);
    let output = again.output().expect("a test runs again");
    let text = String::from_utf8_lossy(&output.stdout);
    let passed = output.status.success() && text.contains("1 passed");
    assert!(passed, "{name} alone: {text}{}", String::from_utf8_lossy(&output.stderr));
    false
}

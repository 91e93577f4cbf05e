//! Waiting for what comes by itself.

use std::time::{Duration, Instant};

/// More than anything takes on a loaded machine. A test that waits as long as this fails.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(5);

/// Waits until `tried` succeeds; `what` names what it waits for, and the panic has the last error if it never comes.
///
/// # Panics
/// After [`PATIENCE`].
#[track_caller]
pub fn wait_for_success<T>(what: &str, mut tried: impl FnMut() -> Result<T, String>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match tried() {
            Ok(found) => return found,
            Err(last) => {
                let seconds = PATIENCE.as_secs();
                assert!(Instant::now() < deadline, "not within {seconds} s: {what}; last seen: {last}");
            }
        }
        std::thread::sleep(PAUSE);
    }
}

/// Waits until `found` finds something; `what` names it where it never comes.
///
/// # Panics
/// After [`PATIENCE`].
#[track_caller]
pub fn wait_for<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    wait_for_success(what, || found().ok_or_else(|| "nothing".to_owned()))
}

/// Waits until `holds`; `what` says what is waited for.
///
/// # Panics
/// After [`PATIENCE`].
#[track_caller]
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    wait_for(what, || holds().then_some(()));
}

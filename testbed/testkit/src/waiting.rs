//! Waiting for what comes by itself.

use std::time::{Duration, Instant};

/// More than anything takes on a loaded machine. A test that waits as long as this fails.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(5);

/// Waits until `found` finds something; `what` names it where it never comes.
///
/// # Panics
/// After [`PATIENCE`].
#[track_caller]
pub fn wait_for<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(Instant::now() < deadline, "not within {} s: {what}", PATIENCE.as_secs());
        std::thread::sleep(PAUSE);
    }
}

/// Waits until `holds`; `what` says what is waited for.
///
/// # Panics
/// After [`PATIENCE`].
#[track_caller]
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    wait_for(what, || holds().then_some(()));
}

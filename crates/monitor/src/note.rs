use std::time::SystemTime;

use rustix::fs::{fstat, ftruncate};
use rustix::stdio::stderr;

/// The monitor's own log begins anew at this size.
const LARGEST: i64 = 64 * 1024;

/// A line in the monitor's own log. That it cannot be written is no reason to fail.
pub(crate) fn note(what: impl std::fmt::Display) {
    let full = fstat(stderr()).is_ok_and(|stat| stat.st_size > LARGEST);
    if full {
        let _ = ftruncate(stderr(), 0);
    }
    let line = format!("{} {what}\n", humantime::format_rfc3339_millis(SystemTime::now()));
    let _ = rustix::io::write(stderr(), line.as_bytes());
}

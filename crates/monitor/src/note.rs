use std::time::SystemTime;

use rustix::fs::{fstat, ftruncate};
use rustix::stdio::stderr;

/// The size at which the monitor's own log is truncated.
const LARGEST: i64 = 64 * 1024;

/// Writes a line to the monitor's own log. A failure to write is ignored.
pub(crate) fn note(what: impl std::fmt::Display) {
    let full = fstat(stderr()).is_ok_and(|stat| stat.st_size > LARGEST);
    if full {
        let _ = ftruncate(stderr(), 0);
    }
    let line = format!("{} {what}\n", humantime::format_rfc3339_millis(SystemTime::now()));
    let _ = rustix::io::write(stderr(), line.as_bytes());
}

//! Words for the caller and for the operator.
//!
//! The caller reads errors in the file that it named, in the format that it asked for; the operator reads
//! every decision in the system's log.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::net::UnixDatagram;
use std::time::SystemTime;

use serde_json::json;

use crate::call::{Globals, LogFormat};
use crate::error::Error;

const SYSTEM_LOG: &str = "/dev/log";

/// Facility daemon, with the level of RFC 5424.
const INFO: u8 = 30;
const ERROR: u8 = 27;

/// Where words go.
#[derive(Debug, Clone)]
pub struct Log<'a> {
    globals: &'a Globals,
}

impl<'a> Log<'a> {
    /// Where this call's caller wants them.
    #[must_use]
    pub fn new(globals: &'a Globals) -> Self {
        Self { globals }
    }

    /// A decision: one line.
    pub fn decision(&self, what: &str) {
        self.write("info", what);
        system(INFO, what);
    }

    /// Why the call fails: one line, and the way out behind it.
    pub fn error(&self, error: &Error) {
        let hint = error.hint().map(|hint| format!(" (hint: {hint})")).unwrap_or_default();
        let line = format!("{error}{hint}").replace('\n', " ");
        self.write("error", &line);
        system(ERROR, &line);
        eprintln!("wardlet-oci: {error}");
        if let Some(hint) = error.hint() {
            eprintln!("\nhint: {hint}");
        }
    }

    /// A log that cannot be written costs the line only.
    fn write(&self, level: &str, message: &str) {
        let Some(file) = &self.globals.log else { return };
        let time = humantime::format_rfc3339_seconds(SystemTime::now());
        let message = format!("wardlet-oci: {message}");
        let line = match self.globals.log_format {
            LogFormat::Json => json!({"level": level, "msg": message, "time": time.to_string()}).to_string(),
            LogFormat::Text => format!("time=\"{time}\" level={level} msg={}", json!(message)),
        };
        let written = OpenOptions::new().append(true).create(true).open(file);
        let _ = written.and_then(|mut file| file.write_all(format!("{line}\n").as_bytes()));
    }
}

fn system(priority: u8, message: &str) {
    let line = format!("<{priority}>wardlet-oci[{}]: {message}", std::process::id());
    if let Ok(socket) = UnixDatagram::unbound() {
        let _ = socket.set_nonblocking(true);
        let _ = socket.send_to(line.as_bytes(), SYSTEM_LOG);
    }
}

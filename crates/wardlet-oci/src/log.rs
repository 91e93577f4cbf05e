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
        let whole = whole(error);
        let line = format!("{whole}{hint}").replace('\n', " ");
        self.write("error", &line);
        system(ERROR, &line);
        eprintln!("wardlet-oci: {whole}");
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

/// An error and what caused it, each once: some say their cause themselves.
fn whole(error: &dyn std::error::Error) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        if !line.contains(&text) {
            line = format!("{line}: {text}");
        }
        cause = error.source();
    }
    line
}

fn system(priority: u8, message: &str) {
    let line = format!("<{priority}>wardlet-oci[{}]: {message}", std::process::id());
    if let Ok(socket) = UnixDatagram::unbound() {
        let _ = socket.set_nonblocking(true);
        let _ = socket.send_to(line.as_bytes(), SYSTEM_LOG);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_told_with_its_causes_and_none_of_them_twice() {
        let cause = || std::io::Error::from_raw_os_error(13);
        let sysctl = crate::ward::Error::Sysctl { name: "net.x".into(), value: "1".into(), cause: cause() };
        assert_eq!(whole(&Error::from(sysctl)), "sysctl net.x=1: Permission denied (os error 13)");
        let run = Error::Run { runtime: "/r".into(), source: cause() };
        assert_eq!(whole(&run), "cannot run /r: Permission denied (os error 13)");
    }
}

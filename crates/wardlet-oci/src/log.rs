//! Log lines for the caller and for the operator.
//!
//! The caller reads errors from the file that it named with `--log`, in the format of `--log-format`; the operator
//! reads every decision in the system log.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::net::UnixDatagram;
use std::time::SystemTime;

use serde_json::json;

use crate::call::{Globals, LogFormat};
use crate::error::Error;

const SYSTEM_LOG: &str = "/dev/log";

/// Facility daemon, with the severity of RFC 5424.
const INFO: u8 = 30;
const ERROR: u8 = 27;

/// The caller's log and the system log.
#[derive(Debug, Clone)]
pub struct Log<'a> {
    globals: &'a Globals,
}

impl<'a> Log<'a> {
    /// The log that the global flags of this call name.
    #[must_use]
    pub fn new(globals: &'a Globals) -> Self {
        Self { globals }
    }

    /// Logs a decision, on one line.
    pub fn decision(&self, what: &str) {
        let line = one_line(what);
        self.write("info", &line);
        system(INFO, &line);
    }

    /// Logs an error and its hint, on one line, and prints both to standard error.
    pub fn error(&self, error: &Error) {
        let hint = error.hint().map(|hint| format!(" (hint: {hint})")).unwrap_or_default();
        let whole = whole(error);
        let line = one_line(&format!("{whole}{hint}").replace('\n', " "));
        self.write("error", &line);
        system(ERROR, &line);
        eprintln!("wardlet-oci: {}", whole.split('\n').map(one_line).collect::<Vec<_>>().join("\n"));
        if let Some(hint) = error.hint() {
            eprintln!("\nhint: {hint}");
        }
    }

    /// Appends a line to the caller's log. A line that cannot be written is lost, and the call goes on.
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

/// An error and its causes, each once: some errors include their cause in their own message.
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

/// The text on one line: control characters, which may come from a pod's annotations, are escaped. A line break would
/// begin another entry in the system log.
fn one_line(text: &str) -> String {
    let escaped = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    text.chars().map(escaped).collect()
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
    fn an_entry_of_the_log_is_one_line() {
        let said = one_line("pod a\n<27>sshd[1]: in \u{1b}[2J\u{9b}");
        assert_eq!(said, "pod a\\n<27>sshd[1]: in \\u{1b}[2J\\u{9b}");
    }

    #[test]
    fn an_error_is_told_with_its_causes_and_none_of_them_twice() {
        let cause = || std::io::Error::from_raw_os_error(13);
        let sysctl =
            crate::isolation::Error::Sysctl { name: "net.x".into(), value: "1".into(), cause: cause() };
        assert_eq!(whole(&Error::from(sysctl)), "sysctl net.x=1: Permission denied (os error 13)");
        let run = Error::Run { runtime: "/r".into(), source: cause() };
        assert_eq!(whole(&run), "cannot run /r: Permission denied (os error 13)");
    }
}

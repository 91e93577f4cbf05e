//! Running other programs, with errors that carry what they said.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::{Error, Result};

/// How much of a program's words an error carries.
const SAID: usize = 600;

/// The program and its arguments as one line.
pub(crate) fn line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// Runs to the end; anything but success is an error with the end of what was said.
pub(crate) fn run(command: &mut Command) -> Result<Output> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|source| Error::Spawn { program: line(command), source })?;
    if output.status.success() {
        return Ok(output);
    }
    let said = if output.stderr.is_empty() { &output.stdout } else { &output.stderr };
    Err(Error::Program {
        program: line(command),
        status: output.status.to_string(),
        said: tail(&String::from_utf8_lossy(said)),
    })
}

/// What a program printed, trimmed.
pub(crate) fn text(command: &mut Command) -> Result<String> {
    Ok(String::from_utf8_lossy(&run(command)?.stdout).trim().to_owned())
}

/// The last of a long text, on one line.
pub(crate) fn tail(text: &str) -> String {
    let text = text.trim().replace('\n', " | ");
    let start = text.char_indices().rev().nth(SAID).map_or(0, |(at, _)| at);
    text.get(start..).unwrap_or_default().to_owned()
}

/// Whether a program is found, administrators' directories included.
pub(crate) fn find(name: &str) -> Option<std::path::PathBuf> {
    let path = std::env::var("PATH").unwrap_or_default();
    path.split(':')
        .chain(["/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/bin", "/bin"])
        .map(|dir| Path::new(dir).join(name))
        .find(|candidate| candidate.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_program_is_reported_with_its_last_words() {
        let error = run(Command::new("sh").args(["-c", "echo no room >&2; exit 3"])).expect_err("it exits 3");
        let text = error.to_string();
        assert!(text.contains("no room") && text.contains('3'), "{text}");
    }

    #[test]
    fn a_long_text_is_cut_from_the_front() {
        let cut = tail(&format!("{}end", "ä".repeat(2000)));
        assert!(cut.ends_with("end") && cut.chars().count() <= SAID + 1);
    }
}

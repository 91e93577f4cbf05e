//! Programs of the host that do part of the work.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::error::{Error, Result};

/// Programs for administrators are found also where the caller's PATH leaves them out.
const SYSTEM: [&str; 5] = ["/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/bin", "/bin"];
/// As many lines of a failed program's words as an error carries.
const LAST_WORDS: usize = 5;

/// Where a program is.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(SYSTEM.iter().map(PathBuf::from))
        .map(|directory| directory.join(program))
        .find(|candidate| candidate.is_file())
}

/// A command whose program was looked for as [`find`] does.
pub(crate) fn command(program: &str) -> Command {
    Command::new(find(program).unwrap_or_else(|| PathBuf::from(program)))
}

/// Runs it to its end and returns what it wrote to standard output.
pub(crate) fn read(command: &mut Command) -> Result<String> {
    run(command).map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs it to its end.
pub(crate) fn run(command: &mut Command) -> Result<Output> {
    let output = command.stdin(Stdio::null()).output().map_err(|cause| started(command, cause))?;
    succeeded(command, output)
}

pub(crate) fn started(command: &Command, cause: std::io::Error) -> Error {
    Error::Start { program: command.get_program().to_string_lossy().into_owned(), cause }
}

pub(crate) fn succeeded(command: &Command, output: Output) -> Result<Output> {
    if output.status.success() {
        return Ok(output);
    }
    Err(Error::Failed {
        command: line(command),
        status: output.status.to_string(),
        said: last_words(&String::from_utf8_lossy(&output.stderr)),
    })
}

fn line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let shown: Vec<_> = words.take(8).map(OsStr::to_string_lossy).collect();
    let more = if command.get_args().len() > 7 { " …" } else { "" };
    format!("{}{more}", shown.join(" "))
}

fn last_words(text: &str) -> String {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let skipped = lines.len().saturating_sub(LAST_WORDS);
    lines.into_iter().skip(skipped).collect::<Vec<_>>().join(" / ")
}

/// Whether `path` is a program that needs no loader and no libraries.
pub(crate) fn is_static(path: &Path) -> bool {
    libraries(path).is_ok_and(|needed| needed.is_empty())
}

/// The shared libraries that a program needs here, its loader among them; none for a static one.
pub(crate) fn libraries(program: &Path) -> Result<Vec<PathBuf>> {
    let mut ldd = command("ldd");
    let output = ldd.arg(program).stdin(Stdio::null()).output().map_err(|cause| started(&ldd, cause))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if let Some(line) = text.lines().find(|line| line.ends_with("not found")) {
        return Err(Error::Incomplete { what: format!("the library{line}"), place: program.to_owned() });
    }
    // Anything but a dynamic program ends ldd with an error, and needs no library.
    Ok(if output.status.success() { library_paths(&text) } else { vec![] })
}

fn library_paths(ldd: &str) -> Vec<PathBuf> {
    ldd.lines()
        .filter_map(|line| line.split_whitespace().find(|word| word.starts_with('/')))
        .map(PathBuf::from)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_read_from_every_form_of_line() {
        let text = "\tlinux-vdso.so.1 (0x00007ffd)\n\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x7f)\n\
                    \t/lib64/ld-linux-x86-64.so.2 (0x7f)\n";
        let found = library_paths(text);
        assert_eq!(
            found,
            ["/lib/x86_64-linux-gnu/libc.so.6", "/lib64/ld-linux-x86-64.so.2"].map(PathBuf::from)
        );
    }

    #[test]
    fn a_text_file_needs_no_libraries() {
        assert!(libraries(Path::new("/etc/passwd")).unwrap().is_empty());
    }

    #[test]
    fn a_failed_program_is_named_with_its_last_words() {
        let error = run(command("sh").args(["-c", "echo first >&2; echo last >&2; exit 3"])).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("sh -c") && text.contains("first / last") && text.contains('3'), "{text}");
    }
}

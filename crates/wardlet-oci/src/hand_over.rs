//! Executes the real runtime: in this process, or in a child process.

use std::convert::Infallible;
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, ExitStatus};

use crate::error::{Error, Result};

/// Executes `runtime` in this process with these arguments, execve(2): PID, descriptors, signal mask and parent stay
/// the same. It returns only if that fails.
pub fn become_runtime(runtime: &Path, arguments: &[OsString]) -> Result<Infallible> {
    Err(Error::Run { runtime: runtime.to_owned(), source: kernel::exec(runtime, arguments) })
}

/// Runs `runtime` with these arguments in a child process with the same descriptors and signal dispositions, and waits
/// for it. The child gets a parent-death signal, so that it ends with this process.
pub fn run_runtime(runtime: &Path, arguments: &[OsString]) -> Result<ExitStatus> {
    kernel::die_with_parent(kernel::with_callers_signals(Command::new(runtime).args(arguments)))
        .status()
        .map_err(|source| Error::Run { runtime: runtime.to_owned(), source })
}

/// The exit code that a shell would report: 128 plus the number of the signal, for a process that a signal ended.
#[must_use]
pub fn code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| signal + 128)).unwrap_or(1);
    u8::try_from(code).unwrap_or(1)
}

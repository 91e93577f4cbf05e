//! The real runtime: becoming it, or running it and waiting.

use std::convert::Infallible;
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, ExitStatus};

use crate::error::{Error, Result};

/// Becomes `runtime` with these arguments: the same process, descriptors, signals and parent.
pub fn become_runtime(runtime: &Path, arguments: &[OsString]) -> Result<Infallible> {
    Err(Error::Run { runtime: runtime.to_owned(), source: kernel::turn_into(runtime, arguments) })
}

/// Runs `runtime` with these arguments and our own descriptors and signals, and waits. It ends when we do.
pub fn run_runtime(runtime: &Path, arguments: &[OsString]) -> Result<ExitStatus> {
    kernel::ends_with_us(kernel::with_callers_signals(Command::new(runtime).args(arguments)))
        .status()
        .map_err(|source| Error::Run { runtime: runtime.to_owned(), source })
}

/// The code that a shell would give.
#[must_use]
pub fn code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| signal + 128)).unwrap_or(1);
    u8::try_from(code).unwrap_or(1)
}

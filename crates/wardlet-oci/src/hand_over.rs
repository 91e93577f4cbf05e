//! The real runtime: becoming it, or running it and waiting.

use std::convert::Infallible;
use std::ffi::OsString;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Command, ExitStatus};

use crate::error::{Error, Result};

/// Becomes `runtime` with these arguments: the same process, descriptors and parent.
pub fn become_runtime(runtime: &Path, arguments: &[OsString]) -> Result<Infallible> {
    let source = Command::new(runtime).args(arguments).exec();
    Err(Error::Run { runtime: runtime.to_owned(), source })
}

/// Runs `runtime` with these arguments and our own descriptors, and waits. It ends when we do.
pub fn run_runtime(runtime: &Path, arguments: &[OsString]) -> Result<ExitStatus> {
    kernel::ends_with_us(Command::new(runtime).args(arguments))
        .status()
        .map_err(|source| Error::Run { runtime: runtime.to_owned(), source })
}

/// The code that a shell would give.
#[must_use]
pub fn code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| signal + 128)).unwrap_or(1);
    u8::try_from(code).unwrap_or(1)
}

//! Becoming the real runtime: the same process, arguments, descriptors and parent.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

/// Becomes `runtime` with these arguments. Answers only if that fails.
pub fn become_runtime(runtime: &Path, arguments: &[OsString]) -> io::Error {
    Command::new(runtime).args(arguments).exec()
}

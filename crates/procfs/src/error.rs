use std::io;
use std::path::PathBuf;

use rustix::io::Errno;

/// Why a file of the proc filesystem could not be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A system call failed.
    #[error("cannot {action} {}: {cause}", path.display())]
    Io {
        /// The operation that failed, as a verb.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The kernel's error.
        #[source]
        cause: io::Error,
    },
    /// The file does not have the form that proc(5) describes.
    #[error("cannot understand {}: {why}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What is missing.
        why: &'static str,
    },
}

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    pub(crate) fn io(action: &'static str, path: PathBuf) -> impl FnOnce(Errno) -> Self {
        move |errno| Self::Io { action, path, cause: errno.into() }
    }

    /// Whether the process that the file is about has ended.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        matches!(self, Self::Io { cause, .. } if is_gone(cause))
    }
}

impl From<Error> for io::Error {
    /// The kernel's own error, without the path.
    fn from(error: Error) -> Self {
        match error {
            Error::Io { cause, .. } => cause,
            Error::Format { .. } => Self::new(io::ErrorKind::InvalidData, error),
        }
    }
}

/// Whether an error of reading below `/proc/PID` says that the process has ended: the files of one that was waited for
/// do not exist, those of one that is held fail with `ESRCH`, and maps and mounts with `EINVAL`.
#[must_use]
pub fn is_gone(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::NOENT | Errno::SRCH | Errno::INVAL))
}

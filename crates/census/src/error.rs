use std::io;
use std::path::PathBuf;

/// Why no look at the host was possible at all. Whatever is wrong with a single process or file is
/// in the report instead.
#[derive(Debug, thiserror::Error)]
pub enum CensusError {
    /// The list of processes cannot be read.
    #[error("cannot list the processes in {}: {source}", path.display())]
    Proc {
        /// The directory tried.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
}

impl CensusError {
    /// What the user can do about it.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::Proc { path, .. } => format!("mount the host's proc filesystem at {}", path.display()),
        }
    }
}

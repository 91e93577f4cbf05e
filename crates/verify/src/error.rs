use std::io;
use std::path::PathBuf;

use census::CensusError;

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The census of host IDs failed.
    #[error(transparent)]
    Census(#[from] CensusError),
    /// The processes of the node cannot be listed.
    #[error("cannot list the processes in {}: {cause}", dir.display())]
    Processes {
        /// The directory of the proc filesystem.
        dir: PathBuf,
        /// What the kernel said.
        cause: io::Error,
    },
    /// No pod has the name that was asked for.
    #[error("no pod {word} runs on this node")]
    NoSuchPod {
        /// The name.
        word: String,
    },
    /// The child process that does the work cannot be started or waited for.
    #[error("cannot start the child process of verify: {0}")]
    Child(#[from] io::Error),
    /// Signals cannot be caught.
    #[error(transparent)]
    Signals(#[from] kernel::Error),
}

impl Error {
    /// The way out, where there is one.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Census(e) => Some(e.hint()),
            Self::NoSuchPod { .. } => {
                Some("wardlet verify lists all; a pod is named by NAME, NAMESPACE/NAME or UID".to_owned())
            }
            Self::Processes { .. } | Self::Child(_) | Self::Signals(_) => None,
        }
    }
}

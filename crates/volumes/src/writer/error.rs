use std::path::PathBuf;
use std::time::Duration;

use ids::Unmapped;
use kernel::Kind;
use rustix::io::Errno;

/// Why a volume was not written. What readers see is then the old set, whole.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// An owner means nothing on the host.
    #[error("{} of volume {}: {unmapped}", path.display(), volume.display())]
    Unmapped {
        /// The volume's directory.
        volume: PathBuf,
        /// The file in it.
        path: PathBuf,
        /// The owner.
        unmapped: Unmapped,
    },
    /// Another process holds the volume's lock.
    #[error("volume {} is locked by another process for more than {patience:?}", volume.display())]
    Busy {
        /// The volume's directory.
        volume: PathBuf,
        /// How long the caller waited.
        patience: Duration,
    },
    /// A name that a file needs is taken by something that the writer did not make.
    #[error("{} is in the way: a {} that the volume's writer did not make", path.display(), word(*.found))]
    InTheWay {
        /// What is there.
        path: PathBuf,
        /// What sort of thing it is.
        found: Kind,
    },
    /// Another process replaced a file that was just created.
    #[error("{} was exchanged while the volume was written", path.display())]
    Exchanged {
        /// What was made.
        path: PathBuf,
    },
    /// The kernel refused a step.
    #[error("cannot {step} {}: {errno}", path.display())]
    Step {
        /// The operation that failed.
        step: &'static str,
        /// The path that it was applied to.
        path: PathBuf,
        /// The kernel's error.
        errno: Errno,
    },
    /// The volume's directory could not be read, or a leftover in it not removed.
    #[error(transparent)]
    Dir(kernel::Error),
}

impl Error {
    /// The way out, where there is one to name.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Unmapped { .. } => Some("choose an ID within the pod's block, or lease a longer one"),
            Self::Busy { .. } => {
                Some("a process of the pod may hold a lock on its volume's directory; it ends with the pod")
            }
            Self::InTheWay { .. } => Some("take it away, or give the volume's file another path"),
            Self::Exchanged { .. } => {
                Some("something in the pod races with the volume's writer; mount the volume read-only")
            }
            Self::Step { errno: Errno::NOSPC | Errno::DQUOT, .. } => {
                Some("the filesystem is full, or the volume's sizeLimit is below its content")
            }
            Self::Step { .. } => None,
            Self::Dir(error) => error.hint(),
        }
    }
}

fn word(kind: Kind) -> &'static str {
    match kind {
        Kind::File => "file",
        Kind::Directory => "directory",
        Kind::Symlink => "symbolic link",
        Kind::BlockDevice | Kind::CharDevice => "device",
        Kind::Fifo => "named pipe",
        Kind::Socket => "socket",
        Kind::Other => "thing",
    }
}

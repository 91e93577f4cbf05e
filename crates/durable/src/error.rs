use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::lock::Holder;

/// Why a file could not be read, written or locked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A system call failed.
    #[error("cannot {action} {}: {cause}", path.display())]
    Io {
        /// The operation that failed, as a verb.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The kernel's error.
        #[source]
        cause: io::Error,
    },
    /// The file holds something else than the record that was expected.
    #[error("cannot use {}: {cause}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where and why the JSON does not fit.
        #[source]
        cause: serde_json::Error,
    },
    /// Another version of wardlet wrote the record.
    #[error("{} has version {found}; this wardlet reads version {known}", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// The version in the file.
        found: u64,
        /// The versions that can be read.
        known: Versions,
    },
    /// The file is longer than any record of its kind.
    #[error("{} has more than {limit} bytes", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The largest size that is read.
        limit: u64,
    },
    /// Another user owns the file or directory, or can replace it.
    #[error("cannot use {}: it {reason}", path.display())]
    Untrusted {
        /// The file or directory.
        path: PathBuf,
        /// The user that can change it.
        reason: String,
    },
    /// Another process holds the lock.
    #[error("{} is locked by {}, and was not released within {waited:?}", path.display(), Holder::name(holder.as_ref()))]
    Locked {
        /// The lock file or directory.
        path: PathBuf,
        /// How long the caller waited.
        waited: Duration,
        /// The process that holds it, if the kernel tells.
        holder: Option<Holder>,
    },
}

/// The versions of a record that can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Versions {
    /// The oldest.
    pub oldest: u32,
    /// The newest, which is also the one that is written.
    pub newest: u32,
}

impl fmt::Display for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.oldest == self.newest {
            true => write!(f, "{}", self.newest),
            false => write!(f, "{} to {}", self.oldest, self.newest),
        }
    }
}

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error of a system call, for `map_err`.
    pub(crate) fn io<E: Into<io::Error>>(action: &'static str, path: &Path) -> impl Fn(E) -> Self {
        let path = path.to_owned();
        move |cause| Self::Io { action, path: path.clone(), cause: cause.into() }
    }

    /// Whether a file or a directory on the way to it does not exist.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Io { cause, .. } if cause.kind() == io::ErrorKind::NotFound)
    }

    /// What an operator can do about it.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Io { cause, .. } => match cause.kind() {
                io::ErrorKind::StorageFull => Some("free space on that filesystem"),
                io::ErrorKind::PermissionDenied => {
                    Some("run as the user that owns the directory: root on a node")
                }
                io::ErrorKind::ReadOnlyFilesystem => {
                    Some("mount that filesystem read-write, or name another directory")
                }
                _ => None,
            },
            Self::Version { found, known, .. } if *found > u64::from(known.newest) => {
                Some("use the newer wardlet that wrote it")
            }
            Self::Version { .. } => Some("use the older wardlet that wrote it, or move the file away"),
            Self::Damaged { .. } | Self::TooLarge { .. } => {
                Some("restore the file from a copy, or move it away")
            }
            Self::Untrusted { .. } => Some(
                "name a directory that only root can write to, below directories of which the same is true, \
                 and without files of other users in it",
            ),
            Self::Locked { .. } => Some("see what that process does; the lock ends with it"),
        }
    }
}

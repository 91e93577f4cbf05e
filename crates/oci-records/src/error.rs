use std::path::{Path, PathBuf};

/// A record, or a file that belongs to one, cannot be read, written or removed. It names the action, the path and the
/// cause.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} {}: {cause}", path.display())]
pub struct Error {
    what: &'static str,
    path: PathBuf,
    cause: String,
}

/// The result of an operation on records.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An error of the action `what`, such as `cannot write`, on the file at `path`.
    #[must_use]
    pub fn new(what: &'static str, path: &Path, cause: impl std::fmt::Display) -> Self {
        Self { what, path: path.to_owned(), cause: cause.to_string() }
    }

    /// What the operator can do about it.
    #[must_use]
    pub fn hint(&self) -> String {
        "make sure that root can read and write wrapper.runDir and that its filesystem is not full; if the record is \
         damaged, delete the pod"
            .to_owned()
    }
}

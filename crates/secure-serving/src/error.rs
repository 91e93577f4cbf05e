use std::fmt;
use std::path::{Path, PathBuf};

/// Why a port cannot be served with TLS.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A certificate, key or authority cannot be used.
    #[error("cannot use {}: {cause}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        cause: String,
    },
    /// No certificate can be made, or TLS cannot be set up with it.
    #[error("cannot set up TLS: {0}")]
    Tls(String),
}

impl Error {
    /// The error of a file.
    #[must_use]
    pub fn file(path: &Path, cause: &dyn fmt::Display) -> Self {
        Self::File { path: path.to_owned(), cause: cause.to_string() }
    }
}

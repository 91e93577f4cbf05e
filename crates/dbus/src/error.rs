use std::io;

/// Why the other side has not done what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The connection could not be made, or was lost.
    #[error("no connection: {0}")]
    Connection(#[from] io::Error),
    /// What answers does not speak D-Bus as it should.
    #[error("what answers does not speak D-Bus: {0}")]
    Protocol(&'static str),
    /// It refused the call.
    #[error("{words} ({name})")]
    Refused {
        /// The name of the error.
        name: String,
        /// What it says.
        words: String,
    },
}

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

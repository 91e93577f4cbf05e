use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// Where a value was set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// Nowhere: it is the default.
    Default,
    /// In a file, at this line and column, counted from 1.
    File {
        /// The file.
        file: Arc<Path>,
        /// The line; 0 where the reader could not tell.
        line: u64,
        /// The column, in characters.
        column: u64,
    },
    /// By this flag, without its dashes.
    Flag(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { file, line: 0, .. } => write!(f, "{}", file.display()),
            Self::File { file, line, column } => write!(f, "{}:{line}:{column}", file.display()),
            Self::Flag(name) => write!(f, "--{name}"),
        }
    }
}

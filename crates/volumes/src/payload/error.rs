use std::fmt;

use super::path::BadPath;

/// Why a volume's content cannot be put together.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("volume {volume}: {source_name}: {problem}")]
pub struct Error {
    /// The volume.
    pub volume: String,
    /// Which of its sources.
    pub source_name: SourceName,
    /// Why it is invalid.
    pub problem: Box<Problem>,
}

impl Error {
    /// The way out.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match *self.problem {
            Problem::NoObject => "create it, or set `optional: true` on the source",
            Problem::NoKey { .. } => {
                "add the key to the object, take the item out, or set `optional: true` on the source"
            }
            Problem::Path { .. } => {
                "give the key another path with `items`; paths are relative and keep clear of `..`"
            }
            Problem::FileAndDirectory { .. } => "give one of the two another path",
            Problem::TooLarge => {
                "name fewer keys, or put the content into an image or another kind of volume"
            }
            Problem::NoContainer { .. } => "name a container of the pod in `containerName`",
        }
    }
}

/// What is wrong with a source.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The object does not exist, and is not optional.
    #[error("it does not exist")]
    NoObject,
    /// The object has no such key, and is not optional.
    #[error("it has no key {key:?}")]
    NoKey {
        /// The key that an item names.
        key: String,
    },
    /// A file cannot go where it should.
    #[error("{what} cannot be a file at {path:?}: {why}")]
    Path {
        /// The key or field that the file is made of.
        what: String,
        /// Where it should go.
        path: String,
        /// Why it cannot.
        why: BadPath,
    },
    /// One path is to be a file and to have files in it.
    #[error("{file:?} is a file, and {below:?} of {other} lies in it")]
    FileAndDirectory {
        /// The file.
        file: String,
        /// The path that needs it to be a directory.
        below: String,
        /// The source of that path.
        other: SourceName,
    },
    /// The files up to this source are larger than those of a volume may be.
    #[error("with it the volume has more than {} MiB", super::LARGEST >> 20)]
    TooLarge,
    /// A container is asked about that the pod does not have.
    #[error("container {container} is not in the pod")]
    NoContainer {
        /// Its name.
        container: String,
    },
}

/// Which source of a volume, as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SourceName {
    /// A configMap by name.
    ConfigMap(String),
    /// A secret by name.
    Secret(String),
    /// The pod's own fields.
    DownwardApi,
    /// Bytes that are ready, by what they are.
    Bytes(String),
}

impl fmt::Display for SourceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ConfigMap(name) => write!(f, "configMap {name}"),
            Self::Secret(name) => write!(f, "secret {name}"),
            Self::DownwardApi => f.write_str("downwardAPI"),
            Self::Bytes(what) => f.write_str(what),
        }
    }
}

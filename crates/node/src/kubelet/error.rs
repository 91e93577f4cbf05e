use std::fmt;
use std::io;
use std::path::PathBuf;

use super::Origin;

/// Why the kubelet's configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KubeletConfigError {
    /// A file or a directory cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Unreadable {
        /// The file or the directory.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// A file is neither YAML nor JSON, or has a key twice.
    #[error("{}: {cause}", file.display())]
    Syntax {
        /// The file.
        file: PathBuf,
        /// What is wrong with it, with line and column.
        cause: String,
    },
    /// Fields or flags that cannot be used as they are. There is at least one.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Invalid(Vec<Problem>),
    /// A value passed every check and does not fit its type: a defect of wardlet.
    #[error("the checked configuration does not fit its type: {0}")]
    Defect(serde_json::Error),
}

impl KubeletConfigError {
    /// The way out, where there is one: of the first problem, if there are several.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Unreadable { .. } => Some(
                "name a readable file (--config) and directory (--config-dir), or leave them out".to_owned(),
            ),
            Self::Syntax { .. } => {
                Some("write one KubeletConfiguration as YAML or JSON, each key once".to_owned())
            }
            Self::Invalid(problems) => problems.first().map(|problem| problem.hint.clone()),
            Self::Defect(_) => None,
        }
    }

    /// The fields and flags that cannot be used.
    #[must_use]
    pub fn problems(&self) -> &[Problem] {
        match self {
            Self::Invalid(problems) => problems,
            Self::Unreadable { .. } | Self::Syntax { .. } | Self::Defect(_) => &[],
        }
    }
}

/// One field or flag that cannot be used as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Where it was set.
    pub at: Origin,
    /// The field's path; empty for a flag that sets no field.
    pub field: String,
    /// What is wrong.
    pub kind: ProblemKind,
    /// Why it cannot be used.
    pub cause: String,
    /// What to do.
    pub hint: String,
}

/// What is wrong with a field or a flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProblemKind {
    /// There is no such field, flag or feature gate in Kubernetes 1.37.
    Unknown,
    /// The value has another type than the field.
    WrongType,
    /// The value has the right type and is invalid, as it is for a kubelet.
    Invalid,
    /// A kubelet takes it; `wardlet agent` does not have what it asks for.
    Refused,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.at)?;
        if !self.field.is_empty() {
            write!(f, "{}: ", self.field)?;
        }
        f.write_str(&self.cause)
    }
}

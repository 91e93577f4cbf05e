pub(crate) type Result<T> = std::result::Result<T, Error>;

/// Why a pod that the API allows is not run on this node.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Something that pods may have and that is not run here.
    #[error("{field}: {what} is not run here")]
    NotRun {
        /// The field.
        field: String,
        /// What it asks for.
        what: String,
        /// What to do instead.
        hint: &'static str,
    },
    /// A field that cannot be honoured on this node.
    #[error("{field}: {cause}")]
    Unfit {
        /// The field.
        field: String,
        /// Why not.
        cause: String,
        /// What to do instead.
        hint: &'static str,
    },
}

impl Error {
    /// What to do instead.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self {
            Self::NotRun { hint, .. } | Self::Unfit { hint, .. } => hint,
        }
    }
}

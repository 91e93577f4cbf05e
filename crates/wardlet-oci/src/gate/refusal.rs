/// Why a pod that asks for a user namespace cannot have one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {cause}")]
pub struct Refusal {
    /// Where in the container's configuration.
    pub field: String,
    /// Why not.
    pub cause: String,
    /// The way out.
    pub hint: String,
}

impl Refusal {
    pub(super) fn new(field: impl Into<String>, cause: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { field: field.into(), cause: cause.into(), hint: hint.into() }
    }
}

use wire::Status;

/// Something that was asked for and will not be done. Nothing has been done when one is returned.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {cause}")]
pub struct Refusal {
    /// The field, as CRI names it, from the message that was sent.
    pub field: String,
    /// What is wrong with what it says.
    pub cause: String,
    /// What to ask for instead.
    pub hint: Option<&'static str>,
}

impl Refusal {
    pub(crate) fn new(field: impl Into<String>, cause: impl Into<String>) -> Self {
        Self { field: field.into(), cause: cause.into(), hint: None }
    }

    pub(crate) fn with_hint(self, hint: &'static str) -> Self {
        Self { hint: Some(hint), ..self }
    }

    /// The same about a field of a message that has this one.
    pub(crate) fn below(self, outer: &str) -> Self {
        Self { field: format!("{outer}.{}", self.field), ..self }
    }
}

impl From<Refusal> for Status {
    fn from(refusal: Refusal) -> Self {
        match refusal.hint {
            Some(hint) => Self::invalid_argument(format!("{refusal} (hint: {hint})")),
            None => Self::invalid_argument(refusal.to_string()),
        }
    }
}

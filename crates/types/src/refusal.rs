use std::fmt;

use serde::{Deserialize, Serialize};

/// A refused request, with the field that cannot be honoured. Nothing has been done when one is returned.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, thiserror::Error)]
#[error("{field}: {cause}")]
pub struct Refusal {
    /// The field, as the request names it: `spec.hostUsers` of a pod, `linux.resources` of a CRI message.
    pub field: String,
    /// Why it cannot be honoured.
    pub cause: String,
    /// What to ask for instead; `None` where the cause says it all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl Refusal {
    /// A refusal whose cause says what to change.
    pub fn new(field: impl fmt::Display, cause: impl Into<String>) -> Self {
        Self { field: field.to_string(), cause: cause.into(), hint: None }
    }

    /// A refusal that tells what to ask for instead.
    pub fn hinted(field: impl fmt::Display, cause: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(field, cause).with_hint(hint)
    }

    /// The same with this hint.
    #[must_use]
    pub fn with_hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// The same about a field of a message that is itself the field `outer` of another.
    #[must_use]
    pub fn below(self, outer: &str) -> Self {
        Self { field: format!("{outer}.{}", self.field), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_its_field_from_the_outside_in() {
        let refusal = Refusal::new("gid", "is negative").with_hint("leave it out").below("user");
        assert_eq!(refusal, Refusal::hinted("user.gid", "is negative", "leave it out"));
        assert_eq!(refusal.to_string(), "user.gid: is negative");
    }

    #[test]
    fn a_refusal_without_a_hint_is_written_without_one() {
        let json = |refusal: &Refusal| serde_json::to_value(refusal).unwrap();
        let plain = Refusal::new("a", "b");
        assert_eq!(json(&plain), serde_json::json!({"field": "a", "cause": "b"}));
        let hinted = plain.with_hint("c");
        assert_eq!(json(&hinted), serde_json::json!({"field": "a", "cause": "b", "hint": "c"}));
    }
}

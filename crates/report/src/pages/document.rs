use serde::Serialize;

/// An answer to a request for a page, for a part of it, or for its data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// Its media type.
    pub kind: &'static str,
    /// Its text.
    pub body: String,
    /// The content security policy to serve it with; `None` for what is no page.
    pub policy: Option<String>,
}

impl Document {
    /// A page with its content security policy.
    pub(crate) fn page(body: String, policy: String) -> Self {
        Self { kind: "text/html; charset=utf-8", body, policy: Some(policy) }
    }

    /// A part of a page. Opened by itself, it may load and run nothing.
    pub(crate) fn part(body: String) -> Self {
        Self::page(body, "default-src 'none'; sandbox".to_owned())
    }

    /// Data.
    pub(crate) fn json(value: &impl Serialize) -> Self {
        // Maps with other keys than text do not occur, and nothing else fails.
        let body = serde_json::to_string(value).unwrap_or_default();
        Self { kind: "application/json", body, policy: None }
    }
}

/// An answer of the page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// Its media type.
    pub kind: &'static str,
    /// Its text.
    pub body: String,
    /// The content security policy to serve it with; `None` for what is no page.
    pub policy: Option<String>,
}

/// The page of this node: a port that the caller implements.
pub trait Page: Send + Sync {
    /// The document at a path below the page, which is itself at the empty path; `None` if there is none. The page of
    /// `/wardlet/` is asked for `revision.json` when a client asks for `/wardlet/revision.json`. It may read files: it is
    /// called where it may block.
    fn document(&self, path: &str, query: &str) -> Option<Document>;
}

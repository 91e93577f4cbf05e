//! From bytes to trees: text, YAML or JSON, one tree per document.

mod json;
mod keys;
mod scalar;
mod text;
mod yaml;

use crate::finding::Problem;
use crate::place::Position;
use crate::tree::Node;

/// Manifests of more bytes than this are not read.
pub const MAX_BYTES: usize = 256 * 1024 * 1024;
/// Texts of more values than this are not read: each takes some forty bytes of memory, however short.
pub const MAX_VALUES: usize = 10_000_000;
/// Values nested deeper than this are not read; a pod's own fields are some fifteen deep.
pub const MAX_DEPTH: usize = 100;
/// More values than this may not come out of the aliases of one document.
pub const MAX_ALIASED: usize = 100_000;

/// What stops the reading of a text.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Stop {
    pub(crate) at: Position,
    pub(crate) problem: Problem,
}

impl Stop {
    pub(crate) fn new(at: Position, problem: Problem) -> Self {
        Self { at, problem }
    }

    fn syntax(at: Position, words: impl Into<String>) -> Self {
        Self { at, problem: Problem::Syntax(words.into()) }
    }

    /// Stops a text that has one value too many.
    fn count(values: &mut usize, at: Position) -> Result<(), Self> {
        *values += 1;
        if *values <= MAX_VALUES {
            return Ok(());
        }
        Err(Self { at, problem: Problem::TooMuch { what: "values", limit: MAX_VALUES } })
    }

    fn too_deep(at: Position) -> Self {
        Self { at, problem: Problem::TooMuch { what: "values nested in values", limit: MAX_DEPTH } }
    }
}

/// All documents of a text; empty ones are `null`.
///
/// What starts with a brace is tried as JSON first, as kubectl does; a flow mapping of YAML starts
/// so too.
pub(crate) fn documents(bytes: &[u8]) -> Result<Vec<Node>, Stop> {
    let text = text::decode(bytes)?;
    if !text.trim_start().starts_with('{') {
        return yaml::documents(text);
    }
    match json::documents(text) {
        Err(stop) if matches!(stop.problem, Problem::Syntax(_)) => yaml::documents(text).map_err(|_| stop),
        read => read,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Value;

    #[test]
    fn what_starts_with_a_brace_is_json_or_else_yaml() {
        let read = |text: &str| documents(text.as_bytes());
        assert_eq!(read("{\"a\": 1}{\"b\": 2}").unwrap().len(), 2);
        assert_eq!(read("{a: yes}").unwrap()[0].get("a").unwrap().value, Value::Bool(true));
        assert_eq!(read("{\"a\": 1}\n---\n{\"b\": 2}\n").unwrap().len(), 2);
        assert!(matches!(read("{\"a\":1,\"a\":2}").unwrap_err().problem, Problem::DuplicateKey { .. }));
        assert!(matches!(read("{\"a\":").unwrap_err().problem, Problem::Syntax(_)));
    }
}

//! The whole configuration, for checks: every field has its value or its default.

use super::tree::{Node, Value};
use super::{GoDuration, Origin, Problem, ProblemKind, gates};

pub(super) struct View<'a> {
    pub(super) tree: &'a Node,
    pub(super) problems: &'a mut Vec<Problem>,
}

impl View<'_> {
    pub(super) fn int(&self, path: &str) -> Option<i64> {
        match self.tree.get(path)?.value {
            Value::Int(number) => Some(number),
            _ => None,
        }
    }

    pub(super) fn bool(&self, path: &str) -> bool {
        self.tree.get(path).is_some_and(|node| node.value == Value::Bool(true))
    }

    pub(super) fn duration(&self, path: &str) -> GoDuration {
        match self.tree.get(path).map(|node| &node.value) {
            Some(Value::Duration(duration)) => *duration,
            _ => GoDuration::default(),
        }
    }

    /// The text; empty where there is none.
    pub(super) fn text(&self, path: &str) -> &str {
        match self.tree.get(path).map(|node| &node.value) {
            Some(Value::Text(text)) => text,
            _ => "",
        }
    }

    /// The items of a list of text, each with where it was set.
    pub(super) fn texts(&self, path: &str) -> Vec<(Origin, String)> {
        let Some(Value::List(items)) = self.tree.get(path).map(|node| &node.value) else { return Vec::new() };
        let text = |item: &Node| match &item.value {
            Value::Text(text) => Some((item.at.clone(), text.clone())),
            _ => None,
        };
        items.iter().filter_map(text).collect()
    }

    /// The entries of a map to text.
    pub(super) fn pairs(&self, path: &str) -> Vec<Pair> {
        let pair = |entry: &super::tree::Entry| match &entry.node.value {
            Value::Text(text) => {
                Some(Pair { at: entry.at.clone(), name: entry.name.clone(), text: text.clone() })
            }
            _ => None,
        };
        self.tree.get(path).map(Node::entries).unwrap_or_default().iter().filter_map(pair).collect()
    }

    pub(super) fn is_set(&self, path: &str) -> bool {
        self.tree.get(path).is_some_and(|node| node.at != Origin::Default)
    }

    pub(super) fn is_gate_on(&self, name: &str) -> bool {
        gates::is_on(self.tree, name)
    }

    /// Adds that the value of a field is invalid.
    pub(super) fn invalid(&mut self, path: &str, cause: impl Into<String>, hint: impl Into<String>) {
        let at = self.tree.entry(path).map_or(Origin::Default, |entry| entry.at.clone());
        self.invalid_at(at, path, Why::new(cause, hint));
    }

    /// Adds that a part of a field is invalid.
    pub(super) fn invalid_at(&mut self, at: Origin, field: &str, why: Why) {
        let Why { cause, hint } = why;
        self.problems.push(Problem { at, field: field.to_owned(), kind: ProblemKind::Invalid, cause, hint });
    }
}

/// Why a value is invalid, and what to do.
pub(super) struct Why {
    pub(super) cause: String,
    pub(super) hint: String,
}

impl Why {
    pub(super) fn new(cause: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { cause: cause.into(), hint: hint.into() }
    }
}

/// An entry of a map to text.
pub(super) struct Pair {
    pub(super) at: Origin,
    pub(super) name: String,
    pub(super) text: String,
}

//! What the agent does with the fields that are set: refusals, and notices of what has no effect.

use std::fmt;

use super::field::{Class, Field, Kind};
use super::fields::FIELDS;
use super::tree::{Node, Value};
use super::{Origin, Problem, ProblemKind, convert};

/// A field or flag that is set and changes nothing. The agent logs it when it starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// Where it was set.
    pub at: Origin,
    /// The field's path; empty for a flag that sets no field.
    pub field: String,
    /// Why it changes nothing.
    pub reason: String,
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.at)?;
        if !self.field.is_empty() {
            write!(f, "{}: ", self.field)?;
        }
        write!(f, "accepted without effect: {}", self.reason)
    }
}

pub(super) fn check(tree: &Node, problems: &mut Vec<Problem>, notices: &mut Vec<Notice>) {
    let fields = FIELDS.iter().filter(|field| field.kind != Kind::Object && !field.is_in_list());
    for field in fields {
        let Some(entry) = tree.entry(field.path).filter(|entry| entry.at != Origin::Default) else {
            continue;
        };
        if is_default(field, &entry.node.value) {
            continue;
        }
        let (at, path) = (entry.at.clone(), field.path.to_owned());
        match field.class {
            Class::Honoured { .. } => {}
            Class::NoEffect { reason } => notices.push(Notice { at, field: path, reason: reason.to_owned() }),
            Class::NotYet { what } => {
                let reason = format!("the agent has no {what} yet");
                notices.push(Notice { at, field: path, reason });
            }
            Class::Refused { also, .. }
                if also.iter().any(|text| has_text(field, &entry.node.value, text)) => {}
            Class::Refused { reason, hint, .. } => problems.push(Problem {
                at,
                field: path,
                kind: ProblemKind::Refused,
                cause: reason.to_owned(),
                hint: hint.to_owned(),
            }),
        }
    }
}

fn is_default(field: &Field, value: &Value) -> bool {
    match value {
        Value::List(items) if field.default.is_empty() => items.is_empty(),
        Value::Map(entries) if field.default.is_empty() => entries.is_empty(),
        value if field.default.is_empty() => !field.keeps_zero && value.is_zero(),
        value => has_text(field, value, field.default),
    }
}

fn has_text(field: &Field, value: &Value, text: &str) -> bool {
    convert::from_text(field.kind, text, '=').is_ok_and(|other| other.same(value))
}

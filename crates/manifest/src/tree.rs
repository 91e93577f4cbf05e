use std::sync::Arc;

use crate::place::{Path, Position};

/// A value of a JSON tree, with its place in the text.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Where it starts.
    pub at: Position,
    /// What it is.
    pub value: Value,
}

/// What a node is.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// `null`.
    Null,
    /// A boolean.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A whole number past the largest signed one.
    Unsigned(u64),
    /// Any other number.
    Float(f64),
    /// Text.
    Text(String),
    /// A list.
    List(Vec<Node>),
    /// An object. No two keys are the same.
    Map(Vec<(Key, Node)>),
}

/// A key of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    /// Where it starts.
    pub at: Position,
    /// The key. Keys repeat from object to object, so copies of aliases share theirs.
    pub name: Arc<str>,
}

impl Node {
    /// The value of this key, if it is an object that has it.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Self> {
        self.entry(name).map(|(_, node)| node)
    }

    /// The text of this key, if it is an object that has text there.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        match &self.get(name)?.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    fn entry(&self, name: &str) -> Option<&(Key, Self)> {
        match &self.value {
            Value::Map(entries) => entries.iter().find(|(key, _)| &*key.name == name),
            _ => None,
        }
    }

    /// How many nodes it is, itself included, and how many deep.
    pub(crate) fn extent(&self) -> (usize, usize) {
        let below = |sizes: &mut dyn Iterator<Item = (usize, usize)>| {
            sizes.fold((0, 0), |(count, depth), (c, d)| (count + c, depth.max(d)))
        };
        let (count, depth) = match &self.value {
            Value::List(items) => below(&mut items.iter().map(Self::extent)),
            Value::Map(entries) => below(&mut entries.iter().map(|(_, node)| node.extent())),
            _ => (0, 0),
        };
        (count + 1, depth + 1)
    }

    /// The place of a field: of its key where it is written, else of what it would stand in.
    pub(crate) fn place_of(&self, path: &Path<'_>) -> Position {
        self.walk(path).0
    }

    fn walk(&self, path: &Path<'_>) -> (Position, Option<&Self>) {
        match path {
            Path::Under(_) => (self.at, Some(self)),
            Path::Field(parent, name) => match self.walk(parent) {
                (at, None) => (at, None),
                (at, Some(node)) => match node.entry(name) {
                    Some((key, value)) => (key.at, Some(value)),
                    None => (at, None),
                },
            },
            Path::Index(parent, index) => match self.walk(parent) {
                (at, Some(Self { value: Value::List(items), .. })) => match items.get(*index) {
                    Some(item) => (item.at, Some(item)),
                    None => (at, None),
                },
                (at, _) => (at, None),
            },
        }
    }
}

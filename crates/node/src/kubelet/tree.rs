//! The configuration as a tree of values, each with where it was set.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number};
use serde_saphyr::Spanned;

use super::{GoDuration, KubeletConfigError, Origin};

/// A value and where it was set.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Node {
    pub(super) at: Origin,
    pub(super) value: Value,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
    Duration(GoDuration),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

/// A key of a map with its value.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) at: Origin,
    pub(super) node: Node,
}

impl Node {
    pub(super) fn empty() -> Self {
        Self { at: Origin::Default, value: Value::Map(Vec::new()) }
    }

    /// The value at a dotted path.
    pub(super) fn get(&self, path: &str) -> Option<&Self> {
        self.entry(path).map(|entry| &entry.node)
    }

    /// The key and the value at a dotted path.
    pub(super) fn entry(&self, path: &str) -> Option<&Entry> {
        let (name, rest) = split(path);
        let entry = self.entries().iter().find(|entry| entry.name == name)?;
        match rest {
            Some(rest) => entry.node.entry(rest),
            None => Some(entry),
        }
    }

    /// The keys of a map; none of anything else.
    pub(super) fn entries(&self) -> &[Entry] {
        match &self.value {
            Value::Map(entries) => entries,
            _ => &[],
        }
    }

    /// Sets the value at a dotted path; maps on the way are made.
    pub(super) fn set(&mut self, path: &str, node: Node) {
        let (name, rest) = split(path);
        if !matches!(self.value, Value::Map(_)) {
            self.value = Value::Map(Vec::new());
        }
        let Value::Map(entries) = &mut self.value else { return };
        let found = entries.iter_mut().find(|entry| entry.name == name);
        match (found, rest) {
            (Some(entry), Some(rest)) => entry.node.set(rest, node),
            (Some(entry), None) => {
                entry.at = node.at.clone();
                entry.node = node;
            }
            (None, Some(rest)) => {
                let mut below = Self { at: node.at.clone(), value: Value::Map(Vec::new()) };
                let at = node.at.clone();
                below.set(rest, node);
                entries.push(Entry { name: name.to_owned(), at, node: below });
            }
            (None, None) => entries.push(Entry { name: name.to_owned(), at: node.at.clone(), node }),
        }
    }

    /// Removes the value at a dotted path.
    pub(super) fn remove(&mut self, path: &str) {
        let (name, rest) = split(path);
        let Value::Map(entries) = &mut self.value else { return };
        match rest {
            None => entries.retain(|entry| entry.name != name),
            Some(rest) => {
                if let Some(entry) = entries.iter_mut().find(|entry| entry.name == name) {
                    entry.node.remove(rest);
                }
            }
        }
    }

    /// JSON merge patch: maps are merged, `null` removes, everything else is replaced.
    pub(super) fn merge(&mut self, patch: Node) {
        let Value::Map(patches) = patch.value else {
            *self = patch;
            return;
        };
        if !matches!(self.value, Value::Map(_)) {
            *self = Self { at: patch.at, value: Value::Map(Vec::new()) };
        }
        let Value::Map(entries) = &mut self.value else { return };
        for patch in patches {
            if patch.node.value == Value::Null {
                entries.retain(|entry| entry.name != patch.name);
                continue;
            }
            match entries.iter_mut().find(|entry| entry.name == patch.name) {
                Some(entry) => {
                    entry.at = patch.at;
                    entry.node.merge(patch.node);
                }
                None => {
                    let mut node = Self { at: patch.node.at.clone(), value: Value::Null };
                    node.merge(patch.node);
                    entries.push(Entry { name: patch.name, at: patch.at, node });
                }
            }
        }
    }

    /// The tree as the kubelet's API writes it.
    pub(super) fn to_json(&self) -> serde_json::Value {
        self.value.to_json()
    }
}

impl Value {
    /// Whether two values are the same, wherever they were set.
    pub(super) fn same(&self, other: &Self) -> bool {
        self.to_json() == other.to_json()
    }

    /// Whether it is what Go's JSON encoder omits.
    pub(super) fn is_zero(&self) -> bool {
        match self {
            Self::Null => true,
            Self::Bool(on) => !on,
            Self::Int(number) => *number == 0,
            Self::Float(number) => *number == 0.0,
            Self::Text(text) => text.is_empty(),
            Self::Duration(duration) => duration.is_zero(),
            Self::List(_) | Self::Map(_) => false,
        }
    }

    fn to_json(&self) -> serde_json::Value {
        match self {
            Self::Null => serde_json::Value::Null,
            Self::Bool(on) => (*on).into(),
            Self::Int(number) => (*number).into(),
            Self::Float(number) => Number::from_f64(*number).map_or(serde_json::Value::Null, Into::into),
            Self::Text(text) => text.as_str().into(),
            Self::Duration(duration) => duration.to_string().into(),
            Self::List(items) => items.iter().map(Node::to_json).collect(),
            Self::Map(entries) => {
                let entries = entries.iter().map(|entry| (entry.name.clone(), entry.node.to_json()));
                serde_json::Value::Object(entries.collect::<Map<_, _>>())
            }
        }
    }
}

fn split(path: &str) -> (&str, Option<&str>) {
    path.split_once('.').map_or((path, None), |(name, rest)| (name, Some(rest)))
}

/// Reads a file's text as YAML, of which JSON is a part. Duplicate keys are errors.
pub(super) fn parse(file: &Path, text: &str) -> Result<Node, KubeletConfigError> {
    let raw: Spanned<Raw> = serde_saphyr::from_str(text).map_err(|e| KubeletConfigError::Syntax {
        file: file.to_owned(),
        cause: e.without_snippet().to_string(),
    })?;
    Ok(located(&Arc::from(file), raw))
}

enum Raw {
    Scalar(Value),
    List(Vec<Spanned<Raw>>),
    Map(Vec<(Spanned<String>, Spanned<Raw>)>),
}

fn located(file: &Arc<Path>, raw: Spanned<Raw>) -> Node {
    let origin = |location: serde_saphyr::Location| Origin::File {
        file: Arc::clone(file),
        line: location.line(),
        column: location.column(),
    };
    let value = match raw.value {
        Raw::Scalar(value) => value,
        Raw::List(items) => Value::List(items.into_iter().map(|item| located(file, item)).collect()),
        Raw::Map(entries) => {
            let entries = entries.into_iter().map(|(key, raw)| Entry {
                at: origin(key.referenced),
                name: key.value,
                node: located(file, raw),
            });
            Value::Map(entries.collect())
        }
    };
    Node { at: origin(raw.referenced), value }
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RawVisitor)
    }
}

struct RawVisitor;

impl<'de> Visitor<'de> for RawVisitor {
    type Value = Raw;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value of JSON")
    }

    fn visit_bool<E>(self, on: bool) -> Result<Raw, E> {
        Ok(Raw::Scalar(Value::Bool(on)))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Raw, E> {
        Ok(Raw::Scalar(Value::Int(number)))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Raw, E> {
        // What no field can hold is cut: every field refuses it by its range.
        Ok(Raw::Scalar(Value::Int(i64::try_from(number).unwrap_or(i64::MAX))))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Raw, E> {
        Ok(Raw::Scalar(Value::Float(number)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Raw, E> {
        Ok(Raw::Scalar(Value::Text(text.to_owned())))
    }

    fn visit_unit<E>(self) -> Result<Raw, E> {
        Ok(Raw::Scalar(Value::Null))
    }

    fn visit_none<E>(self) -> Result<Raw, E> {
        Ok(Raw::Scalar(Value::Null))
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Raw, D::Error> {
        Raw::deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Raw, A::Error> {
        let mut read = Vec::new();
        while let Some(item) = items.next_element()? {
            read.push(item);
        }
        Ok(Raw::List(read))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Raw, A::Error> {
        let mut read = Vec::new();
        while let Some(entry) = entries.next_entry()? {
            read.push(entry);
        }
        Ok(Raw::Map(read))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Node {
        parse(Path::new("c"), text).unwrap()
    }

    #[test]
    fn keys_and_values_have_lines_and_columns_in_yaml_and_json() {
        let yaml = read("---\na: 1\nb:\n  c: [x, z]\n");
        assert_eq!(yaml.entry("b.c").unwrap().at.to_string(), "c:4:3");
        assert_eq!(yaml.get("b.c").unwrap().at.to_string(), "c:4:6");
        let json = read("{\n\t\"a\": 1,\n\t\"b\": {\"c\": [\"x\", \"z\"]}\n}\n");
        assert_eq!(json.entry("b.c").unwrap().at.to_string(), "c:3:8");
        assert_eq!(json.to_json(), yaml.to_json());
        assert_eq!(json.to_json().to_string(), r#"{"a":1,"b":{"c":["x","z"]}}"#);
    }

    #[test]
    fn scalars_have_the_types_that_a_kubelet_reads() {
        let tree = read("a: yes\nb: \"yes\"\nc: 1.5\nd: -1\ne: ~\nf: 10s\ng: 99999999999999999999\n");
        let text = |path: &str| tree.get(path).unwrap().to_json().to_string();
        assert_eq!((text("a").as_str(), text("b").as_str()), ("true", "\"yes\""));
        assert_eq!((text("c").as_str(), text("d").as_str(), text("e").as_str()), ("1.5", "-1", "null"));
        assert_eq!(text("f"), "\"10s\"");
    }

    #[test]
    fn a_key_twice_two_documents_and_no_yaml_are_refused() {
        for text in ["a: 1\na: 2\n", "{\"a\": 1, \"a\": 2}", "a: {b: 1, b: 2}", "a: 1\n---\nb: 2\n", "a: [\n"]
        {
            assert!(matches!(parse(Path::new("c"), text), Err(KubeletConfigError::Syntax { .. })), "{text}");
        }
    }

    #[test]
    fn a_patch_merges_maps_replaces_lists_and_removes_by_null() {
        let mut tree = read("a: {b: 1, c: 2}\nd: [1, 2]\ne: 5\n");
        tree.merge(read("a: {c: 3, f: {g: ~, h: 1}}\nd: [3]\ne: ~\n"));
        assert_eq!(tree.to_json().to_string(), r#"{"a":{"b":1,"c":3,"f":{"h":1}},"d":[3]}"#);
    }

    #[test]
    fn a_path_is_set_and_removed() {
        let mut tree = Node::empty();
        let node = |number| Node { at: Origin::Flag("x".to_owned()), value: Value::Int(number) };
        tree.set("a.b", node(1));
        tree.set("a.c", node(2));
        tree.set("a.b", node(3));
        assert_eq!(tree.to_json().to_string(), r#"{"a":{"b":3,"c":2}}"#);
        tree.remove("a.b");
        tree.remove("x.y");
        assert_eq!(tree.to_json().to_string(), r#"{"a":{"c":2}}"#);
    }
}

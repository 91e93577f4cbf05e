//! YAML to trees: anchors, aliases and merge keys resolved, within limits.

use std::collections::HashMap;

use granit_parser::{Event, Marker, Parser, ScalarStyle, Tag};

use super::keys::{self, Merge};
use super::scalar::{self, NoJson};
use super::text::refused_character;
use super::{MAX_ALIASED, MAX_DEPTH, Stop};
use crate::finding::Problem;
use crate::place::Position;
use crate::tree::{Key, Node, Value};

/// All documents of a YAML text.
pub(super) fn documents(text: &str) -> Result<Vec<Node>, Stop> {
    if let Some(stop) = refused_character(text) {
        return Err(stop);
    }
    let options = granit_parser::options! {
        emit_comments: false,
        flow_nesting_limit: MAX_DEPTH + 1,
        block_nesting_limit: MAX_DEPTH + 1,
    };
    let mut builder = Builder::default();
    for event in Parser::new_from_str_with_options(text, options) {
        let (event, span) =
            event.map_err(|error| Stop::syntax(position(*error.marker()), error.kind().to_string()))?;
        builder.take(event, position(span.start))?;
    }
    Ok(builder.documents)
}

fn position(marker: Marker) -> Position {
    Position::new(marker.line(), marker.col() + 1)
}

#[derive(Default)]
struct Builder {
    documents: Vec<Node>,
    open: Vec<Frame>,
    anchors: HashMap<usize, Anchored>,
    aliased: usize,
    values: usize,
}

/// A finished node that aliases may name, with its extent.
struct Anchored {
    node: Node,
    count: usize,
    depth: usize,
}

/// A list or mapping that is not at its end yet.
struct Frame {
    at: Position,
    anchor: usize,
    content: Content,
}

enum Content {
    List(Vec<Node>),
    Map { entries: Vec<(Key, Node)>, key: Option<Key>, merge: Option<Merge>, merging: Merging },
}

/// Whether the next value of a mapping is that of its merge key.
#[derive(PartialEq)]
enum Merging {
    No,
    Next,
}

impl Builder {
    fn take(&mut self, event: Event<'_>, at: Position) -> Result<(), Stop> {
        match event {
            Event::DocumentStart(..) => {
                self.anchors.clear();
                self.aliased = 0;
                Ok(())
            }
            Event::Scalar(text, style, anchor, tag) => {
                let is_bare = style == ScalarStyle::Plain && tag.is_none();
                if is_bare && text == "<<" && self.awaits_key() {
                    return self.start_merge(at);
                }
                let value = scalar_value(&text, style, tag.as_deref(), at)?;
                self.finish(Node { at, value }, anchor)
            }
            Event::SequenceStart(_, anchor, tag) => {
                self.open(Frame { at, anchor, content: Content::List(Vec::new()) }, tag.as_deref())
            }
            Event::MappingStart(_, anchor, tag) => {
                let content =
                    Content::Map { entries: Vec::new(), key: None, merge: None, merging: Merging::No };
                self.open(Frame { at, anchor, content }, tag.as_deref())
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(),
            Event::Alias(id) => self.alias(id, at),
            _ => Ok(()),
        }
    }

    fn awaits_key(&self) -> bool {
        matches!(
            self.open.last(),
            Some(Frame { content: Content::Map { key: None, merging: Merging::No, .. }, .. })
        )
    }

    fn start_merge(&mut self, at: Position) -> Result<(), Stop> {
        let Some(Frame { content: Content::Map { entries, merge, merging, .. }, .. }) = self.open.last_mut()
        else {
            return Ok(());
        };
        if let Some(first) = merge {
            return Err(Stop::new(at, Problem::DuplicateKey { key: "<<".into(), first: first.key.at }));
        }
        let key = Key { at, name: "<<".into() };
        *merge = Some(Merge { key, after: entries.len(), value: None });
        *merging = Merging::Next;
        Ok(())
    }

    fn open(&mut self, frame: Frame, tag: Option<&Tag>) -> Result<(), Stop> {
        let fits = match (tag.and_then(Tag::core_suffix), &frame.content) {
            (Some("seq"), Content::List(_)) | (Some("map"), Content::Map { .. }) => true,
            _ => tag.is_none(),
        };
        if !fits {
            return Err(unknown_tag(frame.at));
        }
        if self.open.len() >= MAX_DEPTH {
            return Err(Stop::too_deep(frame.at));
        }
        self.open.push(frame);
        Ok(())
    }

    fn close(&mut self) -> Result<(), Stop> {
        let Some(frame) = self.open.pop() else { return Ok(()) };
        let value = match frame.content {
            Content::List(items) => Value::List(items),
            Content::Map { mut entries, merge, .. } => {
                if let Some(stop) = keys::duplicate(&entries) {
                    return Err(stop);
                }
                if let Some(merge) = merge {
                    keys::merge(&mut entries, &merge)?;
                }
                Value::Map(entries)
            }
        };
        self.finish(Node { at: frame.at, value }, frame.anchor)
    }

    fn alias(&mut self, id: usize, at: Position) -> Result<(), Stop> {
        let Some(target) = self.anchors.get(&id) else {
            return Err(Stop::syntax(at, "the alias stands inside of what it names"));
        };
        self.aliased += target.count;
        if self.aliased > MAX_ALIASED {
            let problem = Problem::TooMuch { what: "values out of aliases", limit: MAX_ALIASED };
            return Err(Stop::new(at, problem));
        }
        if self.open.len() + target.depth > MAX_DEPTH {
            return Err(Stop::too_deep(at));
        }
        let copy = target.node.clone();
        self.put(copy)
    }

    fn finish(&mut self, node: Node, anchor: usize) -> Result<(), Stop> {
        Stop::count(&mut self.values, node.at)?;
        if anchor != 0 {
            let (count, depth) = node.extent();
            self.anchors.insert(anchor, Anchored { node: node.clone(), count, depth });
        }
        self.put(node)
    }

    fn put(&mut self, node: Node) -> Result<(), Stop> {
        let Some(frame) = self.open.last_mut() else {
            self.documents.push(node);
            return Ok(());
        };
        match &mut frame.content {
            Content::List(items) => items.push(node),
            Content::Map { merge: Some(merge), merging, .. } if *merging == Merging::Next => {
                merge.value = Some(node);
                *merging = Merging::No;
            }
            Content::Map { entries, key, .. } => match key.take() {
                Some(key) => entries.push((key, node)),
                None => *key = Some(key_of(&node)?),
            },
        }
        Ok(())
    }
}

fn unknown_tag(at: Position) -> Stop {
    Stop::syntax(at, "a tag that Kubernetes objects have no use for")
}

fn scalar_value(text: &str, style: ScalarStyle, tag: Option<&Tag>, at: Position) -> Result<Value, Stop> {
    let resolved = || {
        scalar::resolve(text)
            .map_err(|NoJson| Stop::syntax(at, format!("{text} is not a number that JSON can express")))
    };
    let Some(tag) = tag else {
        return if style == ScalarStyle::Plain { resolved() } else { Ok(Value::Text(text.to_owned())) };
    };
    let is_non_specific = tag.handle().is_empty() && tag.suffix() == "!";
    let value = match tag.core_suffix() {
        Some("str" | "timestamp") => Ok(Value::Text(text.to_owned())),
        None if is_non_specific => Ok(Value::Text(text.to_owned())),
        Some("bool" | "int" | "float" | "null") => resolved(),
        _ => Err(unknown_tag(at)),
    }?;
    let fits = match (tag.core_suffix(), &value) {
        (Some("bool"), value) => matches!(value, Value::Bool(_)),
        (Some("int"), value) => matches!(value, Value::Int(_) | Value::Unsigned(_)),
        (Some("float"), value) => matches!(value, Value::Int(_) | Value::Unsigned(_) | Value::Float(_)),
        (Some("null"), value) => *value == Value::Null,
        _ => true,
    };
    if fits { Ok(value) } else { Err(Stop::syntax(at, "the value does not fit its tag")) }
}

/// JSON's keys are text; YAML's others become it as Kubernetes does that: `on` is "true", 010 is "8".
fn key_of(node: &Node) -> Result<Key, Stop> {
    let name: String = match &node.value {
        Value::Text(text) => text.clone(),
        Value::Bool(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
        Value::Unsigned(value) => value.to_string(),
        Value::Float(value) if (1e-4..1e15).contains(&value.abs()) => value.to_string(),
        _ => return Err(Stop::syntax(node.at, "a key must be a word, a number or a boolean")),
    };
    Ok(Key { at: node.at, name: name.into() })
}

#[cfg(test)]
mod tests;

use std::sync::Arc;

use crate::finding::{Finding, Problem};
use crate::object::{Object, Resource};
use crate::place::{Path, Position};
use crate::read::{self, Stop};
use crate::tree::{Node, Value};
use crate::typed::Fault;

/// What a text holds.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Reading {
    /// The objects that were read without a doubt.
    pub objects: Vec<Object>,
    /// Objects of kinds that we have no use for.
    pub skipped: Vec<Skipped>,
    /// What is wrong. An object with anything wrong is not among the objects.
    pub findings: Vec<Finding>,
}

/// An object of a kind that we have no use for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    /// The file it is in.
    pub file: Arc<str>,
    /// Where.
    pub at: Position,
    /// Its group and version.
    pub api_version: String,
    /// Its kind.
    pub kind: String,
    /// Its name; empty when it has none.
    pub name: String,
}

/// What to do with fields that the API we know does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unknowns {
    /// The object is refused: for manifests that people write.
    Refuse,
    /// They are read over with a warning, for objects of an API server that may be newer than we are.
    /// Refused all the same is one in a securityContext or beside hostUsers: it could be a wish for
    /// isolation that we do not know.
    Warn,
}

/// Reads a manifest strictly. `file` is its name for messages.
#[must_use]
pub fn read(file: &str, bytes: &[u8]) -> Reading {
    read_with(file, bytes, Unknowns::Refuse)
}

/// Reads a manifest; `unknowns` decides on unknown fields.
#[must_use]
pub fn read_with(file: &str, bytes: &[u8], unknowns: Unknowns) -> Reading {
    read_listed(file, bytes, unknowns, &Listed::default())
}

/// Reads a part of a list that the caller has cut out of it; `unknowns` decides on unknown fields.
#[must_use]
pub fn read_listed(file: &str, bytes: &[u8], unknowns: Unknowns, listed: &Listed) -> Reading {
    let mut sorter = Sorter { file: file.into(), unknowns, reading: Reading::default() };
    match read::documents(bytes) {
        Ok(documents) => documents.into_iter().for_each(|tree| sorter.take(tree, "", listed)),
        Err(Stop { at, problem }) => sorter.find(at, String::new(), problem),
    }
    sorter.reading
}

impl Reading {
    /// Adds what another text holds.
    pub fn extend(&mut self, other: Self) {
        self.objects.extend(other.objects);
        self.skipped.extend(other.skipped);
        self.findings.extend(other.findings);
    }
}

/// What a list says of its items, which need not say it again: `kind: PodList`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listed {
    /// Their group and version; empty where the list does not say.
    pub api_version: String,
    /// Their kind; empty where the list does not say.
    pub kind: String,
}

struct Sorter {
    file: Arc<str>,
    unknowns: Unknowns,
    reading: Reading,
}

impl Sorter {
    fn find(&mut self, at: Position, path: String, problem: Problem) {
        self.reading.findings.push(Finding { file: self.file.clone(), at, path, problem });
    }

    fn take(&mut self, tree: Node, prefix: &str, listed: &Listed) {
        if tree.value == Value::Null && prefix.is_empty() {
            return;
        }
        if !matches!(tree.value, Value::Map(_)) {
            let problem = Problem::WrongType { expected: "an object".into(), found: word_for(&tree.value) };
            return self.find(tree.at, prefix.to_owned(), problem);
        }
        let Some(api_version) = self.header(&tree, prefix, "apiVersion", &listed.api_version) else {
            return;
        };
        let Some(kind) = self.header(&tree, prefix, "kind", &listed.kind) else { return };
        match kind.strip_suffix("List") {
            Some(item) if tree.get("items").is_some() => self.list(tree, prefix, &api_version, item),
            _ => self.object(tree, prefix, api_version, kind),
        }
    }

    /// The object's version or kind: its own, or else what its list says.
    fn header(&mut self, tree: &Node, prefix: &str, name: &str, listed: &str) -> Option<String> {
        let under = Path::Under(prefix);
        let path = under.field(name);
        match tree.get(name).map(|node| &node.value) {
            Some(Value::Text(text)) if !text.is_empty() => Some(text.clone()),
            None | Some(Value::Null | Value::Text(_)) if !listed.is_empty() => Some(listed.to_owned()),
            None | Some(Value::Null | Value::Text(_)) => {
                self.find(tree.place_of(&path), path.to_string(), Problem::Required);
                None
            }
            Some(other) => {
                let problem = Problem::WrongType { expected: "a string".into(), found: word_for(other) };
                self.find(tree.place_of(&path), path.to_string(), problem);
                None
            }
        }
    }

    fn list(&mut self, mut tree: Node, prefix: &str, api_version: &str, item: &str) {
        let under = Path::Under(prefix);
        let path = under.field("items");
        let listed = match item {
            "" => Listed::default(),
            kind => Listed { api_version: api_version.to_owned(), kind: kind.to_owned() },
        };
        match take_items(&mut tree) {
            Some(Value::List(items)) => {
                for (index, node) in items.into_iter().enumerate() {
                    self.take(node, &path.index(index).to_string(), &listed);
                }
            }
            None | Some(Value::Null) => {}
            Some(other) => {
                let problem = Problem::WrongType { expected: "a list".into(), found: word_for(&other) };
                self.find(tree.place_of(&path), path.to_string(), problem);
            }
        }
    }

    fn object(&mut self, tree: Node, prefix: &str, api_version: String, kind: String) {
        let Some(read) = Resource::read(&api_version, &kind, &tree, prefix) else {
            let name = tree.get("metadata").and_then(|m| m.text("name")).unwrap_or_default().to_owned();
            self.reading.skipped.push(Skipped {
                file: self.file.clone(),
                at: tree.at,
                api_version,
                kind,
                name,
            });
            return;
        };
        let (refused, warnings): (Vec<Fault>, Vec<Fault>) =
            read.faults.into_iter().partition(|fault| !self.is_harmless(&kind, fault));
        let file = self.file.clone();
        let found = |f: Fault| Finding { file: file.clone(), at: f.at, path: f.path, problem: f.problem };
        match read.resource {
            Some(resource) if refused.is_empty() => self.reading.objects.push(Object {
                file: file.clone(),
                prefix: prefix.to_owned(),
                tree,
                resource,
                warnings: warnings.into_iter().map(found).collect(),
            }),
            _ => self.reading.findings.extend(refused.into_iter().chain(warnings).map(found)),
        }
    }

    fn is_harmless(&self, kind: &str, fault: &Fault) -> bool {
        let is_unknown = matches!(fault.problem, Problem::UnknownField { .. });
        let parents = fault.names.split_last().map_or(&[][..], |(_, parents)| parents);
        let is_beside_host_users = match parents {
            [spec] => kind == "Pod" && spec == "spec",
            [.., template, spec] => template == "template" && spec == "spec",
            [] => false,
        };
        let is_sensitive = is_beside_host_users || parents.iter().any(|name| name == "securityContext");
        self.unknowns == Unknowns::Warn && is_unknown && !is_sensitive
    }
}

fn take_items(tree: &mut Node) -> Option<Value> {
    let Value::Map(entries) = &mut tree.value else { return None };
    let (_, items) = entries.iter_mut().find(|(key, _)| &*key.name == "items")?;
    Some(std::mem::replace(&mut items.value, Value::Null))
}

fn word_for(value: &Value) -> String {
    match value {
        Value::Null => "null".into(),
        Value::Bool(value) => format!("boolean {value}"),
        Value::Int(_) | Value::Unsigned(_) | Value::Float(_) => "a number".into(),
        Value::Text(text) => format!("string {:?}", text.chars().take(40).collect::<String>()),
        Value::List(_) => "a list".into(),
        Value::Map(_) => "a mapping".into(),
    }
}

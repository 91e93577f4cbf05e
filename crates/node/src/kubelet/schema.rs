//! A file's tree against the table of fields: unknown names and wrong types, with where they are.

use super::field::{Class, Kind};
use super::fields::{self, FIELDS};
use super::tree::{Entry, Node, Value};
use super::{Problem, ProblemKind, convert};

const API_VERSION: &str = "kubelet.config.k8s.io/v1beta1";
const KIND: &str = "KubeletConfiguration";
/// Names less alike than this are not offered.
const ALIKE: f64 = 0.6;

/// The tree with values as their fields hold them, without apiVersion and kind. Problems are added to `problems`; what
/// has one is left out.
pub(super) fn checked(tree: Node, problems: &mut Vec<Problem>) -> Node {
    let Value::Map(mut entries) = tree.value else {
        let cause = "it is no map of fields".to_owned();
        problems.push(Problem {
            at: tree.at,
            field: String::new(),
            kind: ProblemKind::WrongType,
            cause,
            hint: format!("begin with apiVersion: {API_VERSION} and kind: {KIND}"),
        });
        return Node::empty();
    };
    let at = tree.at.clone();
    for (name, expected) in [("apiVersion", API_VERSION), ("kind", KIND)] {
        let found = entries.iter().position(|entry| entry.name == name).map(|index| entries.remove(index));
        let (at, cause) = match found {
            None => (at.clone(), "it is not set".to_owned()),
            Some(entry) if entry.node.value.same(&Value::Text(expected.to_owned())) => continue,
            Some(entry) => (entry.at, format!("it is {}, not {expected}", entry.node.to_json())),
        };
        let hint = format!("write {name}: {expected}");
        problems.push(Problem { at, field: name.to_owned(), kind: ProblemKind::Invalid, cause, hint });
    }
    let entries = object(entries, &Place { rows: String::new(), shown: String::new() }, problems);
    Node { at: tree.at, value: Value::Map(entries) }
}

/// Where fields are: the prefix of their rows in the table, and their path for a reader.
struct Place {
    rows: String,
    shown: String,
}

impl Place {
    fn of(&self, name: &str) -> Self {
        let join =
            |prefix: &str| if prefix.is_empty() { name.to_owned() } else { format!("{prefix}.{name}") };
        Self { rows: join(&self.rows), shown: join(&self.shown) }
    }

    fn item(&self, index: usize) -> Self {
        Self { rows: format!("{}[]", self.rows), shown: format!("{}[{index}]", self.shown) }
    }
}

fn object(entries: Vec<Entry>, place: &Place, problems: &mut Vec<Problem>) -> Vec<Entry> {
    let mut kept = Vec::new();
    for entry in entries {
        let below = place.of(&entry.name);
        let Some(row) = fields::find(&below.rows) else {
            problems.push(unknown(&entry, &below));
            continue;
        };
        let Entry { name, at, node } = entry;
        let value = match (row.kind, node.value) {
            (_, Value::Null) => Some(Value::Null),
            (Kind::Object, Value::Map(entries)) => Some(Value::Map(object(entries, &below, problems))),
            (Kind::ObjectList, Value::List(items)) => Some(list(items, &below, problems)),
            (kind, value) => match convert::converted(kind, value) {
                Ok(value) => Some(value),
                Err(mismatch) => {
                    problems.push(mismatch.at(at.clone(), below.shown));
                    None
                }
            },
        };
        let Some(value) = value else { continue };
        if row.is_in_list()
            && let Class::Refused { reason, hint, .. } = row.class
            && fields::find(&parent(row.path))
                .is_some_and(|list| matches!(list.class, Class::Honoured { .. } | Class::NotYet { .. }))
        {
            let (cause, hint) = (reason.to_owned(), hint.to_owned());
            let field = place.of(&name).shown;
            problems.push(Problem { at, field, kind: ProblemKind::Refused, cause, hint });
            continue;
        }
        kept.push(Entry { name, at, node: Node { at: node.at, value } });
    }
    kept
}

/// The list that a field of its items belongs to.
fn parent(path: &str) -> String {
    path.split_once("[]").map_or(path, |(list, _)| list).to_owned()
}

fn list(items: Vec<Node>, place: &Place, problems: &mut Vec<Problem>) -> Value {
    let mut kept = Vec::new();
    for (index, item) in items.into_iter().enumerate() {
        let below = place.item(index);
        match item.value {
            Value::Map(entries) => {
                let value = Value::Map(object(entries, &below, problems));
                kept.push(Node { at: item.at, value });
            }
            value => {
                if let Err(mismatch) = convert::converted(Kind::Object, value) {
                    problems.push(mismatch.at(item.at, below.shown));
                }
            }
        }
    }
    Value::List(kept)
}

fn unknown(entry: &Entry, place: &Place) -> Problem {
    Problem {
        at: entry.at.clone(),
        field: place.shown.clone(),
        kind: ProblemKind::Unknown,
        cause: "KubeletConfiguration of Kubernetes 1.37 has no such field".to_owned(),
        hint: nearest(&place.rows)
            .map_or_else(|| "remove it".to_owned(), |name| format!("did you mean {name}?")),
    }
}

/// The field whose last name is most like that of `path`; of equally good ones the one beside it.
fn nearest(path: &str) -> Option<&'static str> {
    let word = |path: &str| path.rsplit('.').next().unwrap_or_default().to_lowercase();
    let section = |path: &str| path.rsplit_once('.').map(|(section, _)| section.to_owned());
    let wanted = word(path);
    let scored = FIELDS.iter().map(|field| {
        let score = strsim::normalized_damerau_levenshtein(&word(field.path), &wanted);
        (score, section(field.path) == section(path), field.path)
    });
    let best = scored
        .filter(|(score, ..)| *score >= ALIKE)
        .max_by(|a, b| a.0.total_cmp(&b.0).then_with(|| a.1.cmp(&b.1)));
    best.map(|(_, _, path)| path)
}

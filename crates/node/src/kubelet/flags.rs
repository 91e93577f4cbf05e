use super::field::Kind;
use super::flag::{FLAGS, Flag, FlagTarget};
use super::tree::{Entry, Node, Value};
use super::view::Why;
use super::{KubeletConfigError, NodeFlags, Notice, Origin, Problem, ProblemKind, convert, fields};

/// The flags of a command line, as far as they were set.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct KubeletFlags {
    /// What belongs to this node alone.
    pub node: NodeFlags,
    pub(super) overrides: Vec<Override>,
    pub(super) notices: Vec<Notice>,
}

/// A field that a flag sets.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Override {
    pub(super) path: &'static str,
    pub(super) node: Node,
}

impl KubeletFlags {
    /// Reads a command line: `--name=value`, `--name value`, and `--name` for a boolean.
    ///
    /// # Errors
    /// If an argument is no flag, a flag has no value, or [`set`](Self::set) refuses it.
    pub fn parse(arguments: &[String]) -> Result<Self, KubeletConfigError> {
        let mut flags = Self::default();
        let mut rest = arguments.iter().peekable();
        while let Some(argument) = rest.next() {
            let Some(flag) = argument.strip_prefix('-') else {
                let why = Why::new("it is no flag of a kubelet", "write --NAME=VALUE");
                return Err(invalid(Origin::Flag(argument.clone()), "", ProblemKind::Unknown, why));
            };
            if let Some((name, text)) = flag.split_once('=') {
                flags.set(name, text)?;
                continue;
            }
            let value = match takes_value(flag) {
                Some(true) => rest.next(),
                Some(false) => None,
                // Where the type does not matter; a kubelet has no other arguments.
                None => rest.next_if(|next| !next.starts_with('-')),
            };
            match value {
                None if takes_value(flag) == Some(true) => {
                    let why = Why::new("it has no value", "write --NAME=VALUE");
                    let name = flag.trim_start_matches('-').to_owned();
                    return Err(invalid(Origin::Flag(name), "", ProblemKind::Invalid, why));
                }
                value => flags.set(flag, value.map_or("true", String::as_str))?,
            }
        }
        Ok(flags)
    }

    /// Takes one flag. The name may have dashes before it, and underscores for dashes inside; a flag of a boolean without
    /// a value has the value `true`. Flags of lists and maps add up when they are repeated, all others replace.
    ///
    /// # Errors
    /// If a kubelet 1.37 has no such flag, the value is not of its type, or the agent refuses it.
    pub fn set(&mut self, name: &str, text: &str) -> Result<(), KubeletConfigError> {
        let name = normal(name);
        let at = Origin::Flag(name.clone());
        let problem = |field: &str, kind: ProblemKind, why: Why| invalid(at.clone(), field, kind, why);
        let Some(flag) = find(&name) else {
            return Err(problem("", ProblemKind::Unknown, unknown(&name)));
        };
        match flag.target {
            FlagTarget::Node(node) => {
                self.node.set(node, text).map_err(|why| problem("", ProblemKind::Invalid, why))
            }
            FlagTarget::NoEffect(reason) => {
                self.notices.push(Notice { at, field: String::new(), reason: reason.to_owned() });
                Ok(())
            }
            FlagTarget::Refused { .. } if text.is_empty() || text == "false" => Ok(()),
            FlagTarget::Refused { reason, hint } => {
                Err(problem("", ProblemKind::Refused, Why::new(reason, hint)))
            }
            FlagTarget::Field(path) => {
                let value = value_of(flag, path, text).map_err(|mismatch| {
                    KubeletConfigError::Invalid(vec![mismatch.at(at.clone(), path.to_owned())])
                })?;
                self.add(Override { path, node: placed(Node { at: at.clone(), value }, &at) });
                Ok(())
            }
        }
    }

    fn add(&mut self, new: Override) {
        match self.overrides.iter_mut().find(|old| old.path == new.path) {
            None => self.overrides.push(new),
            Some(old) => match (&mut old.node.value, new.node.value) {
                (Value::List(items), Value::List(more)) if new.path != "registerWithTaints" => {
                    items.extend(more)
                }
                (Value::Map(_), Value::Map(entries)) => {
                    old.node.merge(Node { at: new.node.at, value: Value::Map(entries) });
                }
                (value, new) => *value = new,
            },
        }
    }
}

fn normal(name: &str) -> String {
    name.trim_start_matches('-').replace('_', "-")
}

fn find(name: &str) -> Option<&'static Flag> {
    FLAGS.iter().find(|flag| flag.name == name)
}

fn invalid(at: Origin, field: &str, kind: ProblemKind, why: Why) -> KubeletConfigError {
    let Why { cause, hint } = why;
    KubeletConfigError::Invalid(vec![Problem { at, field: field.to_owned(), kind, cause, hint }])
}

/// Whether a flag has a value of its own; `None` where its type is not known.
fn takes_value(name: &str) -> Option<bool> {
    match find(&normal(name))?.target {
        FlagTarget::Node(_) => Some(true),
        FlagTarget::Field(path) => fields::find(path).map(|field| field.kind != Kind::Bool),
        FlagTarget::NoEffect(_) | FlagTarget::Refused { .. } => None,
    }
}

fn unknown(name: &str) -> Why {
    let score = |flag: &&Flag| strsim::normalized_damerau_levenshtein(flag.name, name);
    let best = FLAGS.iter().filter(|flag| score(flag) >= 0.6).max_by(|a, b| score(a).total_cmp(&score(b)));
    let hint = best.map_or_else(|| "remove it".to_owned(), |flag| format!("did you mean --{}?", flag.name));
    Why::new("a kubelet 1.37 has no such flag", hint)
}

fn value_of(flag: &Flag, path: &str, text: &str) -> Result<Value, convert::Mismatch> {
    let kind = fields::find(path).map_or(Kind::Text, |field| field.kind);
    let separator = if ["eviction-hard", "eviction-soft"].contains(&flag.name) { '<' } else { '=' };
    match kind {
        Kind::ObjectList if path == "registerWithTaints" => Ok(Value::List(taints(text))),
        // The agent does nothing with these lists, so that what they hold does not matter.
        Kind::ObjectList if text.is_empty() => Ok(Value::List(Vec::new())),
        Kind::ObjectList => Ok(Value::List(vec![text_node(text)])),
        Kind::TextListMap => Ok(Value::Map(vec![entry(text, "")])),
        kind => convert::from_text(kind, text, separator),
    }
}

/// `key=value:effect`, separated by commas.
fn taints(text: &str) -> Vec<Node> {
    let taint = |word: &str| {
        let (pair, effect) = word.split_once(':').unwrap_or((word, ""));
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        let entries = vec![entry("key", key), entry("value", value), entry("effect", effect)];
        Node { at: Origin::Default, value: Value::Map(entries) }
    };
    text.split(',').filter(|word| !word.is_empty()).map(taint).collect()
}

fn entry(name: &str, text: &str) -> Entry {
    Entry { name: name.to_owned(), at: Origin::Default, node: text_node(text) }
}

fn text_node(text: &str) -> Node {
    Node { at: Origin::Default, value: Value::Text(text.to_owned()) }
}

/// The tree with every value set by the flag.
fn placed(node: Node, at: &Origin) -> Node {
    let value = match node.value {
        Value::List(items) => Value::List(items.into_iter().map(|item| placed(item, at)).collect()),
        Value::Map(entries) => {
            let entries = entries.into_iter().map(|entry| Entry {
                name: entry.name,
                at: at.clone(),
                node: placed(entry.node, at),
            });
            Value::Map(entries.collect())
        }
        value => value,
    };
    Node { at: at.clone(), value }
}

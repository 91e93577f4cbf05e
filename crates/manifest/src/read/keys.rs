//! Objects from their keys: no key twice, merge keys resolved.

use std::collections::HashMap;
use std::sync::Arc;

use super::Stop;
use crate::finding::Problem;
use crate::place::Position;
use crate::tree::{Key, Node, Value};

/// An object with more keys than this is checked with an index, others by looking.
const FEW: usize = 16;

/// The first key that is there twice.
pub(super) fn duplicate(entries: &[(Key, Node)]) -> Option<Stop> {
    let twice = |first: &Key, second: &Key| {
        let problem = Problem::DuplicateKey { key: second.name.to_string(), first: first.at };
        Stop::new(second.at, problem)
    };
    if entries.len() <= FEW {
        let seen = |index: usize, key: &Key| entries.iter().take(index).find(|(k, _)| k.name == key.name);
        let mut keys = entries.iter().enumerate();
        return keys.find_map(|(i, (key, _))| seen(i, key).map(|(first, _)| twice(first, key)));
    }
    let mut index: HashMap<&str, &Key> = HashMap::with_capacity(entries.len());
    entries.iter().find_map(|(key, _)| index.insert(&key.name, key).map(|first| twice(first, key)))
}

/// A merge key: where it stands among the object's own keys, and its value.
#[derive(Debug)]
pub(super) struct Merge {
    pub(super) key: Key,
    pub(super) after: usize,
    pub(super) value: Option<Node>,
}

/// Adds what a merge key brings to an object's own keys.
///
/// An own key after the merge key holds against it everywhere. One before it loses in the reader
/// that Kubernetes uses and wins by YAML's rules: refused.
pub(super) fn merge(own: &mut Vec<(Key, Node)>, merge: &Merge) -> Result<(), Stop> {
    let mut places: HashMap<Arc<str>, Option<usize>> =
        own.iter().enumerate().map(|(index, (key, _))| (key.name.clone(), Some(index))).collect();
    for (key, node) in sources(merge.value.as_ref(), merge.key.at)?.into_iter().flatten() {
        match places.get(&key.name) {
            Some(Some(index)) if *index < merge.after => {
                let at = own.get(*index).map_or(key.at, |(k, _)| k.at);
                return Err(Stop::new(at, Problem::MergedOver { key: key.name.to_string() }));
            }
            Some(_) => {}
            None => {
                places.insert(key.name.clone(), None);
                own.push((key, node));
            }
        }
    }
    Ok(())
}

/// The objects that a merge key names, the one that holds first.
fn sources(value: Option<&Node>, at: Position) -> Result<Vec<Vec<(Key, Node)>>, Stop> {
    let wrong = || Stop::syntax(at, "a merge key takes a mapping or a list of mappings");
    match value.map(|node| &node.value) {
        Some(Value::Map(entries)) => Ok(vec![entries.clone()]),
        Some(Value::List(items)) => {
            let maps = items.iter().map(|item| match &item.value {
                Value::Map(entries) => Ok(entries.clone()),
                _ => Err(wrong()),
            });
            maps.collect()
        }
        _ => Err(wrong()),
    }
}

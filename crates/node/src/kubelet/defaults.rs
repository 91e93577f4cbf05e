//! What holds where nothing is set.

use super::field::Kind;
use super::fields::FIELDS;
use super::tree::{Entry, Node, Value};
use super::{Origin, convert};

/// Hard eviction thresholds of a configuration file that sets none.
const EVICTION_HARD: &str = "memory.available=100Mi,nodefs.available=10%,nodefs.inodesFree=5%,imagefs.available=15%,imagefs.inodesFree=5%";

/// Sets every field that is unset. A zero is unset where a kubelet cannot tell it from no value.
pub(super) fn apply(tree: &mut Node) {
    apply_dependent(tree);
    let fields = FIELDS.iter().filter(|field| field.kind != Kind::Object && !field.is_in_list());
    for field in fields {
        let unset = tree
            .get(field.path)
            .is_none_or(|node| node.value == Value::Null || (!field.keeps_zero && node.value.is_zero()));
        if !unset {
            continue;
        }
        tree.remove(field.path);
        if !field.default.is_empty()
            && let Ok(value) = convert::from_text(field.kind, field.default, '=')
        {
            tree.set(field.path, by_default(value));
        }
    }
}

/// Defaults that depend on other fields.
fn apply_dependent(tree: &mut Node) {
    let is_set = |tree: &Node, path: &str| tree.get(path).is_some_and(|node| !node.value.is_zero());
    if !is_set(tree, "nodeStatusReportFrequency")
        && let Some(update) = tree.get("nodeStatusUpdateFrequency").filter(|node| !node.value.is_zero())
    {
        let value = update.value.clone();
        tree.set("nodeStatusReportFrequency", by_default(value));
    }
    let parallel =
        tree.get("maxParallelImagePulls").is_some_and(|node| matches!(node.value, Value::Int(2..)));
    if parallel && tree.get("serializeImagePulls").is_none_or(|node| node.value == Value::Null) {
        tree.set("serializeImagePulls", by_default(Value::Bool(false)));
    }
    if tree.get("podPidsLimit").is_some_and(|node| matches!(node.value, Value::Int(..0))) {
        tree.remove("podPidsLimit");
    }
}

/// Hard eviction thresholds of a configuration file: all defaults if it sets none, and those that it does not set if it
/// says so by mergeDefaultEvictionSettings.
pub(super) fn apply_eviction(tree: &mut Node) {
    let Ok(Value::Map(defaults)) = convert::from_text(Kind::TextMap, EVICTION_HARD, '=') else { return };
    let merge = tree.get("mergeDefaultEvictionSettings").is_some_and(|node| node.value == Value::Bool(true));
    match tree.get("evictionHard") {
        None => tree.set("evictionHard", by_default(Value::Map(defaults))),
        Some(node) if merge => {
            let mut node = node.clone();
            let missing = |entry: &Entry| !node.entries().iter().any(|set| set.name == entry.name);
            let missing: Vec<Entry> = defaults.into_iter().filter(missing).collect();
            if let Value::Map(entries) = &mut node.value {
                entries.extend(missing);
            }
            tree.set("evictionHard", node);
        }
        Some(_) => {}
    }
}

fn by_default(value: Value) -> Node {
    Node { at: Origin::Default, value }
}

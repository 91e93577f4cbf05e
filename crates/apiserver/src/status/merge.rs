//! The strategic merge patch between a pod's status in the API and the desired one.

use serde_json::{Map, Value, json};

use crate::status::resources;

/// Lists that the API merges by a key of their entries. All others are replaced.
const MERGED: [&str; 2] = ["podIPs", "hostIPs"];
/// Fields whose keys the API merges.
const MAPS: [&str; 2] = resources::FIELDS;

/// The patch of `pods/status` that makes the status in the API the desired one; `None` if nothing differs. The UID is a
/// precondition. Conditions of others stay.
#[must_use]
pub fn patch(live: &Value, desired: &Map<String, Value>) -> Option<Value> {
    let nothing = Map::new();
    let before = live.get("status").and_then(Value::as_object).unwrap_or(&nothing);
    let mut changes = Map::new();
    for (key, wanted) in desired {
        let known = before.get(key).unwrap_or(&Value::Null);
        if key == "conditions" {
            changes.extend(conditions(known, wanted));
        } else if without_nulls(known) != without_nulls(wanted) {
            changes.insert(key.clone(), replaced(key, wanted));
        }
    }
    if changes.is_empty() {
        return None;
    }
    let uid = live.get("metadata").and_then(|metadata| metadata.get("uid")).cloned().unwrap_or_default();
    Some(json!({"metadata": {"uid": uid}, "status": changes}))
}

fn replaced(key: &str, wanted: &Value) -> Value {
    match wanted {
        Value::Array(entries) if MERGED.contains(&key) => {
            let directive = json!({"$patch": "replace"});
            Value::Array(entries.iter().cloned().chain([directive]).collect())
        }
        Value::Object(fields) if MAPS.contains(&key) => {
            let mut fields = fields.clone();
            fields.insert("$patch".to_owned(), json!("replace"));
            Value::Object(fields)
        }
        other => other.clone(),
    }
}

/// The conditions that differ, and the order of all: those of others first.
fn conditions(known: &Value, wanted: &Value) -> Map<String, Value> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let (known, wanted) = (list(known), list(wanted));
    let is_same = |one: &Value, other: &Value| {
        let keys = ["status", "reason", "message", "observedGeneration", "lastTransitionTime"];
        keys.iter().all(|key| one.get(key).unwrap_or(&Value::Null) == other.get(key).unwrap_or(&Value::Null))
    };
    let differs = |wanted: &&Value| {
        let same = known.iter().find(|known| known.get("type") == wanted.get("type"));
        !same.is_some_and(|known| is_same(known, wanted))
    };
    let is_foreign = |one: &&Value| !wanted.iter().any(|wanted| wanted.get("type") == one.get("type"));
    // Only these of our conditions are absent at times.
    let is_over = |one: &&Value| {
        let kind = one.get("type").and_then(Value::as_str);
        is_foreign(one) && kind.is_some_and(|kind| resources::CONDITIONS.contains(&kind))
    };
    let over = known.iter().filter(is_over);
    let over = over.map(|one| json!({"$patch": "delete", "type": one.get("type")}));
    let changed: Vec<Value> = wanted.iter().filter(differs).cloned().chain(over).collect();
    let mut changes = Map::new();
    if !changed.is_empty() {
        let stays = |one: &&Value| is_foreign(one) && !is_over(one);
        let order = known.iter().filter(stays).chain(&wanted);
        let order: Vec<Value> = order.map(|one| json!({"type": one.get("type")})).collect();
        changes.insert("$setElementOrder/conditions".into(), Value::Array(order));
        changes.insert("conditions".into(), Value::Array(changed));
    }
    changes
}

/// A value without the fields that are null: the API writes some of them and leaves out others.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(_, value)| !value.is_null());
            Value::Object(kept.map(|(key, value)| (key.clone(), without_nulls(value))).collect())
        }
        Value::Array(entries) => Value::Array(entries.iter().map(without_nulls).collect()),
        other => other.clone(),
    }
}

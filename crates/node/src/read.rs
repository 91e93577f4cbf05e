use std::io;
use std::path::Path;

use ids::BlockLength;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::{Config, GateFlags, GatesError, Settings, SettingsError, unknown, wrapper};

/// The configuration in `named`, or in `default` if that is there.
pub fn load(named: Option<&Path>, default: &Path) -> Result<Config, SettingsError> {
    let file = named.unwrap_or(default);
    match std::fs::read_to_string(file) {
        Ok(text) => Ok(Config { settings: parse(file, &text)?, file: Some(file.to_owned()) }),
        Err(e) if e.kind() == io::ErrorKind::NotFound && named.is_none() => Ok(Config::default()),
        Err(source) => Err(SettingsError::Unreadable { file: file.to_owned(), source }),
    }
}

/// A setting that cannot be as it is written.
pub(crate) struct Wrong {
    pub(crate) field: String,
    pub(crate) cause: String,
    pub(crate) way_out: String,
}

fn parse(file: &Path, text: &str) -> Result<Settings, SettingsError> {
    let tree = tree(file, text)?;
    let known = serde_json::to_value(Settings::default()).map_err(SettingsError::Defaults)?;
    if let Some(path) = unknown::first(&tree, &known) {
        return Err(unknown_key(file, &path, &known));
    }
    // A section or a setting without a value means its default.
    let tree = without_nulls(tree);
    let settings = Settings::deserialize(&tree).map_err(|e| wrong_value(&tree, &known, &e));
    settings.and_then(checked).map_err(|Wrong { field, cause, way_out }| SettingsError::Wrong {
        file: file.to_owned(),
        field,
        cause,
        way_out,
    })
}

fn tree(file: &Path, text: &str) -> Result<Value, SettingsError> {
    let read = if text.trim().is_empty() { Ok(Value::Null) } else { serde_saphyr::from_str(text) };
    match read {
        Ok(Value::Null) => Ok(Value::Object(Map::new())),
        Ok(map @ Value::Object(_)) => Ok(map),
        Ok(_) => Err(SettingsError::NoMap { file: file.to_owned() }),
        Err(e) => Err(SettingsError::Yaml { file: file.to_owned(), cause: e.without_snippet().to_string() }),
    }
}

fn unknown_key(file: &Path, path: &str, known: &Value) -> SettingsError {
    let meant = unknown::nearest(path, known).map_or_else(
        || format!("known here: {}", unknown::beside_it(path, known).join(", ")),
        |nearest| format!("did you mean {nearest}?"),
    );
    SettingsError::Unknown { file: file.to_owned(), key: path.to_owned(), meant }
}

fn without_nulls(tree: Value) -> Value {
    let Value::Object(map) = tree else { return tree };
    let kept = map.into_iter().filter(|(_, v)| !v.is_null()).map(|(k, v)| (k, without_nulls(v)));
    Value::Object(kept.collect())
}

/// Which setting is wrong: since each has a default, each can be tried alone.
fn wrong_value(tree: &Value, known: &Value, whole: &serde_json::Error) -> Wrong {
    let wrong = leaves(tree).into_iter().find_map(|(path, leaf)| {
        let wrapped = |inner, key: &String| Value::Object(Map::from_iter([(key.clone(), inner)]));
        let cause = Settings::deserialize(&path.iter().rev().fold(leaf.clone(), wrapped)).err()?;
        let default = path.iter().try_fold(known, |value, key| value.get(key));
        let way_out = way_out(&path, leaf, default);
        Some(Wrong { field: path.join("."), cause: cause.to_string(), way_out })
    });
    wrong.unwrap_or_else(|| Wrong {
        field: "settings".to_owned(),
        cause: whole.to_string(),
        way_out: "`wardlet config` shows every setting".to_owned(),
    })
}

fn leaves(tree: &Value) -> Vec<(Vec<String>, &Value)> {
    match tree {
        Value::Object(map) if !map.is_empty() => {
            let below = map.iter().flat_map(|(key, value)| {
                leaves(value).into_iter().map(move |(mut path, leaf)| {
                    path.insert(0, key.clone());
                    (path, leaf)
                })
            });
            below.collect()
        }
        leaf => vec![(Vec::new(), leaf)],
    }
}

fn way_out(path: &[String], value: &Value, default: Option<&Value>) -> String {
    let in_pool = path.iter().any(|key| key == "pool");
    if path.last().is_some_and(|key| ["idsPerPod", "maxIdsPerPod"].contains(&key.as_str()))
        && let Some(Err(e)) = value.as_u64().map(BlockLength::try_from)
    {
        return if e.below == e.above {
            format!("use {}", e.below)
        } else {
            format!("use {} or {}", e.below, e.above)
        };
    }
    match default {
        _ if in_pool => "write a list of FIRST-LAST, such as [\"65536-131071\"]".to_owned(),
        Some(default @ (Value::Number(_) | Value::String(_))) => {
            format!("leave it out for its default, {default}")
        }
        _ => "leave it out for its default, or see `wardlet config`".to_owned(),
    }
}

/// What no type of a single setting can say.
fn checked(settings: Settings) -> Result<Settings, Wrong> {
    let owner = &settings.user_namespaces.subid_owner;
    let pods = &settings.kubelet.pods_dir;
    let pool = &settings.user_namespaces.pool;
    let (most, length) = (settings.user_namespaces.max_ids_per_pod, settings.user_namespaces.ids_per_pod);
    let (field, cause, way_out) = if owner.is_empty() || owner.starts_with('-') || owner.contains(':') {
        ("userNamespaces.subidOwner", "it is no user name", "leave it out for its default, \"kubelet\"")
    } else if most.is_some_and(|most| most < length) {
        let way_out = "use idsPerPod or more, or leave it out for that";
        ("userNamespaces.maxIdsPerPod", "it is less than idsPerPod, which every pod has", way_out)
    } else if pool.gids.is_some() && pool.uids.is_none() {
        let way_out = "add uids; gids may be left out if they are the same";
        ("userNamespaces.pool", "it has gids and no uids", way_out)
    } else if !pods.is_absolute() || pods.file_name().is_none_or(|name| name != "pods") {
        let way_out = "it is the directory pods under the kubelet's root";
        ("kubelet.podsDir", "it is no absolute path that ends in /pods", way_out)
    } else {
        check_gates(&settings)?;
        wrapper::check(&settings.wrapper)?;
        return Ok(settings);
    };
    Err(Wrong { field: field.to_owned(), cause: cause.to_owned(), way_out: way_out.to_owned() })
}

/// Gates that this version does not have, or does not let be set so.
fn check_gates(settings: &Settings) -> Result<(), Wrong> {
    let wrong = |error: GatesError| Wrong {
        field: "featureGates".to_owned(),
        cause: error.to_string(),
        way_out: error.hint(),
    };
    settings.gates(GateFlags::default()).map(drop).map_err(wrong)
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;

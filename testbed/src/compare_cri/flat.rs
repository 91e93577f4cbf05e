//! A request as a list of fields: the path of each to its value as text.

use std::collections::BTreeMap;

use serde_json::Value;

/// The fields of a request by their paths, as `config.mounts[/etc/hosts].readonly`.
pub(crate) type Flat = BTreeMap<String, String>;

/// Lists whose entries have a name of their own. The order of variables means nothing; that of the others is a
/// field by itself.
const NAMED: [(&str, &str); 4] = [
    ("envs", "key"),
    ("mounts", "container_path"),
    ("devices", "container_path"),
    ("hugepage_limits", "page_size"),
];

/// A list that the kubelet puts together from a map, in another order each time.
const UNORDERED: &str = "dns_config.options";

/// All fields of a tree. What is empty but set has the value `{}`.
pub(crate) fn flat(tree: &Value) -> Flat {
    let mut all = Flat::new();
    walk(tree, "", &mut all);
    all
}

fn walk(tree: &Value, path: &str, all: &mut Flat) {
    let leaf = |text: String, all: &mut Flat| {
        all.insert(path.to_owned(), text);
    };
    match tree {
        Value::Object(fields) if fields.is_empty() => leaf("{}".to_owned(), all),
        Value::Object(fields) => {
            for (name, value) in fields {
                walk(value, &step(path, name), all);
            }
        }
        Value::Array(items) => entries(items, path, all),
        Value::String(text) => leaf(text.clone(), all),
        other => leaf(other.to_string(), all),
    }
}

/// Names of fields are joined by dots; keys of maps may have dots themselves.
fn step(path: &str, name: &str) -> String {
    let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') && !path.ends_with("annotations");
    match (path.is_empty(), plain && !path.ends_with("labels")) {
        (true, _) => name.to_owned(),
        (false, true) => format!("{path}.{name}"),
        (false, false) => format!("{path}[{name}]"),
    }
}

fn entries(items: &[Value], path: &str, all: &mut Flat) {
    let list = path.rsplit('.').next().unwrap_or_default();
    let key = NAMED.iter().find(|(name, _)| *name == list).map(|(_, key)| *key);
    let name = |item: &Value| key.and_then(|key| item.get(key)).and_then(Value::as_str).map(str::to_owned);
    let mut items = items.to_vec();
    if path.ends_with(UNORDERED) {
        items.sort_by_key(Value::to_string);
    }
    for (index, item) in items.iter().enumerate() {
        let at = name(item).unwrap_or_else(|| index.to_string());
        walk(item, &format!("{path}[{at}]"), all);
    }
    if key.is_some() && list != "envs" {
        let order: Vec<String> = items.iter().filter_map(name).collect();
        all.insert(format!("{path}.order"), order.join(" "));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_field_has_a_path_and_a_named_entry_its_name() {
        let tree = json!({"config": {"annotations": {"a.b/c": "x"}, "args": ["p", "q"], "user": {},
            "mounts": [{"container_path": "/b", "readonly": true}, {"container_path": "/a"}]}});
        let found: Vec<String> =
            flat(&tree).into_iter().map(|(path, text)| format!("{path}={text}")).collect();
        let expected = [
            "config.annotations[a.b/c]=x",
            "config.args[0]=p",
            "config.args[1]=q",
            "config.mounts.order=/b /a",
            "config.mounts[/a].container_path=/a",
            "config.mounts[/b].container_path=/b",
            "config.mounts[/b].readonly=true",
            "config.user={}",
        ];
        assert_eq!(found, expected);
    }
}

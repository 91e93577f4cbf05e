//! Edits of a container's configuration: the wrapper's own, and such as nobody may make.

use serde_json::{Map, Value, json};

/// The configuration as the wrapper hands it on, but for what only a kernel could say. None where a part is not what
/// OCI has it to be, which the wrapper refuses.
pub fn wrapped(spec: &Value) -> Option<Value> {
    let mut edited = spec.clone();
    let whole = edited.as_object_mut()?;
    object(whole, "root")?.insert("path".into(), json!("/stage/rootfs"));
    for (at, mount) in list(whole, "mounts")?.iter_mut().enumerate() {
        wrap_mount(mount.as_object_mut()?, at)?;
    }
    let linux = object(whole, "linux")?;
    let spaces = list(linux, "namespaces")?;
    spaces.retain(|space| space["type"] != "user");
    spaces.push(json!({"type": "user"}));
    let map = json!([{"containerID": 0, "hostID": 131_072, "size": 65_536}]);
    linux.insert("uidMappings".into(), map.clone());
    linux.insert("gidMappings".into(), map);
    object(linux, "sysctl")?.retain(|name, _| !name.starts_with("net.") && !name.starts_with("net/"));
    let devices = std::mem::take(list(linux, "devices")?);
    for device in &devices {
        let path = device.get("path").and_then(Value::as_str)?;
        list(whole, "mounts")?.push(json!({"destination": path, "type": "bind", "source": "/stage/device"}));
    }
    object(whole, "annotations")?.entry("wardlet.dev/block").or_insert(json!("131072:131072:65536"));
    Some(edited)
}

fn wrap_mount(mount: &mut Map<String, Value>, at: usize) -> Option<()> {
    let kind = mount.get("type").cloned().unwrap_or_default();
    let options = list(mount, "options")?;
    if !options.iter().all(Value::is_string) {
        return None;
    }
    if kind != "bind" && !options.iter().any(|option| option == "bind" || option == "rbind") {
        return Some(());
    }
    options.iter_mut().filter(|option| **option == "rro").for_each(|option| *option = json!("ro"));
    options.push(json!("nosuid"));
    mount.insert("type".into(), json!("bind"));
    mount.insert("source".into(), json!(format!("/stage/{at}")));
    Some(())
}

fn object<'a>(of: &'a mut Map<String, Value>, key: &str) -> Option<&'a mut Map<String, Value>> {
    let value = of.entry(key).or_insert_with(|| json!({}));
    if value.is_null() {
        *value = json!({});
    }
    value.as_object_mut()
}

fn list<'a>(of: &'a mut Map<String, Value>, key: &str) -> Option<&'a mut Vec<Value>> {
    let value = of.entry(key).or_insert_with(|| json!([]));
    if value.is_null() {
        *value = json!([]);
    }
    value.as_array_mut()
}

/// Changes one place of a configuration; the bytes say which and how.
pub fn spoil(spec: &mut Value, [place, more, how, what]: [u8; 4]) {
    let mut places = Vec::new();
    walk(spec, &mut String::new(), &mut places);
    let at = usize::from(u16::from_le_bytes([place, more])) % places.len().max(1);
    let Some(place) = places.get(at).and_then(|place| spec.pointer_mut(place)) else { return };
    let new = &foreign()[usize::from(what) % foreign().len()];
    match (how % 4, place) {
        (0, place) => *place = new.clone(),
        (1, Value::Array(items)) => items.push(new.clone()),
        (2, Value::Array(items)) => items.reverse(),
        (3, Value::Array(items)) => drop(items.pop()),
        (1, Value::Object(fields)) => {
            fields.insert(KEYS[usize::from(what) % KEYS.len()].into(), json!("/proc"));
        }
        (_, Value::Object(fields)) => {
            let keys: Vec<String> = fields.keys().cloned().collect();
            if let Some(key) = keys.get(usize::from(what) % keys.len().max(1)) {
                fields.remove(key);
            }
        }
        (_, place) => *place = Value::Null,
    }
}

const KEYS: [&str; 8] = [
    "path",
    "type",
    "source",
    "run.oci.handler",
    "kernel.core_pattern",
    "readonly",
    "options",
    "uidMappings",
];

fn foreign() -> Vec<Value> {
    let options = ["rw", "suid", "dev", "exec", "rrw", "shared", "ro", "nosuid", "o", "", "bind", "user"];
    let mut all: Vec<Value> = options.iter().map(|option| json!(option)).collect();
    all.extend([json!(null), json!(true), json!(false), json!(0), json!([]), json!({})]);
    all.push(json!({"type": "user", "path": "/proc/1/ns/user"}));
    all.push(json!({"type": "network", "path": "/proc/1/ns/net"}));
    all.push(json!({"destination": "/host", "type": "bind", "source": "/", "options": ["rbind"]}));
    all.push(json!({"containerID": 0, "hostID": 0, "size": 1}));
    all.push(json!({"path": "/dev/mem", "type": "c", "major": 1, "minor": 1}));
    all
}

fn walk(value: &Value, path: &mut String, all: &mut Vec<String>) {
    all.push(path.clone());
    let length = path.len();
    let mut below = |name: &str, value: &Value| {
        path.push('/');
        path.push_str(&name.replace('~', "~0").replace('/', "~1"));
        walk(value, path, all);
        path.truncate(length);
    };
    match value {
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(at, item)| below(&at.to_string(), item));
        }
        Value::Object(fields) => fields.iter().for_each(|(name, value)| below(name, value)),
        _ => {}
    }
}

//! Mounts: each stays what it is and where it is, with what restricts it.

use serde_json::{Map, Value};

use super::{differing, items, object};

const ON_TOP: (&str, &str) = ("ro", "rw");
const THROUGHOUT: (&str, &str) = ("rro", "rrw");

/// Options that take something from the container, each with the one that gives it back.
const PAIRS: [(&str, &str); 10] = [
    ON_TOP,
    THROUGHOUT,
    ("nosuid", "suid"),
    ("rnosuid", "rsuid"),
    ("nodev", "dev"),
    ("rnodev", "rdev"),
    ("noexec", "exec"),
    ("rnoexec", "rexec"),
    ("nosymfollow", "symfollow"),
    ("rnosymfollow", "rsymfollow"),
];

/// Options that let mounts out of the container.
const OUTWARD: [&str; 2] = ["shared", "rshared"];

/// The first mount of `after` that allows more than it did, if there is one. New are only the devices that were given.
pub(super) fn loosened(before: &Map<String, Value>, after: &Map<String, Value>) -> Option<String> {
    let (given, kept) = (items(before, "mounts"), items(after, "mounts"));
    if kept.len() < given.len() {
        return Some("mounts".to_owned());
    }
    let named = |mount: &Value| format!("mounts ({})", text(mount, "destination"));
    if let Some((mount, _)) = given.iter().zip(kept).find(|(given, kept)| !keeps(given, kept)) {
        return Some(named(mount));
    }
    let none = Map::new();
    let devices = items(object(before, "linux").unwrap_or(&none), "devices");
    let is_device = |mount: &Value| {
        text(mount, "type") == "bind"
            && devices.iter().any(|device| device.get("path") == mount.get("destination"))
    };
    kept.iter().skip(given.len()).find(|mount| !is_device(mount)).map(named)
}

fn keeps(given: &Value, kept: &Value) -> bool {
    let (Some(one), Some(other)) = (given.as_object(), kept.as_object()) else { return given == kept };
    differing(one, other, &["options", "source", "type"]).is_none()
        && (is_made_by_us(given) && text(kept, "type") == "bind" || is_same(given, kept))
        && restricts(&options(given), &options(kept))
}

/// What is the host's is shown as a bind of our own.
fn is_made_by_us(mount: &Value) -> bool {
    ["bind", "sysfs"].contains(&text(mount, "type"))
        || options(mount).iter().any(|option| ["bind", "rbind"].contains(option))
}

/// Nothing comes to its options: one that goes is for a group that the pod does not have.
fn is_same(given: &Value, kept: &Value) -> bool {
    let before = options(given);
    ["type", "source"].into_iter().all(|key| given.get(key) == kept.get(key))
        && options(kept).iter().all(|option| before.contains(option))
}

fn restricts(given: &[&str], kept: &[&str]) -> bool {
    let mut lifts = PAIRS.into_iter().map(|(_, lifts)| lifts).chain(OUTWARD);
    let new = lifts.any(|option| kept.contains(&option) && !given.contains(&option));
    !new && PAIRS.into_iter().all(|pair| !holds(given, pair) || holds(kept, stand_in(kept, pair)))
}

/// Of two options that contradict each other the later counts.
fn holds(options: &[&str], (restricts, lifts): (&str, &str)) -> bool {
    options.iter().rev().find(|option| [restricts, lifts].contains(option)) == Some(&restricts)
}

/// Mounts below one that is read-only throughout are made so before the runtime sees it: it has to be told of the
/// one on top only.
fn stand_in(kept: &[&str], pair: (&'static str, &'static str)) -> (&'static str, &'static str) {
    if pair == THROUGHOUT && !kept.contains(&THROUGHOUT.0) { ON_TOP } else { pair }
}

fn options(mount: &Value) -> Vec<&str> {
    let all = mount.get("options").and_then(Value::as_array);
    all.into_iter().flatten().filter_map(Value::as_str).collect()
}

fn text<'a>(mount: &'a Value, key: &str) -> &'a str {
    mount.get(key).and_then(Value::as_str).unwrap_or_default()
}

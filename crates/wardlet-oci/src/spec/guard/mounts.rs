//! Checks that each mount keeps its place, its content and its restrictions.

use serde_json::{Map, Value};

use super::{differing, items, object};

const ON_TOP: (&str, &str) = ("ro", "rw");
const THROUGHOUT: (&str, &str) = ("rro", "rrw");

/// Options that restrict a mount, each with the option that lifts the restriction.
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

/// Options with which mounts propagate to the host.
const OUTWARD: [&str; 2] = ["shared", "rshared"];

/// The first mount of `after` that allows more than in `before`, if there is one. Only bind mounts of devices that the
/// configuration names may be added.
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

/// Whether wardlet replaces this mount by a bind mount that it prepares: bind mounts and sysfs.
fn is_made_by_us(mount: &Value) -> bool {
    ["bind", "sysfs"].contains(&text(mount, "type"))
        || options(mount).iter().any(|option| ["bind", "rbind"].contains(option))
}

/// No option may be added. One may be removed: `gid=` of a group that is not in the pod's ID mappings.
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

/// Whether the restriction is in effect: the later of two contradicting options counts.
fn holds(options: &[&str], (restricts, lifts): (&str, &str)) -> bool {
    options.iter().rev().find(|option| [restricts, lifts].contains(option)) == Some(&restricts)
}

/// wardlet makes all mounts below a recursively read-only one read-only before the runtime gets it, so that `ro` is
/// enough for the mount itself.
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

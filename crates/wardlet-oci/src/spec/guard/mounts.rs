//! Checks that each mount keeps its place, its content and its restrictions.

use serde_json::{Map, Value};

use super::{differing, items, object};

/// A mount option that restricts a mount.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Restriction {
    option: &'static str,
    /// The option that lifts the restriction.
    lifted_by: &'static str,
}

impl Restriction {
    const fn new(option: &'static str, lifted_by: &'static str) -> Self {
        Self { option, lifted_by }
    }
}

const READ_ONLY: Restriction = Restriction::new("ro", "rw");
const RECURSIVE_READ_ONLY: Restriction = Restriction::new("rro", "rrw");

const RESTRICTIONS: [Restriction; 10] = [
    READ_ONLY,
    RECURSIVE_READ_ONLY,
    Restriction::new("nosuid", "suid"),
    Restriction::new("rnosuid", "rsuid"),
    Restriction::new("nodev", "dev"),
    Restriction::new("rnodev", "rdev"),
    Restriction::new("noexec", "exec"),
    Restriction::new("rnoexec", "rexec"),
    Restriction::new("nosymfollow", "symfollow"),
    Restriction::new("rnosymfollow", "rsymfollow"),
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
    let mut lifts = RESTRICTIONS.into_iter().map(|restriction| restriction.lifted_by).chain(OUTWARD);
    let new = lifts.any(|option| kept.contains(&option) && !given.contains(&option));
    let is_kept = |restriction| !holds(given, restriction) || holds(kept, stand_in(kept, restriction));
    !new && RESTRICTIONS.into_iter().all(is_kept)
}

/// Whether the restriction is in effect: the later of two contradicting options counts.
fn holds(options: &[&str], restriction: Restriction) -> bool {
    let Restriction { option, lifted_by } = restriction;
    options.iter().rev().find(|given| [option, lifted_by].contains(given)) == Some(&option)
}

/// wardlet makes all mounts below a recursively read-only one read-only before the runtime gets it, so that `ro` is
/// enough for the mount itself.
fn stand_in(kept: &[&str], restriction: Restriction) -> Restriction {
    let is_recursive = restriction == RECURSIVE_READ_ONLY;
    if is_recursive && !kept.contains(&RECURSIVE_READ_ONLY.option) { READ_ONLY } else { restriction }
}

fn options(mount: &Value) -> Vec<&str> {
    let all = mount.get("options").and_then(Value::as_array);
    all.into_iter().flatten().filter_map(Value::as_str).collect()
}

fn text<'a>(mount: &'a Value, key: &str) -> &'a str {
    mount.get(key).and_then(Value::as_str).unwrap_or_default()
}

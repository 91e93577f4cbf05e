//! What a container may do by one configuration and not by another: the wrapper's promise in other words than the
//! wrapper's own.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// Why `after` gives a container more than `before`, if it does.
pub fn gained(before: &Value, after: &Value) -> Option<&'static str> {
    let same = |at: &str, but: &[&str]| fields(before, at, but) == fields(after, at, but);
    let checks: [(&str, bool); 8] = [
        ("a part is another", same("", &["annotations", "linux", "mounts", "root"])),
        ("the root is another", same("/root", &["path"])),
        (
            "a Linux part is another",
            same("/linux", &["devices", "gidMappings", "namespaces", "sysctl", "uidMappings"]),
        ),
        ("an annotation is another", annotations(before, after)),
        ("a namespace is another", namespaces(before, after)),
        ("an ID is the host's", maps(after)),
        ("a setting or device is another", settings(before, after)),
        ("a mount allows more", mounts(before, after)),
    ];
    checks.into_iter().find(|(_, holds)| !holds).map(|(what, _)| what)
}

fn fields<'a>(of: &'a Value, at: &str, but: &[&str]) -> BTreeMap<&'a str, &'a Value> {
    let all = of.pointer(at).and_then(Value::as_object).into_iter().flatten();
    all.map(|(key, value)| (key.as_str(), value)).filter(|(key, _)| !but.contains(key)).collect()
}

fn items<'a>(of: &'a Value, at: &str) -> Vec<&'a Value> {
    of.pointer(at).and_then(Value::as_array).into_iter().flatten().collect()
}

fn annotations(before: &Value, after: &Value) -> bool {
    let mut kept = fields(after, "/annotations", &[]);
    let given = fields(before, "/annotations", &[]);
    given.iter().all(|(key, value)| kept.remove(key) == Some(value))
        && kept.keys().all(|key| ["wardlet.dev/block", "dev.gvisor.shim.userns.slot"].contains(key))
}

/// All but that of users as before; one of the network that was to be joined may be gone, and for one of messages or names
/// that was to be joined there may be a new one, or one from where that of users is.
fn namespaces(before: &Value, after: &Value) -> bool {
    let users: Vec<&Value> = spaces(after, &|kind| kind == "user");
    let [user] = users.as_slice() else { return false };
    let dir =
        |space: &Value| path(space).and_then(|path| path.rsplit_once('/')).map(|(dir, _)| dir.to_owned());
    let own = |space: &&&Value| path(space).is_none() || dir(user).is_some() && dir(space) == dir(user);
    let kept = |space: &&Value| {
        let kind = space.get("type").and_then(Value::as_str).unwrap_or_default();
        let alike = spaces(after, &|other| other == kind);
        let joined = path(space).is_some();
        alike.contains(space)
            || kind == "network" && joined && alike.is_empty()
            || ["ipc", "uts"].contains(&kind) && joined && alike.iter().any(|space| own(&space))
    };
    let (given, now) = (spaces(before, &|kind| kind != "user"), spaces(after, &|kind| kind != "user"));
    let was = |space: &&Value| {
        let kind = space.get("type").and_then(Value::as_str).unwrap_or_default();
        let stands_in = ["ipc", "uts"].contains(&kind) && own(&space);
        let joined = |given: &&Value| given.get("type") == space.get("type") && path(given).is_some();
        given.contains(space) || stands_in && given.iter().any(joined)
    };
    given.iter().all(kept) && now.iter().all(was)
}

fn spaces<'a>(of: &'a Value, wanted: &dyn Fn(&str) -> bool) -> Vec<&'a Value> {
    let kind = |space: &Value| space.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
    items(of, "/linux/namespaces").into_iter().filter(|space| wanted(&kind(space))).collect()
}

fn path(space: &Value) -> Option<&str> {
    space.get("path").and_then(Value::as_str).filter(|path| !path.is_empty())
}

fn maps(after: &Value) -> bool {
    let lines = [items(after, "/linux/uidMappings"), items(after, "/linux/gidMappings")].concat();
    lines.iter().all(|line| line.get("hostID").and_then(Value::as_u64).is_some_and(|id| id >= 65_536))
}

fn settings(before: &Value, after: &Value) -> bool {
    let (given, kept) = (fields(before, "/linux/sysctl", &[]), fields(after, "/linux/sysctl", &[]));
    let network = |name: &str| name.starts_with("net.") || name.starts_with("net/");
    let devices = items(before, "/linux/devices");
    given.iter().all(|(name, value)| network(name) || kept.get(name) == Some(value))
        && kept.keys().all(|name| given.contains_key(name))
        && items(after, "/linux/devices").iter().all(|device| devices.contains(device))
}

fn mounts(before: &Value, after: &Value) -> bool {
    let (given, kept) = (items(before, "/mounts"), items(after, "/mounts"));
    let devices = items(before, "/linux/devices");
    kept.len() >= given.len()
        && given.iter().zip(&kept).all(|(given, kept)| mount(given, kept))
        && kept[given.len()..].iter().all(|mount| {
            mount.get("type").is_some_and(|kind| kind == "bind")
                && devices.iter().any(|device| device.get("path") == mount.get("destination"))
        })
}

fn mount(given: &Value, kept: &Value) -> bool {
    if given == kept {
        return true;
    }
    let (was, is) = (Effect::of(given), Effect::of(kept));
    let own = was.bind || given.get("type").is_some_and(|kind| kind == "sysfs");
    let same = |key: &str| given.get(key) == kept.get(key);
    let throughout = was.closed.contains("rro") && is.closed.contains("ro");
    same("destination")
        && same("uidMappings")
        && same("gidMappings")
        && (own && is.bind || same("type") && same("source"))
        && was.closed.iter().all(|flag| is.closed.contains(flag) || *flag == "rro" && throughout)
        && is.open.iter().all(|flag| was.open.contains(flag) || was.said.contains(flag))
        && (was.shared || !is.shared)
}

/// What a runtime makes of a mount's options, one after the other.
#[derive(Default)]
struct Effect<'a> {
    bind: bool,
    shared: bool,
    closed: BTreeSet<&'a str>,
    open: BTreeSet<&'a str>,
    said: BTreeSet<&'a str>,
}

impl<'a> Effect<'a> {
    fn of(mount: &'a Value) -> Self {
        let mut effect =
            Self { bind: mount.get("type").is_some_and(|kind| kind == "bind"), ..Self::default() };
        for option in items(mount, "/options").into_iter().filter_map(Value::as_str) {
            effect.meet(option);
        }
        effect
    }

    fn meet(&mut self, option: &'a str) {
        const CLOSED: [&str; 10] = [
            "ro",
            "nosuid",
            "nodev",
            "noexec",
            "nosymfollow",
            "rro",
            "rnosuid",
            "rnodev",
            "rnoexec",
            "rnosymfollow",
        ];
        const OPEN: [&str; 10] =
            ["rw", "suid", "dev", "exec", "symfollow", "rrw", "rsuid", "rdev", "rexec", "rsymfollow"];
        self.said.insert(option);
        match option {
            "bind" | "rbind" => self.bind = true,
            "shared" | "rshared" => self.shared = true,
            _ => {}
        }
        for (closed, open) in CLOSED.into_iter().zip(OPEN) {
            if option == closed {
                self.open.remove(open);
                self.closed.insert(closed);
            } else if option == open {
                self.closed.remove(closed);
                self.open.insert(open);
            }
        }
    }
}

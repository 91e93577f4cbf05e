//! What was asked of the kernel for the volumes of pods, against what `explain` had said.

use std::collections::BTreeSet;

use serde_json::Value;

/// Where the calls are not the planned ones, in words. `calls` are all that were recorded, the runtime's too: these say
/// which block a pod has and where its directory is.
pub(crate) fn differences(planned: &[Value], calls: &[Value]) -> Vec<String> {
    let made: Vec<&Value> = calls.iter().filter_map(|call| call.get("kernel")).collect();
    let pods: Vec<Pod<'_>> = planned.iter().map(|plan| Pod::of(plan, calls)).collect();
    let mut told: Vec<String> = pods.iter().flat_map(|pod| pod.differences(&made)).collect();
    let maps = made.iter().filter_map(|call| map_of(call));
    let foreign = maps.filter(|map| !pods.iter().any(|pod| pod.uids == *map));
    told.extend(foreign.map(|map| format!("a map of no pod: {map:?}")));
    told
}

/// A pod as it was planned, with what was found out about it since.
struct Pod<'a> {
    plan: &'a Value,
    /// Host ID, container ID, length.
    uids: Vec<[u64; 3]>,
    dir: String,
}

impl<'a> Pod<'a> {
    fn of(plan: &'a Value, calls: &[Value]) -> Self {
        let own = || calls.iter().filter(|call| call["pod"] == plan["name"]);
        let uids = own().find_map(|call| call["userNamespace"]["uids"].as_array());
        let number = |n: &Value| n.as_u64().unwrap_or_default();
        let uids = uids.into_iter().flatten().map(|line| [0, 1, 2].map(|n| number(&line[n])));
        let mounts = own().filter_map(|call| call["mounts"].as_array()).flatten();
        // Every container has this file, and it lies in the pod's directory.
        let hosts = mounts.filter(|mount| mount["path"] == "/etc/hosts").find_map(|m| m["hostPath"].as_str());
        let dir =
            hosts.and_then(|path| path.rsplit_once('/')).map_or_else(String::new, |(dir, _)| dir.to_owned());
        Self { plan, uids: uids.collect(), dir }
    }

    fn differences(&self, made: &[&Value]) -> Vec<String> {
        let name = &self.plan["name"];
        let mut told = Vec::new();
        let mut equal = |what: &str, planned: BTreeSet<String>, found: BTreeSet<String>| {
            if planned != found {
                told.push(format!("{name}: {what}: planned {planned:?}, asked for {found:?}"));
            }
        };
        let tried = made.iter().filter(|call| self.is_trial(call)).count();
        let idmapped = self.volumes(|mount| mount["idmap"] == "own");
        equal("volumes that are idmapped", [idmapped.len().to_string()].into(), [tried.to_string()].into());
        let spaces = made.iter().any(|call| !call["userNamespace"].is_null() && self.is_own(call));
        equal("a user namespace", one(!idmapped.is_empty()), one(spaces));
        let in_memory =
            self.volumes(|mount| mount["why"].as_str().is_some_and(|why| why.starts_with("tmpfs ")));
        equal(
            "volumes in memory",
            in_memory,
            self.attached(made, "volumes").map(|path| last(&path)).collect(),
        );
        let parts = self
            .attached(made, "volume-subpaths")
            .map(|path| path.rsplitn(2, '/').last().unwrap_or_default().to_owned());
        let mounted =
            self.mounts().map(|m| format!("{}/{}", word(m, "volume"), word(m, "container"))).collect();
        let unplanned: BTreeSet<String> =
            parts.collect::<BTreeSet<_>>().difference(&mounted).cloned().collect();
        equal("parts of volumes beyond the plan", BTreeSet::new(), unplanned);
        let labelled = self.volumes(|mount| mount["label"]["how"] == "mount");
        let contexts = made.iter().filter(|call| !call["make"]["context"].is_null()).count();
        equal("filesystems with a context", one(!labelled.is_empty()), one(contexts > 0));
        told
    }

    fn mounts(&self) -> impl Iterator<Item = &'a Value> {
        self.plan["mounts"].as_array().into_iter().flatten()
    }

    fn volumes(&self, wanted: impl Fn(&Value) -> bool) -> BTreeSet<String> {
        self.mounts().filter(|mount| wanted(mount)).map(|mount| word(mount, "volume")).collect()
    }

    fn is_own(&self, call: &Value) -> bool {
        !self.uids.is_empty() && map_of(call).is_some_and(|map| map == self.uids)
    }

    /// Before anything is made, each volume's filesystem is tried with the pod's map. What is mounted for good is said how
    /// to share mounts, too.
    fn is_trial(&self, call: &Value) -> bool {
        call["set"]["change"]["propagation"].is_null() && !call["set"].is_null() && self.is_own(call)
    }

    /// What was attached below one of the pod's own directories, from there on, without the kind of volume.
    fn attached(&self, made: &[&'a Value], below: &str) -> impl Iterator<Item = String> {
        let start = format!("{}/{below}/", self.dir);
        let targets = made.iter().filter_map(|call| call["attach"]["target"].as_str());
        targets
            .filter_map(move |path| path.strip_prefix(&start).map(str::to_owned))
            .collect::<Vec<_>>()
            .into_iter()
    }
}

/// The lines of the map that a call is about.
fn map_of(call: &Value) -> Option<Vec<[u64; 3]>> {
    let maps = if call["set"].is_null() { &call["userNamespace"] } else { &call["set"]["change"]["idmap"] };
    let line = |line: &Value| {
        ["hostId", "containerId", "length"].map(|field| line[field].as_u64().unwrap_or_default())
    };
    Some(maps["uids"].as_array()?.iter().map(line).collect())
}

fn word(of: &Value, field: &str) -> String {
    of[field].as_str().unwrap_or_default().to_owned()
}

fn last(path: &str) -> String {
    path.rsplit('/').next().unwrap_or_default().to_owned()
}

/// Whether there is any, as a set.
fn one(is_there: bool) -> BTreeSet<String> {
    is_there.then(|| "one".to_owned()).into_iter().collect()
}

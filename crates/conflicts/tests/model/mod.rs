//! The same questions, answered the slow way: every pair, from all objects, every time.
//!
//! Nothing here is taken from the engine but its types. Labels are compared as the text of upstream's
//! rule; whether two pods can meet is tried on every node there could be.

#![allow(unreachable_pub)]

pub mod dice;

use std::collections::{BTreeMap, BTreeSet};

use conflicts::*;
use selinux::SelinuxOptions;

#[derive(Debug, Default, Clone)]
pub struct World {
    pub pods: BTreeMap<PodKey, Pod>,
    claims: BTreeMap<ClaimKey, Claim>,
    volumes: BTreeMap<String, PersistentVolume>,
    drivers: BTreeMap<String, bool>,
}

/// A conflict: volume, property, and both pods with their values, the lesser first.
pub type Fact = (VolumeId, Property, [(PodKey, String); 2]);
/// How much it matters.
pub type Weight = (Meeting, Reach, (bool, bool, bool));

/// What a pod asks of a volume.
#[derive(Debug, Clone)]
struct Asked {
    label: [String; 4],
    policy: ChangePolicy,
    /// The access modes of each way to the volume; `None` for one that is named in the pod.
    ways: Vec<Option<Vec<AccessMode>>>,
    mounts: Vec<Mount>,
}

/// Whether it can be mounted with a label, the ways to it, its mounts.
type Mounted = (bool, Vec<Option<Vec<AccessMode>>>, Vec<Mount>);

impl World {
    pub fn apply(&mut self, change: &Change) {
        match change {
            Change::Pod(pod) => {
                self.pods.insert(pod.key.clone(), pod.clone());
            }
            Change::PodGone(key, uid) => {
                let known = self.pods.get(key).and_then(|p| p.uid.clone());
                if uid.is_none() || known.is_none() || known == *uid {
                    self.pods.remove(key);
                }
            }
            Change::Claim(claim) => {
                self.claims.insert(claim.key.clone(), claim.clone());
            }
            Change::ClaimGone(key) => {
                self.claims.remove(key);
            }
            Change::Volume(volume) => {
                self.volumes.insert(volume.name.clone(), volume.clone());
            }
            Change::VolumeGone(name) => {
                self.volumes.remove(name);
            }
            Change::Driver(driver) => {
                self.drivers.insert(driver.name.clone(), driver.selinux_mount);
            }
            Change::DriverGone(name) => {
                self.drivers.remove(name);
            }
        }
        self.pods.retain(|_, pod| pod.life == Life::Alive);
    }

    /// Each object's coming.
    pub fn all(&self) -> Vec<Change> {
        let drivers = self.drivers.iter();
        let drivers = drivers.map(|(name, &can)| CsiDriver { name: name.clone(), selinux_mount: can });
        let mut all: Vec<Change> = self.pods.values().cloned().map(Change::Pod).collect();
        all.extend(self.claims.values().cloned().map(Change::Claim));
        all.extend(self.volumes.values().cloned().map(Change::Volume));
        all.extend(drivers.map(Change::Driver));
        all
    }

    /// Each object's leaving.
    pub fn all_gone(&self) -> Vec<Change> {
        let mut all: Vec<Change> = self.claims.keys().cloned().map(Change::ClaimGone).collect();
        all.extend(self.volumes.keys().cloned().map(Change::VolumeGone));
        all.extend(self.pods.values().map(|p| Change::PodGone(p.key.clone(), p.uid.clone())));
        all.extend(self.drivers.keys().cloned().map(Change::DriverGone));
        all
    }

    fn behind(&self, pod: &Pod, name: &str) -> Option<&PersistentVolume> {
        let claim = self.claims.get(&ClaimKey::new(pod.key.namespace(), name))?;
        let volume = self.volumes.get(claim.volume.as_ref()?)?;
        match &volume.claim {
            Some(owner) if owner.key != claim.key => None,
            Some(ClaimReference { uid: Some(a), .. }) if claim.uid.as_ref().is_some_and(|b| a != b) => None,
            _ => Some(volume),
        }
    }

    fn can_mount(&self, source: &VolumeSource) -> bool {
        match source {
            VolumeSource::Csi { driver } => self.drivers.get(driver) == Some(&true),
            VolumeSource::Iscsi | VolumeSource::FibreChannel => true,
            VolumeSource::Other => false,
        }
    }

    /// The volumes of a pod with every mount of each.
    fn mounted(&self, pod: &Pod) -> BTreeMap<VolumeId, Mounted> {
        let mut all = BTreeMap::new();
        for volume in pod.volumes.iter().filter(|v| !v.mounts.is_empty()) {
            let (id, can, way) = match &volume.source {
                PodVolumeSource::Inline { id, source } => (id.clone(), self.can_mount(source), None),
                PodVolumeSource::Migrated { id, driver, access_modes } => {
                    let can = self.drivers.get(driver) == Some(&true);
                    (id.clone(), can, Some(access_modes.clone()))
                }
                PodVolumeSource::Claim(name) => match self.behind(pod, name) {
                    Some(v) => (v.id.clone(), self.can_mount(&v.source), Some(v.access_modes.clone())),
                    None => continue,
                },
            };
            let entry: &mut Mounted = all.entry(id).or_insert((can, vec![], vec![]));
            entry.1.push(way);
            entry.2.extend(volume.mounts.iter().cloned());
        }
        all
    }

    fn asked(&self, pod: &Pod, rules: &Rules) -> BTreeMap<VolumeId, Asked> {
        let mut all = BTreeMap::new();
        if !rules.gates.read_write_once_pod {
            return all;
        }
        for (id, (can, ways, mounts)) in self.mounted(pod) {
            let labels = labels(&mounts);
            if !can || labels.len() > 1 {
                continue;
            }
            let label = labels.into_iter().next().unwrap_or_default();
            let opted_out = rules.gates.change_policy && pod.change_policy == Some(ChangePolicy::Recursive);
            let asked = if opted_out || label.iter().all(String::is_empty) {
                Asked { label: Default::default(), policy: ChangePolicy::Recursive, ways, mounts }
            } else {
                Asked { label, policy: ChangePolicy::MountOption, ways, mounts }
            };
            all.insert(id, asked);
        }
        all
    }

    pub fn conflicts(&self, rules: &Rules) -> BTreeMap<Fact, Weight> {
        let asked: Vec<_> = self.pods.values().map(|pod| (pod, self.asked(pod, rules))).collect();
        let mut found = BTreeMap::new();
        for (at, (a, of_a)) in asked.iter().enumerate() {
            for (b, of_b) in asked.iter().skip(at + 1) {
                for (id, x) in of_a {
                    let Some(y) = of_b.get(id) else { continue };
                    for (property, values) in differences(x, y) {
                        let [of_a, of_b] = values;
                        let sides = [(a.key.clone(), of_a), (b.key.clone(), of_b)];
                        found.insert((id.clone(), property, sides), weight((a, x), (b, y), rules));
                    }
                }
            }
        }
        found
    }

    /// The pods that ask for several labels on one volume.
    pub fn multiple_labels(&self, rules: &Rules) -> BTreeSet<(PodKey, VolumeId)> {
        let on = rules.gates.read_write_once_pod;
        let several = self.pods.values().filter(|_| on).flat_map(|pod| {
            let volumes = self.mounted(pod).into_iter();
            volumes.filter(|(_, v)| labels(&v.2).len() > 1).map(|(id, _)| (pod.key.clone(), id))
        });
        several.collect()
    }
}

fn labels(mounts: &[Mount]) -> BTreeSet<[String; 4]> {
    mounts.iter().filter_map(|m| m.options.as_ref()).map(label).collect()
}

fn label(options: &SelinuxOptions) -> [String; 4] {
    let text = |part: &Option<String>| part.clone().unwrap_or_default();
    let level = text(&options.level);
    // Equal sets of categories are one level.
    let level = match level.split_once(':') {
        Some((s, list)) => {
            let mut list: Vec<&str> = list.split(',').collect();
            list.sort_unstable();
            format!("{s}:{}", list.join(","))
        }
        None => level,
    };
    [text(&options.user), text(&options.role), text(&options.kind), level]
}

fn differences(a: &Asked, b: &Asked) -> Vec<(Property, [String; 2])> {
    let mut found = Vec::new();
    if a.policy != b.policy {
        found.push((Property::SELinuxChangePolicy, [a.policy.to_string(), b.policy.to_string()]));
    }
    let named = |i: usize| !a.label[i].is_empty() && !b.label[i].is_empty() && a.label[i] != b.label[i];
    if (0..3).any(named) || a.label[3] != b.label[3] {
        let text = |l: &[String; 4]| if l.concat().is_empty() { String::new() } else { l.join(":") };
        found.push((Property::SELinuxLabel, [text(&a.label), text(&b.label)]));
    }
    found
}

fn weight((a, x): (&Pod, &Asked), (b, y): (&Pod, &Asked), rules: &Rules) -> Weight {
    let once_pod = |modes: &Vec<AccessMode>| *modes == [AccessMode::ReadWriteOncePod];
    let enforced = |asked: &Asked| asked.ways.iter().flatten().any(|way| rules.gates.mount || once_pod(way));
    let reach = if enforced(x) || enforced(y) { Reach::Enforced } else { Reach::Counted };
    let all = |asked: &Asked, is: fn(&Mount) -> bool| asked.mounts.iter().all(is);
    let sharing = (
        all(x, |m| m.sub_path) && all(y, |m| m.sub_path),
        all(x, |m| m.privileged) != all(y, |m| m.privileged),
        all(x, |m| m.read_only) && all(y, |m| m.read_only),
    );
    (meeting((a, x), (b, y)), reach, sharing)
}

fn meeting((a, x): (&Pod, &Asked), (b, y): (&Pod, &Asked)) -> Meeting {
    let only = |asked: &Asked, mode| asked.ways.iter().all(|way| *way == Some(vec![mode]));
    let node = |pod: &Pod| match &pod.placement.node {
        Node::Unbound => None,
        Node::Bound(node) | Node::Pinned(node) => Some(node.clone()),
    };
    if [x, y].iter().all(|asked| only(asked, AccessMode::ReadWriteOncePod)) {
        return Meeting::CannotMeet(Apart::ReadWriteOncePod);
    }
    if node(a).is_some() && node(a) == node(b) {
        return Meeting::OnOneNode;
    }
    let places = nodes();
    let ruled = [a, b].iter().all(|p| ruled(p));
    if ruled && !places.iter().any(|n| fits(a, n) && fits(b, n)) {
        return Meeting::CannotMeet(Apart::NodeSelector);
    }
    let together =
        |n: &BTreeMap<&str, &str>| fits(a, n) && fits(b, n) && !repels(a, b, n) && !repels(b, a, n);
    if ruled && !places.iter().any(together) {
        return Meeting::CannotMeet(Apart::AntiAffinity);
    }
    let once = [AccessMode::ReadWriteOncePod, AccessMode::ReadWriteOnce];
    let one_node = [x, y].iter().all(|asked| once.iter().any(|&mode| only(asked, mode)));
    let placed = node(a).is_some() && node(b).is_some();
    if one_node && !placed { Meeting::MustMeet } else { Meeting::MayMeet }
}

fn ruled(pod: &Pod) -> bool {
    let p = &pod.placement;
    p.scheduler.as_ref().is_none_or(|s| s == "default-scheduler")
        && !matches!(p.owner_kind.as_deref(), Some("DaemonSet" | "Node"))
        && !matches!(p.node, Node::Pinned(_))
}

/// Every node there could be, as far as the pods' rules can tell nodes apart.
fn nodes() -> Vec<BTreeMap<&'static str, &'static str>> {
    let mut all = Vec::new();
    for zone in [None, Some("x"), Some("y"), Some("elsewhere")] {
        for size in [None, Some("1"), Some("2"), Some("3"), Some("4"), Some("5"), Some("large")] {
            let labels = [("zone", zone), ("size", size), ("kubernetes.io/hostname", Some("h"))];
            all.push(labels.into_iter().filter_map(|(k, v)| Some((k, v?))).collect());
        }
    }
    all
}

fn holds(operator: &Operator, value: Option<&str>) -> bool {
    let number = value.and_then(|v| v.parse::<i64>().ok());
    match operator {
        Operator::In(values) => value.is_some_and(|v| values.contains(v)),
        Operator::NotIn(values) => !value.is_some_and(|v| values.contains(v)),
        Operator::Exists => value.is_some(),
        Operator::DoesNotExist => value.is_none(),
        Operator::Greater(n) => number.is_some_and(|v| v > *n),
        Operator::Less(n) => number.is_some_and(|v| v < *n),
    }
}

fn fits(pod: &Pod, node: &BTreeMap<&str, &str>) -> bool {
    let p = &pod.placement;
    let value = |key: &str| node.get(key).copied();
    p.node_selector.iter().all(|(k, v)| value(k) == Some(v))
        && p.node_terms.as_ref().is_none_or(|terms| {
            let all = |t: &NodeTerm| t.labels.iter().all(|r| holds(&r.operator, value(&r.key)));
            terms.iter().any(|t| !t.labels.is_empty() && all(t))
        })
}

/// Whether the scheduler would keep the second from a node that has the first.
fn repels(a: &Pod, b: &Pod, node: &BTreeMap<&str, &str>) -> bool {
    a.placement.anti_affinity.iter().any(|term| {
        let there = match &term.namespaces {
            Namespaces::Own => a.key.namespace() == b.key.namespace(),
            Namespaces::Listed(list) => list.contains(b.key.namespace()),
            Namespaces::All => true,
        };
        let value = |key: &str| b.placement.labels.get(key).map(String::as_str);
        let chosen = |s: &Vec<Requirement>| s.iter().all(|r| holds(&r.operator, value(&r.key)));
        there && node.contains_key(&*term.topology_key) && term.selector.as_ref().is_some_and(chosen)
    })
}

//! Which volumes and workloads hang together, and where each is drawn: volumes left, their users right.

use std::collections::{BTreeMap, BTreeSet};

use check::{Conflict, User, Volume};

use super::words;

/// More users of one volume than this are drawn as groups of equal label and policy.
const SINGLE_USERS: usize = 8;
/// More volumes in one picture than this are only counted.
const DRAWN_VOLUMES: usize = 24;

/// Volumes that share users, and these.
#[derive(Debug)]
pub(super) struct Picture<'a> {
    /// In the order in which they are drawn.
    pub(super) volumes: Vec<&'a Volume>,
    /// How many more there are.
    pub(super) more_volumes: usize,
    /// In the order in which they are drawn.
    pub(super) users: Vec<Node>,
    pub(super) edges: Vec<Edge>,
    /// What they ask for, each with a letter and a colour by its place here.
    pub(super) asked: Vec<Asked>,
}

/// What a user asks of a volume.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Asked {
    pub(super) label: String,
    pub(super) policy: String,
}

/// A workload, or many that ask for the same.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Node {
    /// What tells it from others: groups of equal size may have the same name.
    key: String,
    /// `Deployment shop/web`, or how many there are.
    pub(super) name: String,
    /// What is below the name.
    pub(super) below: String,
}

/// From a volume to a user, by their places.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Edge {
    pub(super) volume: usize,
    pub(super) user: usize,
    /// What the user asks of this volume.
    pub(super) asked: usize,
}

/// One picture for each set of volumes that hang together, the largest first. Volumes without a conflict
/// are in none.
pub(super) fn pictures<'a>(volumes: &'a [Volume], conflicts: &[Conflict]) -> Vec<Picture<'a>> {
    let in_conflict: BTreeSet<&str> = conflicts.iter().map(|c| c.volume.as_str()).collect();
    let volumes = volumes.iter().filter(|volume| in_conflict.contains(volume.id.as_str()));
    let volumes: Vec<&Volume> = volumes.collect();
    let mut pictures: Vec<Picture<'_>> = components(&volumes).into_iter().map(picture).collect();
    pictures.sort_by_key(|picture| std::cmp::Reverse(picture.edges.len()));
    pictures
}

/// Volumes in sets that share a user.
fn components<'a>(volumes: &[&'a Volume]) -> Vec<Vec<&'a Volume>> {
    let mut sets = Sets::new(volumes.len());
    let mut first_use = BTreeMap::new();
    for (index, volume) in volumes.iter().enumerate() {
        for user in &volume.users {
            let first = *first_use.entry(&user.workload).or_insert(index);
            sets.join(first, index);
        }
    }
    let mut components: BTreeMap<usize, Vec<&Volume>> = BTreeMap::new();
    for (index, volume) in volumes.iter().enumerate() {
        components.entry(sets.of(index)).or_default().push(volume);
    }
    components.into_values().collect()
}

/// Disjoint sets of indices.
struct Sets(Vec<usize>);

impl Sets {
    fn new(count: usize) -> Self {
        Self((0..count).collect())
    }

    fn parent(&self, index: usize) -> usize {
        self.0.get(index).copied().unwrap_or(index)
    }

    fn of(&mut self, mut index: usize) -> usize {
        while self.parent(index) != index {
            let above = self.parent(self.parent(index));
            if let Some(parent) = self.0.get_mut(index) {
                *parent = above;
            }
            index = above;
        }
        index
    }

    fn join(&mut self, a: usize, b: usize) {
        let (a, b) = (self.of(a), self.of(b));
        if let Some(parent) = self.0.get_mut(b) {
            *parent = a;
        }
    }
}

fn picture(mut volumes: Vec<&Volume>) -> Picture<'_> {
    let more_volumes = volumes.len().saturating_sub(DRAWN_VOLUMES);
    volumes.truncate(DRAWN_VOLUMES);
    let mut picture =
        Picture { volumes, more_volumes, users: Vec::new(), edges: Vec::new(), asked: Vec::new() };
    let grouped = picture.volumes.iter().any(|volume| volume.users.len() > SINGLE_USERS);
    let mut links: Vec<(usize, Asked, Node)> = Vec::new();
    for (index, volume) in picture.volumes.iter().enumerate() {
        links.extend(nodes(volume, grouped.into()).into_iter().map(|(asked, node)| (index, asked, node)));
    }
    for (volume, asked, node) in links {
        let user = place(&mut picture.users, node);
        let asked = place(&mut picture.asked, asked);
        picture.edges.push(Edge { volume, user, asked });
    }
    uncross(&mut picture);
    picture
}

/// Where `item` is, at the end if it was not there.
fn place<T: PartialEq>(items: &mut Vec<T>, item: T) -> usize {
    items.iter().position(|known| *known == item).unwrap_or_else(|| {
        items.push(item);
        items.len() - 1
    })
}

/// How the users of a volume are drawn.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Drawn {
    Each,
    InGroups,
}

impl From<bool> for Drawn {
    fn from(grouped: bool) -> Self {
        if grouped { Self::InGroups } else { Self::Each }
    }
}

fn nodes(volume: &Volume, drawn: Drawn) -> Vec<(Asked, Node)> {
    match drawn {
        Drawn::Each => volume.users.iter().map(|user| (asked(user), node(user))).collect(),
        Drawn::InGroups => groups(volume),
    }
}

fn asked(user: &User) -> Asked {
    Asked { label: user.label.clone(), policy: user.policy.clone() }
}

fn node(user: &User) -> Node {
    let workload = &user.workload;
    let pods = match user.pods {
        0 => workload.kind.clone(),
        1 => format!("{}, 1 pod", workload.kind),
        n => format!("{}, {n} pods", workload.kind),
    };
    let name = words::name_in_namespace(workload);
    Node { key: format!("{} {name}", workload.kind), name, below: pods }
}

fn groups(volume: &Volume) -> Vec<(Asked, Node)> {
    let mut groups: BTreeMap<Asked, (usize, u64)> = BTreeMap::new();
    for user in &volume.users {
        let group = groups.entry(asked(user)).or_default();
        group.0 += 1;
        group.1 += user.pods;
    }
    let drawn = groups.into_iter().map(|(asked, (workloads, pods))| {
        let name = if workloads == 1 { "1 workload".to_owned() } else { format!("{workloads} workloads") };
        let key = format!("{}\n{}\n{}", volume.id, asked.label, asked.policy);
        (asked, Node { key, name, below: format!("{pods} pods") })
    });
    drawn.collect()
}

/// Users in the order of the middle of their volumes, so that few lines cross; of one volume, those that
/// ask for the same together.
fn uncross(picture: &mut Picture<'_>) {
    let key = |user: usize| {
        let edges: Vec<&Edge> = picture.edges.iter().filter(|edge| edge.user == user).collect();
        let sum: usize = edges.iter().map(|edge| edge.volume).sum();
        let asked = edges.iter().map(|edge| edge.asked).min().unwrap_or_default();
        // In hundredths: a half must not be cut off.
        (sum * 100 / edges.len().max(1), asked)
    };
    let mut order: Vec<usize> = (0..picture.users.len()).collect();
    order.sort_by_cached_key(|&user| key(user));
    let users = order.iter().filter_map(|&old| picture.users.get(old).cloned()).collect();
    for edge in &mut picture.edges {
        edge.user = order.iter().position(|&old| old == edge.user).unwrap_or(edge.user);
    }
    picture.users = users;
}

#[cfg(test)]
mod tests {
    use super::*;
    use check::{ConflictSide, ObjectRef, Property, Severity, When};

    fn deployment(name: &str) -> ObjectRef {
        ObjectRef { kind: "Deployment".into(), namespace: "shop".into(), name: name.into() }
    }

    fn user(name: &str, label: &str) -> User {
        let (label, policy) = (label.to_owned(), "MountOption".to_owned());
        User { workload: deployment(name), label, policy, nodes: vec![], pods: 1 }
    }

    fn volume(id: &str, users: Vec<User>) -> Volume {
        Volume { id: id.into(), users, ..Volume::default() }
    }

    /// One conflict for each volume.
    fn conflicts(volumes: &[Volume]) -> Vec<Conflict> {
        let side = ConflictSide { workload: deployment("a"), value: String::new(), pod: None, pods: 1 };
        let conflict = |volume: &Volume| Conflict {
            property: Property::SELinuxLabel,
            volume: volume.id.clone(),
            a: side.clone(),
            b: side.clone(),
            severity: Severity::MayMeet,
            why: String::new(),
            when: When::Already,
            pairs: 1,
        };
        volumes.iter().map(conflict).collect()
    }

    #[test]
    fn volumes_that_share_a_user_are_in_one_picture() {
        let volumes = [
            volume("v1", vec![user("a", "x"), user("b", "y")]),
            volume("v2", vec![user("c", "x")]),
            volume("v3", vec![user("b", "y"), user("d", "x")]),
        ];
        let pictures = pictures(&volumes, &conflicts(&volumes));
        let ids: Vec<Vec<&str>> =
            pictures.iter().map(|p| p.volumes.iter().map(|v| v.id.as_str()).collect()).collect();
        assert_eq!(ids, [vec!["v1", "v3"], vec!["v2"]]);
    }

    #[test]
    fn many_users_are_drawn_as_groups_of_equal_label() {
        let users = (0..500).map(|n| user(&format!("w{n}"), if n % 2 == 0 { "x" } else { "y" })).collect();
        let volumes = [volume("v", users)];
        let pictures = pictures(&volumes, &conflicts(&volumes));
        assert_eq!(pictures[0].users.len(), 2);
        assert_eq!(pictures[0].users[0].name, "250 workloads");
        assert_eq!(pictures[0].edges.len(), 2);
    }

    #[test]
    fn a_user_of_two_volumes_is_drawn_once_between_them() {
        let volumes = [
            volume("v1", vec![user("both", "x"), user("first", "y")]),
            volume("v2", vec![user("both", "x"), user("second", "y")]),
        ];
        let pictures = pictures(&volumes, &conflicts(&volumes));
        let names: Vec<&str> = pictures[0].users.iter().map(|u| u.name.as_str()).collect();
        assert_eq!(names, ["shop/first", "shop/both", "shop/second"]);
        assert_eq!(pictures[0].edges.iter().filter(|e| e.user == 1).count(), 2);
    }
}

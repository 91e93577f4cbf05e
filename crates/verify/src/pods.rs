//! The pods of the node, found from its processes: by control group, and by user namespace.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use kernel::NamespaceKind;

use crate::identity::{Identity, Membership, Part, Recorded, membership};
use crate::maps::Maps;
use crate::spaces::HOST;
use crate::walk::{Process, Walk};

/// The names of a pod, as far as a source has them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Naming {
    pub(crate) uid: Option<String>,
    pub(crate) namespace: Option<String>,
    pub(crate) name: Option<String>,
}

/// A pod and the processes in it.
#[derive(Debug, Clone)]
pub(crate) struct Pod {
    pub(crate) identity: Identity,
    pub(crate) naming: Naming,
    /// Its user namespace; `None` if it has the host's.
    pub(crate) home: Option<u64>,
    /// The maps of that.
    pub(crate) maps: Maps,
    /// Where in the walk's processes its own are; those of the runtime are not among them.
    pub(crate) processes: Vec<usize>,
    /// Those of them that are neither in its user namespace nor in one below.
    pub(crate) outside: Vec<usize>,
    /// One of them whose user namespace cannot be read, where no other shows a user namespace of the pod's own: whether it is
    /// isolated cannot be determined.
    pub(crate) unread: Option<usize>,
}

impl Pod {
    /// Short, for people and for the `pod` field.
    pub(crate) fn title(&self) -> String {
        match (&self.naming.namespace, &self.naming.name) {
            (Some(namespace), Some(name)) => format!("{namespace}/{name}"),
            (None, Some(name)) => name.clone(),
            _ => self.uid().to_owned(),
        }
    }

    pub(crate) fn uid(&self) -> &str {
        self.naming.uid.as_deref().unwrap_or_else(|| self.identity.key())
    }

    /// Whether `word`, given on the command line, names this pod.
    pub(crate) fn is_called(&self, word: &str) -> bool {
        let short =
            self.identity.key().len() >= 12 && word.len() >= 12 && self.identity.key().starts_with(word);
        word == self.uid()
            || word == self.identity.key()
            || word == self.title()
            || short
            || self.naming.name.as_deref() == Some(word)
    }

    /// Whether a lease of this holder is the pod's.
    pub(crate) fn holds_as(&self, holder: &str) -> bool {
        holder == self.uid() || holder == self.identity.key() || holder == self.title()
    }

    /// Whether podman runs it. Its containers rightly have IDs in common: those of one user all have that user's, and a
    /// container can join the user namespace of another.
    pub(crate) fn is_podmans(&self) -> bool {
        matches!(self.identity, Identity::Libpod(_))
    }

    /// Those that are where they should be.
    pub(crate) fn at_home<'a>(&'a self, walk: &'a Walk) -> impl Iterator<Item = &'a Process> {
        let inside = self.processes.iter().filter(|at| !self.outside.contains(at));
        inside.filter_map(|at| walk.processes.get(*at))
    }
}

/// What runtimes say about which processes are whose.
#[derive(Debug, Default)]
pub(crate) struct Known {
    /// Whose the control groups are.
    pub(crate) recorded: Recorded,
    /// The pods of processes that a runtime says it started, where no control group tells.
    pub(crate) started: HashMap<u32, Identity>,
}

/// Puts processes together to pods.
pub(crate) fn group(walk: &Walk, known: &Known) -> Vec<Pod> {
    let memberships: Vec<Option<Membership>> =
        walk.processes.iter().map(|process| membership(&process.cgroups, &known.recorded)).collect();
    let all = || walk.processes.iter().zip(&memberships).enumerate();
    let mut members: BTreeMap<Identity, Vec<usize>> = BTreeMap::new();
    let mut homes: BTreeMap<u64, Identity> = BTreeMap::new();
    for (at, (process, membership)) in all() {
        if let Some(identity) = identity_of(walk, process, membership.as_ref(), &known.started) {
            members.entry(identity.clone()).or_default().push(at);
            if let Some(user) = own_user_namespace(walk, process) {
                homes.entry(user).or_insert_with(|| identity.clone());
            }
        }
    }
    for (at, (process, membership)) in all() {
        let free = membership.is_none() && !known.started.contains_key(&process.pid);
        let user = own_user_namespace(walk, process).filter(|_| free);
        if let Some(identity) = user.and_then(|user| around(walk, &homes, user)) {
            members.entry(identity.clone()).or_default().push(at);
        }
    }
    members.into_iter().map(|(identity, processes)| pod(walk, identity, processes)).collect()
}

fn identity_of(
    walk: &Walk,
    process: &Process,
    membership: Option<&Membership>,
    started: &HashMap<u32, Identity>,
) -> Option<Identity> {
    match membership {
        Some(membership) => {
            (!is_the_runtimes(walk, process, membership)).then(|| membership.identity.clone())
        }
        None => started.get(&process.pid).cloned(),
    }
}

/// The name of a control group does not make a process the runtime's: conmon of a pod has the host's users. (That of a
/// rootless podman has those of its own user.)
fn is_the_runtimes(walk: &Walk, process: &Process, membership: &Membership) -> bool {
    let with_hosts_users = process.space(NamespaceKind::User).is_some_and(|user| is_the_hosts(walk, user));
    membership.part == Part::Runtime
        && (with_hosts_users || matches!(membership.identity, Identity::Libpod(_)))
}

/// The pod whose user namespace this is, or lies in.
fn around<'a>(walk: &Walk, homes: &'a BTreeMap<u64, Identity>, user: u64) -> Option<&'a Identity> {
    homes
        .get(&user)
        .or_else(|| homes.iter().find(|(home, _)| walk.spaces.lies_in(user, **home)).map(|(_, id)| id))
}

/// Its user namespace, if that is not the host's nor one that looks like it.
fn own_user_namespace(walk: &Walk, process: &Process) -> Option<u64> {
    process.space(NamespaceKind::User).filter(|user| !is_the_hosts(walk, *user))
}

pub(crate) fn is_the_hosts(walk: &Walk, user: u64) -> bool {
    user == HOST || walk.maps.get(&user).is_some_and(Maps::is_the_hosts)
}

fn pod(walk: &Walk, identity: Identity, processes: Vec<usize>) -> Pod {
    let users: Vec<Option<u64>> = processes
        .iter()
        .map(|at| walk.processes.get(*at).and_then(|process| process.space(NamespaceKind::User)))
        .collect();
    let own: Vec<u64> = users.iter().flatten().copied().filter(|user| !is_the_hosts(walk, *user)).collect();
    let home = home(walk, &own);
    let at_home = |user: &Option<u64>| match (home, user) {
        (Some(home), Some(user)) => walk.spaces.lies_in(*user, home),
        // One that may not be looked at is a blind spot of the census.
        _ => true,
    };
    let outside =
        processes.iter().zip(&users).filter(|(_, user)| !at_home(user)).map(|(at, _)| *at).collect();
    let maps = home.and_then(|home| walk.maps.get(&home)).cloned().unwrap_or_default();
    let is_unread = |at: &usize| walk.processes.get(*at).is_some_and(Process::is_unread);
    let unread = processes.iter().copied().find(is_unread).filter(|_| home.is_none());
    let uid = match &identity {
        Identity::Pod(uid) => Some(uid.clone()),
        Identity::Sandbox(_) | Identity::Libpod(_) => None,
    };
    Pod { identity, naming: Naming { uid, ..Naming::default() }, home, maps, processes, outside, unread }
}

/// Of several the one that the others lie in; of several such, the one with the most processes.
fn home(walk: &Walk, own: &[u64]) -> Option<u64> {
    let different: BTreeSet<u64> = own.iter().copied().collect();
    let outermost = different
        .iter()
        .copied()
        .filter(|user| !different.iter().any(|other| other != user && walk.spaces.lies_in(*user, *other)));
    outermost.max_by_key(|user| own.iter().filter(|one| *one == user).count())
}

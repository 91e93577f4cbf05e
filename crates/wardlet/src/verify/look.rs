//! All that is known after one look at the node.

use std::collections::BTreeMap;
use std::path::PathBuf;

use census::{HostRoot, Report};
use ids::{HostSpan, IdKind};

use super::maps::Maps;
use super::pods::Pod;
use super::walk::Walk;

/// A lease, as far as it concerns pods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LeaseFact {
    pub(super) holder: Option<String>,
    /// Those who have joined; `None` if it is not shared.
    pub(super) members: Option<Vec<String>>,
    pub(super) uids: HostSpan,
    pub(super) gids: HostSpan,
    /// Not on its way to being free.
    pub(super) leased: bool,
    pub(super) categories: Option<String>,
}

impl LeaseFact {
    /// Everybody who has it.
    pub(super) fn holders(&self) -> Vec<&str> {
        match &self.members {
            Some(members) => members.iter().map(String::as_str).collect(),
            None => self.holder.iter().map(String::as_str).collect(),
        }
    }

    pub(super) fn is(&self, maps: &Maps) -> bool {
        maps.spans(IdKind::Uid) == [self.uids] && maps.spans(IdKind::Gid) == [self.gids]
    }
}

/// What is written down about pods.
#[derive(Debug, Default)]
pub(super) struct Books {
    /// `None` where there is no ledger, or none that can be read.
    pub(super) leases: Option<Vec<LeaseFact>>,
    /// The kubelet's records, by the pod's UID.
    pub(super) records: BTreeMap<String, HostSpan>,
    /// Whether there is a kubelet's directory of pods.
    pub(super) kubelet: bool,
    /// Directories of pods that somebody is at work on: the kubelet's, and our agent's.
    pub(super) homes: Vec<PathBuf>,
}

impl Books {
    /// Whether a pod of this UID is known here though nothing of it may run.
    pub(super) fn know(&self, uid: &str) -> bool {
        let plain = !uid.is_empty() && !uid.contains('/') && uid != "." && uid != "..";
        plain && self.homes.iter().any(|home| home.join(uid).is_dir())
    }
}

/// A sandbox that a runtime told of.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) id: String,
    pub(super) uid: String,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) ready: bool,
    /// The wrapper's annotation, or a user namespace asked for in CRI.
    pub(super) asked: bool,
    /// Its first process, where that was asked for.
    pub(super) pid: Option<u32>,
    /// The control group that its containers are in, where the runtime says so.
    pub(super) cgroup: Option<String>,
}

impl Told {
    pub(super) fn is_called(&self, word: &str) -> bool {
        word == self.uid || word == self.id || word == format!("{}/{}", self.namespace, self.name)
    }
}

/// One look.
#[derive(Debug)]
pub(super) struct Look {
    pub(super) walk: Walk,
    pub(super) census: Report,
    pub(super) pods: Vec<Pod>,
    pub(super) books: Books,
    pub(super) told: Vec<Told>,
    /// What was looked at beside /proc.
    pub(super) sources: Vec<String>,
    /// How many entries of a mount are looked at.
    pub(super) files: usize,
    pub(super) root: HostRoot,
}

impl Look {
    /// The files of a process.
    pub(super) fn proc_dir(&self, pid: u32) -> PathBuf {
        self.root.path(format!("/proc/{pid}"))
    }

    /// Those that have a user namespace of their own.
    pub(super) fn isolated(&self) -> impl Iterator<Item = &Pod> {
        self.pods.iter().filter(|pod| pod.home.is_some())
    }

    /// The pod whose user namespace `user` is, or lies in.
    pub(super) fn pod_around(&self, user: u64) -> Option<&Pod> {
        self.isolated().find(|pod| pod.home.is_some_and(|home| self.walk.spaces.lies_in(user, home)))
    }

    /// Whether the ledger gave both of them one block.
    pub(super) fn share_a_lease(&self, one: &Pod, two: &Pod) -> bool {
        let leases = self.books.leases.iter().flatten();
        leases.filter(|lease| lease.members.is_some()).any(|lease| {
            let has = |pod: &Pod| lease.holders().iter().any(|holder| pod.holds_as(holder));
            has(one) && has(two)
        })
    }
}

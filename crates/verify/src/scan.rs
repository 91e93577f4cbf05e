//! The result of one scan of the node.

use std::collections::BTreeMap;
use std::path::PathBuf;

use census::{HostRoot, Report};
use ids::{HostSpan, IdKind};

use crate::maps::Maps;
use crate::pods::Pod;
use crate::walk::Walk;

/// A lease, as far as it concerns pods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LeaseFact {
    pub(crate) holder: Option<String>,
    /// Its members; `None` if it is not shared.
    pub(crate) members: Option<Vec<String>>,
    pub(crate) uids: HostSpan,
    pub(crate) gids: HostSpan,
    /// Not on its way to being free.
    pub(crate) leased: bool,
    pub(crate) categories: Option<String>,
}

impl LeaseFact {
    /// Its holder and its members.
    pub(crate) fn holders(&self) -> Vec<&str> {
        match &self.members {
            Some(members) => members.iter().map(String::as_str).collect(),
            None => self.holder.iter().map(String::as_str).collect(),
        }
    }

    pub(crate) fn is(&self, maps: &Maps) -> bool {
        maps.spans(IdKind::Uid) == [self.uids] && maps.spans(IdKind::Gid) == [self.gids]
    }
}

/// A category pair that was allocated to one holder and that another has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SharedPair {
    pub(crate) pair: String,
    pub(crate) holder: String,
    pub(crate) other: String,
}

/// What the ledger and the kubelet have recorded of pods.
#[derive(Debug, Default)]
pub(crate) struct NodeRecords {
    /// `None` where there is no ledger, or none that can be read.
    pub(crate) leases: Option<Vec<LeaseFact>>,
    /// Category pairs that one holder was to have alone and another has too.
    pub(crate) shared_pairs: Vec<SharedPair>,
    /// The kubelet's records, by the pod's UID.
    pub(crate) kubelet_records: BTreeMap<String, HostSpan>,
    /// Whether there is a kubelet's directory of pods.
    pub(crate) kubelet: bool,
    /// Directories of pods that the kubelet or our agent manages.
    pub(crate) homes: Vec<PathBuf>,
    /// Directories with a directory of logs for each pod, which is named by the pod: the kubelet's and our agent's.
    pub(crate) logs: Vec<PathBuf>,
}

impl NodeRecords {
    /// Whether a pod of this UID is known here though nothing of it may run.
    pub(crate) fn know(&self, uid: &str) -> bool {
        let plain = !uid.is_empty() && !uid.contains('/') && uid != "." && uid != "..";
        plain && self.homes.iter().any(|home| home.join(uid).is_dir())
    }
}

/// A sandbox that a runtime reported.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ReportedSandbox {
    pub(crate) id: String,
    pub(crate) uid: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) ready: bool,
    /// The wrapper's annotation, or a user namespace asked for in CRI.
    pub(crate) asked: bool,
    /// Its first process, where that was asked for.
    pub(crate) pid: Option<u32>,
    /// The control group that its containers are in, where the runtime says so.
    pub(crate) cgroup: Option<String>,
}

impl ReportedSandbox {
    pub(crate) fn is_called(&self, word: &str) -> bool {
        word == self.uid || word == self.id || word == format!("{}/{}", self.namespace, self.name)
    }
}

/// One scan of the host: its processes, and what records and runtimes say of them.
#[derive(Debug)]
pub(crate) struct HostScan {
    pub(crate) walk: Walk,
    pub(crate) census: Report,
    pub(crate) pods: Vec<Pod>,
    pub(crate) records: NodeRecords,
    pub(crate) reported: Vec<ReportedSandbox>,
    /// What was looked at beside /proc.
    pub(crate) sources: Vec<String>,
    /// How many entries of a mount are looked at.
    pub(crate) files: usize,
    pub(crate) root: HostRoot,
}

impl HostScan {
    /// The files of a process.
    pub(crate) fn proc_dir(&self, pid: u32) -> PathBuf {
        self.root.path(format!("/proc/{pid}"))
    }

    /// Those that have a user namespace of their own.
    pub(crate) fn isolated(&self) -> impl Iterator<Item = &Pod> {
        self.pods.iter().filter(|pod| pod.home.is_some())
    }

    /// The pod whose user namespace `user` is, or lies in.
    pub(crate) fn pod_around(&self, user: u64) -> Option<&Pod> {
        self.isolated().find(|pod| pod.home.is_some_and(|home| self.walk.spaces.lies_in(user, home)))
    }

    /// Whether the ledger gave both of them one block.
    pub(crate) fn share_a_lease(&self, one: &Pod, two: &Pod) -> bool {
        let leases = self.records.leases.iter().flatten();
        leases.filter(|lease| lease.members.is_some()).any(|lease| {
            let has = |pod: &Pod| lease.holders().iter().any(|holder| pod.holds_as(holder));
            has(one) && has(two)
        })
    }
}

//! The answer: pods, violations, and the evidence that they rest on.

use std::collections::BTreeSet;
use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use census::HostRoot;
use ids::HostSpan;
use serde::Serialize;

use crate::Error;
use crate::checks::Tally;
use crate::identity::Identity;
use crate::maps::Maps;
use crate::pods::Pod;
use crate::scan::HostScan;
use crate::violation::{Findings, Note, Unseen, Violation};

/// How a pod fares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum PodVerdict {
    /// In a user namespace of its own, and nothing is wrong.
    Isolated,
    /// In the host's user namespace, and no user namespace was asked for.
    NotIsolated,
    /// Something is wrong.
    Violated,
    /// It could not be determined: its user namespace, its mounts, or something else of it could not be looked at.
    Unseen,
}

impl PodVerdict {
    /// It in words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Isolated => "isolated",
            Self::NotIsolated => "not isolated",
            Self::Violated => "violated",
            Self::Unseen => "unseen",
        }
    }
}

/// A pod as it is shown; the first six fields are a contract.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodView {
    /// Its namespace, where that is known.
    pub namespace: Option<String>,
    /// Its name, where that is known.
    pub name: Option<String>,
    /// Its UID; the ID of its sandbox or container where no UID is known.
    pub uid: String,
    /// The host IDs of its users; `None` in the host's user namespace.
    pub block: Option<HostSpan>,
    /// How many processes it has.
    pub processes: usize,
    /// How many of its mounts were looked at.
    pub mounts: usize,
    /// How it fares.
    pub verdict: PodVerdict,
    /// `kubernetes`, `sandbox` or `podman`: what it was known by.
    known_by: &'static str,
    user_namespace: Option<u64>,
    #[serde(flatten)]
    maps: Maps,
    labels: BTreeSet<String>,
    /// Its name for people.
    #[serde(skip)]
    pub title: String,
    #[serde(skip)]
    pod: Pod,
}

/// What a report says of the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Every isolated pod is alone with its IDs.
    Holds,
    /// There are violations.
    Violated,
    /// There is no violation, but something could not be seen.
    Unknown,
}

/// Pods, violations and evidence. It is part of the JSON contract: fields are added, never changed.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Whether the verdict is [`Verdict::Holds`].
    pub holds: bool,
    verdict: &'static str,
    /// The pods that run, by title.
    pub pods: Vec<PodView>,
    /// What does not hold.
    pub violations: Vec<Violation>,
    /// What the reader should know; no doubt on the verdict.
    pub notes: Vec<Note>,
    /// What could not be found out.
    pub unseen: Vec<Unseen>,
    /// What was looked at.
    pub evidence: Evidence,
}

/// What was looked at, when and where.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Evidence {
    /// When, in UTC.
    pub time: String,
    boot_id: Option<String>,
    node: Option<String>,
    kernel: Option<String>,
    sources: Vec<String>,
    /// How many processes.
    pub processes: usize,
    user_namespaces: usize,
    /// How many mounts of pods.
    pub mounts: usize,
    /// How many files on these mounts.
    pub files: usize,
    /// Mounts with more files than were looked at.
    pub mounts_seen_in_part: usize,
    /// A violation counts if two scans show it.
    looks: u32,
}

impl Report {
    pub(crate) fn new(scan: &HostScan, findings: Findings, tally: &Tally) -> Self {
        let Findings { violations, notes, unseen } = findings;
        let mut pods: Vec<PodView> = scan.pods.iter().map(|pod| view(scan, pod, tally)).collect();
        pods.sort_by(|a, b| a.title.cmp(&b.title));
        let evidence = Evidence {
            time: types::time::stamp(now()),
            boot_id: procfs::boot_id(&scan.root.path("/proc")).ok(),
            node: one_line(&scan.root, "/proc/sys/kernel/hostname"),
            kernel: one_line(&scan.root, "/proc/sys/kernel/osrelease"),
            sources: scan.sources.clone(),
            processes: scan.walk.processes.len(),
            user_namespaces: scan.walk.maps.len(),
            mounts: tally.mounts.values().sum(),
            files: tally.files,
            mounts_seen_in_part: tally.in_part,
            looks: 1,
        };
        Self { holds: false, verdict: "", pods, violations, notes, unseen, evidence }.judged()
    }

    /// This second scan, with only those violations that the first one showed, too.
    pub(crate) fn confirming(mut self, first: &Self) -> Self {
        self.violations.retain(|violation| first.violations.iter().any(|before| violation.is_again(before)));
        self.evidence.looks = 2;
        self.judged()
    }

    /// Only what concerns the pods that `word` names: by NAME, NAMESPACE/NAME, UID, or the ID of a sandbox. It fails if
    /// there is neither such a pod nor a violation that names it.
    pub fn only(mut self, word: &str) -> Result<Self, Error> {
        self.pods.retain(|view| view.pod.is_called(word));
        let uids: BTreeSet<&str> = self.pods.iter().map(|view| view.uid.as_str()).chain([word]).collect();
        self.violations.retain(|violation| violation.touches.iter().any(|uid| uids.contains(uid.as_str())));
        self.notes.retain(|note| note.uid.as_deref().is_none_or(|uid| uids.contains(uid)));
        self.unseen.retain(|unseen| unseen.uid.as_deref().is_none_or(|uid| uids.contains(uid)));
        if self.pods.is_empty() && self.violations.is_empty() {
            return Err(Error::NoSuchPod { word: word.to_owned() });
        }
        Ok(self.judged())
    }

    fn judged(mut self) -> Self {
        for view in &mut self.pods {
            let touched = self.violations.iter().any(|violation| violation.touches.contains(&view.uid));
            let unseen = self.unseen.iter().any(|unseen| unseen.uid.as_ref() == Some(&view.uid));
            view.verdict = match view.block {
                _ if touched => PodVerdict::Violated,
                None if view.pod.unread.is_some() => PodVerdict::Unseen,
                None => PodVerdict::NotIsolated,
                Some(_) if unseen || view.mounts == 0 => PodVerdict::Unseen,
                Some(_) => PodVerdict::Isolated,
            };
        }
        (self.holds, self.verdict) = match self.verdict() {
            Verdict::Holds => (true, "holds"),
            Verdict::Violated => (false, "violated"),
            Verdict::Unknown => (false, "unknown"),
        };
        self
    }

    /// What it says of the node: a violation outweighs what could not be seen.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        if !self.violations.is_empty() {
            Verdict::Violated
        } else if self.is_sure() {
            Verdict::Holds
        } else {
            Verdict::Unknown
        }
    }

    /// Whether all that there is was looked at.
    pub(crate) fn is_sure(&self) -> bool {
        self.unseen.is_empty() && self.pods.iter().all(|view| view.verdict != PodVerdict::Unseen)
    }
}

fn view(scan: &HostScan, pod: &Pod, tally: &Tally) -> PodView {
    let processes = pod.processes.iter().filter_map(|at| scan.walk.processes.get(*at));
    PodView {
        namespace: pod.naming.namespace.clone(),
        name: pod.naming.name.clone(),
        uid: pod.uid().to_owned(),
        block: pod.home.and_then(|_| pod.maps.block()),
        processes: pod.processes.len(),
        mounts: tally.mounts.get(pod.uid()).copied().unwrap_or_default(),
        verdict: PodVerdict::NotIsolated,
        known_by: match pod.identity {
            Identity::Pod(_) => "kubernetes",
            Identity::Sandbox(_) => "sandbox",
            Identity::Libpod(_) => "podman",
        },
        user_namespace: pod.home,
        maps: pod.maps.clone(),
        labels: processes.filter_map(|process| process.label.clone()).collect(),
        title: pod.title(),
        pod: pod.clone(),
    }
}

/// Seconds since 1970; 0 on a clock that is set before that.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs())
}

fn one_line(root: &HostRoot, file: &str) -> Option<String> {
    fs::read_to_string(root.path(file)).ok().map(|text| text.trim().to_owned())
}

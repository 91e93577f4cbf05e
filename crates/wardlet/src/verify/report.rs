//! The answer: pods, violations, and the evidence that they rest on.

use std::collections::BTreeSet;
use std::fs;

use census::HostRoot;
use ids::HostSpan;
use serde::Serialize;

use super::checks::Tally;
use super::identity::Identity;
use super::look::Look;
use super::maps::Maps;
use super::pods::Pod;
use super::violation::{Findings, Note, Unseen, Violation};
use crate::failure::{Answer, Failure};
use crate::time;

/// How a pod fares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum PodVerdict {
    /// In a user namespace of its own, and nothing is wrong.
    Isolated,
    /// In the host's user namespace, which nobody asked to be otherwise.
    NotIsolated,
    /// Something is wrong.
    Violated,
    /// In a user namespace of its own, but its mounts, or something else of it, could not be looked at.
    Unseen,
}

impl PodVerdict {
    pub(super) fn words(self) -> &'static str {
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
pub(super) struct PodView {
    pub(super) namespace: Option<String>,
    pub(super) name: Option<String>,
    pub(super) uid: String,
    pub(super) block: Option<HostSpan>,
    pub(super) processes: usize,
    pub(super) mounts: usize,
    pub(super) verdict: PodVerdict,
    /// `kubernetes`, `sandbox` or `podman`: what it was known by.
    known_by: &'static str,
    user_namespace: Option<u64>,
    #[serde(flatten)]
    maps: Maps,
    labels: BTreeSet<String>,
    #[serde(skip)]
    pub(super) title: String,
    #[serde(skip)]
    pod: Pod,
}

/// The answer.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Report {
    pub(super) holds: bool,
    verdict: &'static str,
    pub(super) pods: Vec<PodView>,
    pub(super) violations: Vec<Violation>,
    pub(super) notes: Vec<Note>,
    /// What could not be found out.
    pub(super) unseen: Vec<Unseen>,
    pub(super) evidence: Evidence,
}

/// What was looked at, when and where.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Evidence {
    pub(super) time: String,
    boot_id: Option<String>,
    node: Option<String>,
    kernel: Option<String>,
    sources: Vec<String>,
    pub(super) processes: usize,
    user_namespaces: usize,
    pub(super) mounts: usize,
    pub(super) files: usize,
    /// Mounts with more files than were looked at.
    pub(super) mounts_seen_in_part: usize,
    /// A violation counts if two looks show it.
    looks: u32,
}

impl Report {
    pub(super) fn new(look: &Look, findings: Findings, tally: &Tally) -> Self {
        let Findings { violations, notes, unseen } = findings;
        let mut pods: Vec<PodView> = look.pods.iter().map(|pod| view(look, pod, tally)).collect();
        pods.sort_by(|a, b| a.title.cmp(&b.title));
        let evidence = Evidence {
            time: time::stamp(time::now()),
            boot_id: procfs::boot_id(&look.root.path("/proc")).ok(),
            node: one_line(&look.root, "/proc/sys/kernel/hostname"),
            kernel: one_line(&look.root, "/proc/sys/kernel/osrelease"),
            sources: look.sources.clone(),
            processes: look.walk.processes.len(),
            user_namespaces: look.walk.maps.len(),
            mounts: tally.mounts.values().sum(),
            files: tally.files,
            mounts_seen_in_part: tally.in_part,
            looks: 1,
        };
        Self { holds: false, verdict: "", pods, violations, notes, unseen, evidence }.judged()
    }

    /// This second look, with only those violations that the first one showed, too.
    pub(super) fn confirming(mut self, first: &Self) -> Self {
        self.violations.retain(|violation| first.violations.iter().any(|before| violation.is_again(before)));
        self.evidence.looks = 2;
        self.judged()
    }

    /// Only what concerns the pods that somebody calls `word`.
    pub(crate) fn only(mut self, word: &str) -> Result<Self, Failure> {
        self.pods.retain(|view| view.pod.is_called(word));
        let uids: BTreeSet<&str> = self.pods.iter().map(|view| view.uid.as_str()).chain([word]).collect();
        self.violations.retain(|violation| violation.touches.iter().any(|uid| uids.contains(uid.as_str())));
        self.notes.retain(|note| note.uid.as_deref().is_none_or(|uid| uids.contains(uid)));
        self.unseen.retain(|unseen| unseen.uid.as_deref().is_none_or(|uid| uids.contains(uid)));
        if self.pods.is_empty() && self.violations.is_empty() {
            return Err(Failure::unknown(format!("no pod {word} runs on this node"))
                .with_hint("wardlet verify lists all; a pod is named by NAME, NAMESPACE/NAME or UID"));
        }
        Ok(self.judged())
    }

    fn judged(mut self) -> Self {
        for view in &mut self.pods {
            let touched = self.violations.iter().any(|violation| violation.touches.contains(&view.uid));
            let unseen = self.unseen.iter().any(|unseen| unseen.uid.as_ref() == Some(&view.uid));
            view.verdict = match view.block {
                _ if touched => PodVerdict::Violated,
                None => PodVerdict::NotIsolated,
                Some(_) if unseen || view.mounts == 0 => PodVerdict::Unseen,
                Some(_) => PodVerdict::Isolated,
            };
        }
        (self.holds, self.verdict) = match self.answer() {
            Answer::Holds => (true, "holds"),
            Answer::DoesNotHold => (false, "violated"),
            Answer::Unknown => (false, "unknown"),
        };
        self
    }

    pub(crate) fn answer(&self) -> Answer {
        if !self.violations.is_empty() {
            Answer::DoesNotHold
        } else if self.is_sure() {
            Answer::Holds
        } else {
            Answer::Unknown
        }
    }

    /// Whether all that there is was looked at.
    pub(super) fn is_sure(&self) -> bool {
        self.unseen.is_empty() && self.pods.iter().all(|view| view.verdict != PodVerdict::Unseen)
    }
}

fn view(look: &Look, pod: &Pod, tally: &Tally) -> PodView {
    let processes = pod.processes.iter().filter_map(|at| look.walk.processes.get(*at));
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

fn one_line(root: &HostRoot, file: &str) -> Option<String> {
    fs::read_to_string(root.path(file)).ok().map(|text| text.trim().to_owned())
}

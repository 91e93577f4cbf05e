//! Pods that the node ends: for critical pods, when it runs short of something, and when they exceed their limits.
//!
//! The end of a pod is on disk before it begins. A later process ends the pod with the same reason: it must not start it again,
//! and the pod has failed however its containers end.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use agent::ports::PodRef;
use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, oneshot, watch};
use tracing::{info, warn};

use super::{Managed, Reconciler, Stage, work};
use crate::pods::ApiPod;
use crate::status::EndedByNode;

/// In the state directory.
const FILE: &str = "ended-by-node.json";
const VERSION: u32 = 1;
/// Requests that wait for the reconciler.
const REQUESTS: usize = 16;

/// The grace period of the end of a pod; `None` for the pod's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Grace(pub(super) Option<Duration>);

impl Grace {
    /// The shorter of two grace periods, if there are any: none is longer than the pod's own.
    pub(super) fn shorter(one: Option<Self>, other: Option<Self>) -> Option<Self> {
        match (one, other) {
            (Some(Self(Some(one))), Some(Self(Some(other)))) => Some(Self(Some(one.min(other)))),
            (Some(Self(one)), Some(Self(other))) => Some(Self(one.or(other))),
            (one, other) => one.or(other),
        }
    }
}

/// How the node ends a pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct NodeEnd {
    /// What its status says.
    pub(crate) status: EndedByNode,
    /// The longest grace period in seconds; `None` for the pod's own.
    pub(crate) grace_seconds: Option<u64>,
}

impl NodeEnd {
    fn grace(&self) -> Grace {
        Grace(self.grace_seconds.map(Duration::from_secs))
    }
}

/// How far the end of a pod is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum EndProgress {
    /// It is ordered.
    Ordered,
    /// No container of the pod runs.
    Ended,
    /// Its containers and volumes are removed.
    CleanedUp,
}

/// A request to the reconciler.
#[derive(Debug)]
pub(crate) enum Request {
    /// The pods that run, or are to run.
    Active(oneshot::Sender<Vec<Arc<ApiPod>>>),
    /// The pods that have something of the node.
    Candidates(oneshot::Sender<Vec<Arc<ApiPod>>>),
    /// End a pod.
    End { pod: PodRef, end: NodeEnd, progress: watch::Sender<EndProgress> },
    /// Start the static pods again that the node has ended.
    RestartStatic,
    /// Remove what no source has from the runtime.
    RemoveUnwanted(oneshot::Sender<()>),
}

/// Ends pods, by way of the reconciler. Clones are the same.
#[derive(Debug, Clone)]
pub(crate) struct PodEnds(mpsc::Sender<Request>);

/// The requests, for the reconciler.
#[derive(Debug)]
pub struct Requests(mpsc::Receiver<Request>);

/// A way to end pods, and its requests.
pub(crate) fn requests() -> (PodEnds, Requests) {
    let (sender, receiver) = mpsc::channel(REQUESTS);
    (PodEnds(sender), Requests(receiver))
}

impl PodEnds {
    /// The pods that have something of the node: they run or are being started, and the node has not ordered their end. None
    /// once the reconciler has ended.
    pub(crate) async fn candidates(&self) -> Vec<Arc<ApiPod>> {
        let (answer, candidates) = oneshot::channel();
        let _ = self.0.send(Request::Candidates(answer)).await;
        candidates.await.unwrap_or_default()
    }

    /// The pods that run or are to run, with those that the node ends already. None once the reconciler has ended.
    pub(crate) async fn active(&self) -> Vec<Arc<ApiPod>> {
        let (answer, active) = oneshot::channel();
        let _ = self.0.send(Request::Active(answer)).await;
        active.await.unwrap_or_default()
    }

    /// Ends a pod. The sender of the progress is dropped when there is no more of it.
    pub(crate) async fn end(&self, pod: PodRef, end: NodeEnd) -> watch::Receiver<EndProgress> {
        let (progress, seen) = watch::channel(EndProgress::Ordered);
        let _ = self.0.send(Request::End { pod, end, progress }).await;
        seen
    }

    /// Starts the static pods again that the node has ended: the cause is gone.
    pub(crate) async fn restart_static(&self) {
        let _ = self.0.send(Request::RestartStatic).await;
    }

    /// Removes what no source has from the runtime, and returns when that is done.
    pub(crate) async fn remove_unwanted(&self) {
        let (done, is_done) = oneshot::channel();
        let _ = self.0.send(Request::RemoveUnwanted(done)).await;
        // An error: it was not begun, because not all sources are known yet.
        let _ = is_done.await;
    }
}

impl Requests {
    pub(super) async fn next(&mut self) -> Request {
        match self.0.recv().await {
            Some(request) => request,
            None => std::future::pending().await,
        }
    }
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    version: u32,
    /// By UID.
    pods: BTreeMap<String, NodeEnd>,
}

impl durable::Record for Kept {
    const VERSION: u32 = VERSION;
}

/// The pods that the node ends, until nothing of them but logs is here.
#[derive(Debug, Default)]
pub(super) struct NodeEnds {
    file: PathBuf,
    /// By UID.
    pods: BTreeMap<String, NodeEnd>,
    progress: HashMap<String, Vec<watch::Sender<EndProgress>>>,
}

impl NodeEnds {
    /// Reads which pods earlier processes were ending.
    pub(super) fn load(state: &Path) -> Self {
        let file = state.join(FILE);
        let kept = durable::read_record::<Kept>(&file).unwrap_or_else(|error| {
            warn!("{error}; pods that were being evicted may be started again");
            None
        });
        Self { file, pods: kept.unwrap_or_default().pods, progress: HashMap::new() }
    }

    pub(super) fn contains(&self, uid: &str) -> bool {
        self.pods.contains_key(uid)
    }

    /// By UID.
    pub(super) fn all(&self) -> impl Iterator<Item = (&String, &NodeEnd)> {
        self.pods.iter()
    }

    pub(super) fn grace(&self, uid: &str) -> Option<Grace> {
        self.pods.get(uid).map(NodeEnd::grace)
    }

    /// Notes that a pod is to end. One that is ending already keeps its reason.
    fn insert(&mut self, uid: &str, end: NodeEnd) {
        if !self.contains(uid) {
            self.pods.insert(uid.to_owned(), end);
            self.save();
        }
    }

    fn watch(&mut self, uid: &str, progress: watch::Sender<EndProgress>) {
        self.progress.entry(uid.to_owned()).or_default().push(progress);
    }

    /// Notes that no container of a pod runs.
    pub(super) fn ended(&self, uid: &str) {
        for seen in self.progress.get(uid).into_iter().flatten() {
            seen.send_replace(EndProgress::Ended);
        }
    }

    /// Forgets a pod whose containers and volumes are removed. Returns whether it was known.
    pub(super) fn remove(&mut self, uid: &str) -> bool {
        for seen in self.progress.remove(uid).unwrap_or_default() {
            seen.send_replace(EndProgress::CleanedUp);
        }
        let is_known = self.pods.remove(uid).is_some();
        if is_known {
            self.save();
        }
        is_known
    }

    /// Forgets the pods that are gone without this process.
    pub(super) fn retain(&mut self, is_here: impl Fn(&str) -> bool) {
        let gone: Vec<String> = self.pods.keys().filter(|uid| !is_here(uid)).cloned().collect();
        for uid in gone {
            self.remove(&uid);
        }
    }

    fn save(&self) {
        let kept = Kept { version: VERSION, pods: self.pods.clone() };
        if let Err(error) = durable::write_record(&self.file, &kept) {
            warn!("pods that are being evicted may be started again if this process ends: {error}");
        }
    }
}

impl Reconciler {
    /// Ends a pod. Its status says why from now on.
    pub(super) fn end_by_node(&mut self, uid: &str, end: NodeEnd) {
        let Some(managed) = self.pods.get(uid) else { return };
        let NodeEnd { status, .. } = &end;
        let pod = &managed.pod;
        info!(
            "pod {}/{} is ended by the node: {}: {}",
            pod.namespace, pod.name, status.reason, status.message
        );
        if let Some(cluster) = self.ports.cluster.as_ref().filter(|_| !self.ends.contains(uid)) {
            cluster.statuses.end_by_node(uid, status.clone());
        }
        self.ends.insert(uid, end);
    }

    /// A static pod that an earlier process ended, for instance because the machine shut down, runs again.
    pub(super) fn forget_end(&mut self, uid: &str) {
        if self.ends.remove(uid)
            && let Some(cluster) = &self.ports.cluster
        {
            cluster.statuses.forget_end(uid);
        }
    }

    /// Starts the static pods again that the node has ended.
    fn restart_static(&mut self) {
        let has_ended =
            |managed: &&mut Managed| managed.is_static && matches!(managed.stage, Stage::Ended(_));
        for managed in self.pods.values_mut().filter(has_ended) {
            if let Stage::Ended(handle) = std::mem::replace(&mut managed.stage, Stage::Removing) {
                self.tasks.spawn(work::remove(managed.pod.clone(), handle));
            }
        }
    }

    /// Answers a request.
    pub(super) async fn answer(&mut self, request: Request) {
        match request {
            Request::Active(answer) => drop(answer.send(self.active())),
            Request::Candidates(answer) => drop(answer.send(self.candidates())),
            Request::End { pod, end, progress } => {
                let uid = pod.uid.as_str();
                if !self.pods.get(uid).is_some_and(|managed| has_not_ended(&managed.stage)) {
                    return;
                }
                self.ends.watch(uid, progress);
                self.end_by_node(uid, end);
                self.reconcile().await;
            }
            // Before each source is known, nothing is known to be unwanted.
            Request::RemoveUnwanted(_) if !self.is_cleaned => {}
            Request::RestartStatic => self.restart_static(),
            Request::RemoveUnwanted(done) => self.collect_now(Some(done)),
        }
    }

    fn active(&self) -> Vec<Arc<ApiPod>> {
        let is_active = |pod: &&Arc<ApiPod>| {
            let managed = self.pods.get(pod.pod.uid.as_str());
            managed.is_some_and(|managed| has_not_ended(&managed.stage)) && !pod.is_terminal()
        };
        self.wanted.pods().filter(is_active).cloned().collect()
    }

    fn candidates(&self) -> Vec<Arc<ApiPod>> {
        // A pod that waits for its start has nothing, and its end would give nothing back.
        let has_something = |stage: &Stage| matches!(stage, Stage::Starting | Stage::Running { .. });
        let is_candidate = |pod: &&Arc<ApiPod>| {
            let uid = pod.pod.uid.as_str();
            let runs = self.pods.get(uid).is_some_and(|managed| has_something(&managed.stage));
            runs && !self.ends.contains(uid) && !pod.is_terminal()
        };
        self.wanted.pods().filter(is_candidate).map(|pod| self.allocations.given(pod)).collect()
    }
}

/// Whether a pod runs, or is to run.
fn has_not_ended(stage: &Stage) -> bool {
    matches!(
        stage,
        Stage::Starting | Stage::Waiting { .. } | Stage::Preempting { .. } | Stage::Running { .. }
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(reason: &str) -> NodeEnd {
        let (reason, message) = (reason.to_owned(), "why".to_owned());
        NodeEnd { status: EndedByNode { reason, message, is_disruption: true }, grace_seconds: Some(1) }
    }

    #[test]
    fn the_next_process_goes_on_with_the_end_of_a_pod() {
        let dir = tempfile::tempdir().unwrap();
        let mut ends = NodeEnds::load(dir.path());
        ends.insert("a", end("Evicted"));
        ends.insert("b", end("Preempting"));
        // The first reason counts.
        ends.insert("a", end("Preempting"));
        let mut next = NodeEnds::load(dir.path());
        let found: Vec<_> = next.all().map(|(uid, end)| (uid.as_str(), end.status.reason.as_str())).collect();
        assert_eq!(found, [("a", "Evicted"), ("b", "Preempting")]);
        assert_eq!(next.grace("a"), Some(Grace(Some(Duration::from_secs(1)))));
        assert!(next.remove("a") && !next.remove("a"));
        next.retain(|_| false);
        assert_eq!(NodeEnds::load(dir.path()).all().count(), 0);
    }

    #[test]
    fn the_shorter_grace_period_counts() {
        let seconds = |seconds: u64| Some(Grace(Some(Duration::from_secs(seconds))));
        let own = Some(Grace(None));
        assert_eq!(Grace::shorter(seconds(3), seconds(1)), seconds(1));
        assert_eq!(
            (Grace::shorter(own, seconds(1)), Grace::shorter(seconds(1), own)),
            (seconds(1), seconds(1))
        );
        assert_eq!((Grace::shorter(None, own), Grace::shorter(own, own)), (own, own));
        assert_eq!(Grace::shorter(None, None), None);
    }

    #[test]
    fn the_progress_of_an_end_is_seen() {
        let dir = tempfile::tempdir().unwrap();
        let mut ends = NodeEnds::load(dir.path());
        let (progress, seen) = watch::channel(EndProgress::Ordered);
        ends.insert("a", end("Evicted"));
        ends.watch("a", progress);
        ends.ended("a");
        ends.ended("b");
        assert_eq!(*seen.borrow(), EndProgress::Ended);
        ends.remove("a");
        assert_eq!(*seen.borrow(), EndProgress::CleanedUp);
        assert!(seen.has_changed().is_err(), "there is no more of it");
    }
}

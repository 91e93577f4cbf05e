//! Pods that the node ends: for critical pods, when it runs short of something, and when they exceed their limits.
//!
//! The end of a pod is on disk before it begins. A later process ends the pod with the same reason: it must not start it again,
//! and the pod has failed however its containers end. Where the disk has no room for that, the pod is ended all the same: its end
//! may be what gives the disk room. The file is written again with the next step of any pod.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use agent::ports::PodRef;
use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, oneshot, watch};
use tracing::{info, warn};

use super::{Reconciler, Stage, work};
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
    /// It is requested.
    Requested,
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
    /// End these pods in the same way.
    EndAll { pods: Vec<(PodRef, watch::Sender<EndProgress>)>, end: NodeEnd },
    /// Start those of these pods again that are static, by UID.
    RestartStatic(BTreeSet<String>),
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
    /// The pods that have something of the node, and whose end it has not ordered: they run, are being started, or were started by
    /// an earlier process or another agent and could not be adopted. None once the reconciler has ended.
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

    /// Ends a pod, and returns once that is ordered; `None` if there is nothing to end. The sender of the progress is dropped when
    /// there is no more of it.
    pub(crate) async fn end(&self, pod: PodRef, end: NodeEnd) -> Option<watch::Receiver<EndProgress>> {
        let (progress, mut seen) = watch::channel(EndProgress::Requested);
        let _ = self.0.send(Request::End { pod, end, progress }).await;
        let is_ordered = seen.wait_for(|now| *now >= EndProgress::Ordered).await.is_ok();
        is_ordered.then_some(seen)
    }

    /// Ends pods, all at once. The sender of the progress of one is dropped when there is no more of it.
    pub(crate) async fn end_all(&self, pods: Vec<PodRef>, end: NodeEnd) -> Vec<watch::Receiver<EndProgress>> {
        let (mut all, mut seen) = (Vec::new(), Vec::new());
        for pod in pods {
            let (progress, receiver) = watch::channel(EndProgress::Ordered);
            all.push((pod, progress));
            seen.push(receiver);
        }
        let _ = self.0.send(Request::EndAll { pods: all, end }).await;
        seen
    }

    /// Starts those of these pods again that are static, each once it has ended: the cause is gone. The pods are given by UID.
    pub(crate) async fn restart_static(&self, uids: BTreeSet<String>) {
        let _ = self.0.send(Request::RestartStatic(uids)).await;
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
    pub(crate) async fn next(&mut self) -> Request {
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
    /// Whether there is something that no write has tried to save.
    is_changed: bool,
    /// Whether the last write has failed.
    has_failed: bool,
}

impl NodeEnds {
    /// Reads which pods earlier processes were ending.
    pub(super) fn load(state: &Path) -> Self {
        let file = state.join(FILE);
        let kept = durable::read_record::<Kept>(&file).unwrap_or_else(|error| {
            warn!("{error}; pods that were being evicted may be started again");
            None
        });
        Self { file, pods: kept.unwrap_or_default().pods, ..Self::default() }
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
            self.is_changed = true;
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
        self.is_changed |= is_known;
        is_known
    }

    /// Forgets the pods that are gone without this process.
    pub(super) fn retain(&mut self, is_here: impl Fn(&str) -> bool) {
        let gone: Vec<String> = self.pods.keys().filter(|uid| !is_here(uid)).cloned().collect();
        for uid in gone {
            self.remove(&uid);
        }
    }

    /// Writes the file if something has changed since that was tried last. The end of a pod begins after this.
    pub(super) async fn save(&mut self) {
        if !std::mem::take(&mut self.is_changed) {
            return;
        }
        let (file, kept) = (self.file.clone(), Kept { version: VERSION, pods: self.pods.clone() });
        let written = tokio::task::spawn_blocking(move || durable::write_record(&file, &kept)).await;
        let cause = match written {
            Ok(written) => written.err().map(|error| error.to_string()),
            Err(cause) => Some(cause.to_string()),
        };
        if let Some(cause) = &cause
            && !self.has_failed
        {
            warn!("pods that are being evicted may be started again if this process ends: {cause}");
        }
        self.has_failed = cause.is_some();
    }

    /// The same, also if the last write has failed.
    pub(super) async fn save_again(&mut self) {
        self.is_changed |= self.has_failed;
        self.save().await;
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

    /// Starts those of these pods again that are static, each once it has ended.
    fn restart_static(&mut self, uids: BTreeSet<String>) {
        for uid in uids {
            if self.pods.get(&uid).is_some_and(|managed| managed.is_static) {
                self.restarts.insert(uid.clone());
                self.restart_ended(&uid);
            }
        }
    }

    /// If a pod that is to start again has ended, the rest of it is removed; it starts when that is done.
    pub(super) fn restart_ended(&mut self, uid: &str) {
        let Some(managed) = self.pods.get_mut(uid).filter(|_| self.restarts.contains(uid)) else { return };
        match std::mem::replace(&mut managed.stage, Stage::Removing) {
            Stage::Ended(handle) => drop(self.tasks.spawn(work::remove(managed.pod.clone(), handle))),
            // It was ended before it had started.
            Stage::Finished | Stage::Rejected => managed.stage = Stage::Finished,
            other => {
                managed.stage = other;
                return;
            }
        }
        self.restarts.remove(uid);
        if let Some(cluster) = &self.ports.cluster {
            cluster.statuses.forget_end(uid);
        }
    }

    /// Answers a request.
    pub(super) async fn answer(&mut self, request: Request) {
        match request {
            Request::Active(answer) => drop(answer.send(self.active())),
            Request::Candidates(answer) => self.answer_candidates(answer),
            Request::End { pod, end, progress } => {
                let uid = pod.uid.as_str();
                if !self.pods.get(uid).is_some_and(|managed| has_not_ended(&managed.stage)) {
                    return;
                }
                self.end_by_node(uid, end);
                self.ends.save().await;
                progress.send_replace(EndProgress::Ordered);
                self.ends.watch(uid, progress);
                self.reconcile().await;
            }
            Request::EndAll { pods, end } => {
                for (pod, progress) in pods {
                    let uid = pod.uid.as_str();
                    if self.pods.get(uid).is_some_and(|managed| has_not_ended(&managed.stage)) {
                        self.ends.watch(uid, progress);
                        self.end_by_node(uid, end.clone());
                    }
                }
                self.reconcile().await;
            }
            // Before each source is known, nothing is known to be unwanted.
            Request::RemoveUnwanted(_) if !self.is_cleaned => {}
            Request::RestartStatic(uids) => {
                self.restart_static(uids);
                self.reconcile().await;
            }
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
    use types::PodUid;

    use super::*;

    fn end(reason: &str) -> NodeEnd {
        let (reason, message) = (reason.to_owned(), "why".to_owned());
        NodeEnd { status: EndedByNode { reason, message, is_disruption: true }, grace_seconds: Some(1) }
    }

    #[tokio::test]
    async fn the_next_process_goes_on_with_the_end_of_a_pod() {
        let dir = tempfile::tempdir().unwrap();
        let mut ends = NodeEnds::load(dir.path());
        ends.insert("a", end("Evicted"));
        ends.insert("b", end("Preempting"));
        // The first reason counts.
        ends.insert("a", end("Preempting"));
        ends.save().await;
        let mut next = NodeEnds::load(dir.path());
        let found: Vec<_> = next.all().map(|(uid, end)| (uid.as_str(), end.status.reason.as_str())).collect();
        assert_eq!(found, [("a", "Evicted"), ("b", "Preempting")]);
        assert_eq!(next.grace("a"), Some(Grace(Some(Duration::from_secs(1)))));
        assert!(next.remove("a") && !next.remove("a"));
        next.retain(|_| false);
        next.save().await;
        assert_eq!(NodeEnds::load(dir.path()).all().count(), 0);
    }

    /// What a full disk has no room for is written when it has room again.
    #[tokio::test]
    async fn an_end_that_cannot_be_written_is_written_later() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("state");
        let mut ends = NodeEnds::load(&state);
        ends.insert("a", end("Evicted"));
        ends.save().await;
        assert!(ends.has_failed && ends.contains("a"));
        std::fs::create_dir(&state).unwrap();
        ends.save().await;
        assert!(NodeEnds::load(&state).all().next().is_none(), "it is not tried again for each pod");
        ends.save_again().await;
        assert!(!ends.has_failed && NodeEnds::load(&state).contains("a"));
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

    /// A pod that had ended meanwhile had the event Evicted, and counted as evicted.
    #[tokio::test]
    async fn an_end_that_is_not_ordered_has_no_progress() {
        let (ends, mut requests) = requests();
        let pod =
            || PodRef { namespace: "shop".into(), name: "web".into(), uid: PodUid::new("u-1").unwrap() };
        let answer = async {
            // The first is refused: its sender is dropped.
            drop(requests.next().await);
            let Request::End { progress, .. } = requests.next().await else { panic!("another request") };
            progress.send_replace(EndProgress::CleanedUp);
        };
        let both = async {
            (ends.end(pod(), end("Evicted")).await.is_some(), ends.end(pod(), end("Evicted")).await.is_some())
        };
        assert_eq!(tokio::join!(both, answer).0, (false, true));
    }
}

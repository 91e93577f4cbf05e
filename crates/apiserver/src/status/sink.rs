//! The API server as a sink of statuses, behind the state directory.

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use agent::ports::{BoxFuture, PodRef, StatusSink};
use agent::{PodStatus, ResizeView};
use devices::DeviceManager;
use kube::Client;
use lifecycle::Moment;
use telemetry::metrics::{Buckets, Description, Error, Registry};
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use crate::pods::{PodsView, is_terminal};
use crate::status::convert::{CleanUp, StatusNode};
use crate::status::ended_by_node::{EndedByNode, ended};
use crate::status::live::{last_change, status_in_api};
use crate::status::writer::Writer;

/// Histogram buckets in seconds.
const SECONDS: [f64; 11] = [0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 20.0, 30.0, 45.0, 60.0];

/// Publishes statuses to a local sink, which keeps the last ones for a later process, and then to the API server, by one
/// task, the newest status of each pod only. The task ends when this value is dropped.
pub struct ApiStatuses {
    local: Arc<dyn StatusSink>,
    pods: PodsView,
    queue: Arc<Queue>,
    /// The pods that the node ends, by UID.
    ends: Mutex<HashMap<String, EndedByNode>>,
    task: AbortHandle,
}

/// The newest status of each pod.
#[derive(Default)]
pub(super) struct Queue {
    entries: Mutex<HashMap<String, Entry>>,
    /// Resizes that the workers of the pods do not know of, by the UID of the pod.
    resizes: Mutex<HashMap<String, OtherResizes>>,
    pub(super) wake: Notify,
}

/// Resizes of a pod that its worker does not know of.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct OtherResizes {
    /// Not allocated.
    pending: Option<ResizeView>,
    /// Allocated, and the pod could not be updated.
    failed: Option<ResizeView>,
}

/// What [`ApiStatuses::start`] needs.
pub struct StatusOptions {
    /// The client of the API server.
    pub client: Client,
    /// The pods whose statuses are written.
    pub pods: PodsView,
    /// What statuses say about the node.
    pub node: StatusNode,
    /// Keeps the last status of each pod beyond the process, as [`StatusFiles`](agent::StatusFiles) does.
    pub local: Arc<dyn StatusSink>,
    /// The devices that containers have.
    pub devices: DeviceManager,
    /// The registry for the metrics of statuses.
    pub metrics: Registry,
}

/// The newest status of a pod, and whether the API has it.
#[derive(Clone)]
pub(super) struct Entry {
    pub(super) pod: PodRef,
    pub(super) status: Arc<PodStatus>,
    pub(super) clean_up: CleanUp,
    /// Counts the changes.
    pub(super) version: u64,
    /// The version that the API has.
    pub(super) sent: u64,
    /// Whether the pod has been seen in the API.
    pub(super) is_seen: bool,
    /// When the first change came that the API does not have.
    pub(super) since: Option<Instant>,
    /// Why it could not be sent, as it was logged.
    pub(super) failure: Option<String>,
}

impl Entry {
    /// Whether no other status of the pod follows.
    pub(super) fn is_final(&self) -> bool {
        self.status.is_terminated() || self.clean_up == CleanUp::Finished
    }
}

impl ApiStatuses {
    /// Starts to write statuses. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// If the registry has the name of a metric already.
    pub fn start(options: StatusOptions) -> Result<Self, Error> {
        let StatusOptions { client, pods, node, local, devices, metrics } = options;
        let seconds = metrics.histogram(
            Description::new(
                "kubelet_pod_status_sync_duration_seconds",
                "Time from the first change of a pod's status that the API does not have until it has the newest",
            ),
            [],
            Buckets::new(&SECONDS)?,
        )?;
        let queue = Arc::new(Queue::default());
        let of_api = pods.clone();
        let writer = Writer {
            client,
            pods,
            node,
            devices,
            queue: Arc::clone(&queue),
            seconds: seconds.with([]),
            lacks_pod_resources: AtomicBool::new(false),
            lacks_devices: AtomicBool::new(false),
        };
        let task = tokio::spawn(writer.run()).abort_handle();
        Ok(Self { local, pods: of_api, queue, ends: Mutex::default(), task })
    }

    /// Sends the last status of a pod that was adopted: an earlier process may have ended before the API had it. One that
    /// is older than that in the API is of a time before another agent ran the node.
    pub fn resume(&self, pod: &PodRef) {
        if let Some(last) = self.local.last(pod).filter(|local| !self.is_outdated(pod, local)) {
            self.queue.change(pod, || last, |_| {});
        }
    }

    /// The status that the pod has in the API.
    fn in_api(&self, pod: &PodRef) -> Option<PodStatus> {
        let pods = self.pods.current()?;
        status_in_api(&pods.by_uid(pod.uid.as_str())?.status)
    }

    /// Whether a newer change is in the API than this status tells of: another agent has run the node since.
    fn is_outdated(&self, pod: &PodRef, local: &PodStatus) -> bool {
        self.in_api(pod).is_some_and(|in_api| last_change(&in_api) > last_change(local))
    }

    /// Has a pod that the node ends end as `Failed` with this reason and message, however its containers end.
    pub fn end_by_node(&self, uid: &str, end: EndedByNode) {
        self.ends().insert(uid.to_owned(), end);
    }

    /// The node does not end the pod, after all.
    pub(crate) fn forget_end(&self, uid: &str) {
        self.ends().remove(uid);
    }

    fn ends(&self) -> MutexGuard<'_, HashMap<String, EndedByNode>> {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The status of a pod as it is published.
    fn published(&self, pod: &PodRef, status: &PodStatus) -> PodStatus {
        let end = self.ends().get(pod.uid.as_str()).cloned();
        match end.filter(|_| is_terminal(&status.phase)) {
            Some(end) => end.of_ended(status.clone()),
            None => status.clone(),
        }
    }

    /// Sends the first status of a pod that is not started yet, unless it has one. A pod that runs, and that this agent
    /// cannot take over yet, has one in the API.
    pub fn accept(&self, pod: &PodRef, pending: PodStatus) {
        if self.local.last(pod).is_none() && !self.in_api(pod).is_some_and(|status| status.is_up()) {
            self.queue.change(pod, || pending, |_| {});
        }
    }

    /// Sets why a resize that the pod asks for is not allocated; `None` if it asks for none, or has been given it.
    pub fn set_pending_resize(&self, pod: &PodRef, pending: Option<&ResizeView>) {
        self.queue.set_resizes(pod.uid.as_str(), |resizes| resizes.pending = pending.cloned());
    }

    /// Sets why the pod could not be updated for a resize that was allocated; `None` if it could.
    pub fn set_failed_resize(&self, pod: &PodRef, failed: Option<ResizeView>) {
        self.queue.set_resizes(pod.uid.as_str(), |resizes| {
            let since = resizes.failed.as_ref().map(|before| before.since);
            resizes.failed =
                failed.map(|failed| ResizeView { since: since.unwrap_or(failed.since), ..failed });
        });
    }

    /// Tells the API server that nothing of the pod is left on this node: no container, no volume, no cgroup. A pod that
    /// is being deleted is removed from the API once its phase there is `Succeeded` or `Failed`.
    pub fn finish(&self, pod: &PodRef) {
        let end = self.ends().remove(pod.uid.as_str());
        if let Some(end) = end {
            let last = self.local.last(pod);
            self.queue.put(pod, last.map_or_else(|| end.of_never_started(), |last| end.of_ended(last)));
        }
        let of_other = || self.in_api(pod).filter(PodStatus::is_up);
        let never_started = || ended("Pending", None, None, 0);
        let last = || self.local.last(pod).or_else(of_other).unwrap_or_else(never_started);
        self.queue.change(pod, last, |entry| entry.clean_up = CleanUp::Finished);
    }

    /// Tells the API server that this node does not run the pod: phase `Failed` with this reason and message. It is final.
    pub fn reject(&self, pod: &PodRef, reason: &str, message: &str, now: Moment) {
        let status = ended("Failed", Some(reason), Some(message), now.millis());
        self.queue.put(pod, status);
        self.finish(pod);
    }
}

impl StatusSink for ApiStatuses {
    fn publish<'a>(&'a self, pod: &'a PodRef, status: &'a PodStatus) -> BoxFuture<'a, agent::Result<()>> {
        Box::pin(async move {
            let status = self.published(pod, status);
            let kept = self.local.publish(pod, &status).await;
            // A status that cannot be kept here is no less true for the API.
            self.queue.put(pod, status);
            kept
        })
    }

    fn last(&self, pod: &PodRef) -> Option<PodStatus> {
        let local = self.local.last(pod).filter(|local| !self.is_outdated(pod, local));
        local.or_else(|| self.in_api(pod))
    }
}

impl Drop for ApiStatuses {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Queue {
    pub(super) fn entries(&self) -> MutexGuard<'_, HashMap<String, Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn resizes(&self) -> MutexGuard<'_, HashMap<String, OtherResizes>> {
        self.resizes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes what is reported of the resizes of a pod.
    fn set_resizes(&self, uid: &str, set: impl FnOnce(&mut OtherResizes)) {
        let mut all = self.resizes();
        let before = all.remove(uid).unwrap_or_default();
        let mut after = before.clone();
        set(&mut after);
        let is_other = after != before;
        if after != OtherResizes::default() {
            all.insert(uid.to_owned(), after);
        }
        drop(all);
        if is_other {
            self.touch(uid);
        }
    }

    /// The status of a pod with what the agent does not know of it.
    pub(super) fn shown(&self, entry: &Entry) -> Arc<PodStatus> {
        let known = self.resizes().get(entry.pod.uid.as_str()).cloned();
        let Some(OtherResizes { pending, failed }) = known else { return Arc::clone(&entry.status) };
        let mut status = PodStatus::clone(&entry.status);
        let resources = status.resources.get_or_insert_default();
        resources.pending = pending.or(resources.pending.take());
        resources.resize = failed.or(resources.resize.take());
        Arc::new(status)
    }

    /// Has the status of a pod written again, if it has one.
    fn touch(&self, uid: &str) {
        if let Some(entry) = self.entries().get_mut(uid) {
            entry.version += 1;
            entry.since.get_or_insert_with(Instant::now);
            self.wake.notify_one();
        }
    }

    /// Sets the status of a pod.
    fn put(&self, pod: &PodRef, status: PodStatus) {
        let status = Arc::new(status);
        let set = Arc::clone(&status);
        self.change(pod, || PodStatus::clone(&status), move |entry| entry.status = set);
    }

    fn change(&self, pod: &PodRef, new: impl FnOnce() -> PodStatus, change: impl FnOnce(&mut Entry)) {
        let is_known = self.entries().contains_key(pod.uid.as_str());
        // The status on disk is read without the lock.
        let new = (!is_known).then(|| Arc::new(new()));
        let mut entries = self.entries();
        if let Some(status) = new {
            entries.entry(pod.uid.as_str().to_owned()).or_insert_with(|| Entry {
                pod: pod.clone(),
                status,
                clean_up: CleanUp::Pending,
                version: 0,
                sent: 0,
                is_seen: false,
                since: None,
                failure: None,
            });
        }
        if let Some(entry) = entries.get_mut(pod.uid.as_str()) {
            change(entry);
            entry.version += 1;
            entry.since.get_or_insert_with(Instant::now);
        }
        drop(entries);
        self.wake.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use types::PodUid;

    use super::*;

    fn view(reason: &str, since: u64) -> ResizeView {
        ResizeView { generation: Some(2), reason: reason.to_owned(), message: "why".to_owned(), since }
    }

    #[test]
    fn a_resize_that_failed_before_its_worker_knew_of_it_is_shown_until_it_is_done() {
        let queue = Queue::default();
        let uid = PodUid::new("u-1").unwrap();
        let pod = PodRef { namespace: "shop".to_owned(), name: "web".to_owned(), uid };
        queue.put(&pod, ended("Running", None, None, 0));
        let shown = || {
            let entry = queue.entries().get("u-1").cloned().unwrap();
            let resources = queue.shown(&entry).resources.clone().unwrap_or_default();
            (entry.version, resources.pending, resources.resize)
        };
        let (first, ..) = shown();
        queue.set_resizes("u-1", |resizes| resizes.failed = Some(view("Error", 5)));
        assert_eq!(shown(), (first + 1, None, Some(view("Error", 5))));
        queue.set_resizes("u-1", |resizes| resizes.pending = Some(view("Deferred", 6)));
        assert_eq!(shown(), (first + 2, Some(view("Deferred", 6)), Some(view("Error", 5))));
        queue.set_resizes("u-1", |_| {});
        queue.set_resizes("u-1", |resizes| *resizes = OtherResizes::default());
        assert_eq!(shown(), (first + 3, None, None));
        assert!(queue.resizes().is_empty());
    }
}

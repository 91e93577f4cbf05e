//! The task that writes statuses to the API server.

use std::future::ready;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ::devices::DeviceManager;
use futures_util::{StreamExt, stream};
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::{Api, Client, Resource as _};
use serde_json::{Map, Value};
use telemetry::metrics::Histogram;
use tracing::{debug, info, warn};

use crate::pods::{ApiPod, PodSet, PodsView, is_mirror, is_terminal};
use crate::raw::{RawObject, cause, code, core};
use crate::status::convert::{CleanUp, StatusNode, pod_status, revived};
use crate::status::devices;
use crate::status::merge::patch;
use crate::status::resources::FIELDS;
use crate::status::sink::{Entry, Queue};

/// The time between two rounds through all pods.
const PASS: Duration = Duration::from_secs(10);
/// What the Node authorizer says of an object that no pod of the node references, and of a pod that is not the node's.
const UNRELATED: &str = "no relationship found between node";
/// How long a request may take.
const DEADLINE: Duration = Duration::from_secs(10);
/// So many pods are written at a time: one waits for the answer of the server, which writes to disk before it gives one.
const AT_ONCE: usize = 8;

pub(super) struct Writer {
    pub(super) client: Client,
    pub(super) pods: PodsView,
    pub(super) node: StatusNode,
    pub(super) devices: DeviceManager,
    pub(super) queue: Arc<Queue>,
    /// How long changes take to be in the API.
    pub(super) seconds: Histogram,
    /// Whether the API server drops the resources of pods as a whole.
    pub(super) lacks_pod_resources: AtomicBool,
    /// Whether it drops the devices of containers.
    pub(super) lacks_devices: AtomicBool,
}

/// Which pods are written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pass {
    /// Those with a status that the API does not have.
    Changed,
    /// Also those whose status was changed in the API.
    All,
}

/// What became of a status.
enum Sent {
    /// The API has it.
    Done,
    /// The pod is not in the API, or no longer.
    Gone,
    /// The Node authorizer knows of no such pod on this node: it was just removed, or just bound.
    Unrelated,
    /// The status is older than what the API has.
    Stale(Vec<String>),
    /// The server refused it.
    Refused(String),
    /// The server did not answer.
    Unreachable(String),
}

/// Why a request failed.
enum Failure {
    NotFound,
    Unrelated,
    Refused(String),
    Unreachable(String),
}

impl From<Failure> for Sent {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::NotFound => Self::Gone,
            Failure::Unrelated => Self::Unrelated,
            Failure::Refused(cause) => Self::Refused(cause),
            Failure::Unreachable(cause) => Self::Unreachable(cause),
        }
    }
}

impl Writer {
    pub(super) async fn run(mut self) {
        let mut passes = tokio::time::interval(PASS);
        passes.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let pass = tokio::select! {
                () = self.queue.wake.notified() => Pass::Changed,
                () = self.pods.changed() => Pass::Changed,
                _ = passes.tick() => Pass::All,
            };
            // Until the pods are known, it is not known which of them are in the API.
            let Some(set) = self.pods.current() else { continue };
            write_all(self.due(&set, pass), |due| self.write(due)).await;
        }
    }

    /// The pods to write. Forgets those that are no longer in the API.
    fn due(&self, set: &PodSet, pass: Pass) -> Vec<Due> {
        let mut due = Vec::new();
        self.queue.entries().retain(|_, entry| {
            let Some(shown) = set.shown(&entry.pod) else {
                // The mirror pod of a static pod that runs is created again, and then needs its status.
                entry.sent = 0;
                let is_over = entry.is_seen || pass == Pass::All;
                return !(is_over && entry.is_final());
            };
            entry.is_seen = true;
            let is_deletable =
                entry.clean_up == CleanUp::Finished && shown.deletion.is_some() && shown.mirror.is_none();
            let is_other = || pass == Pass::All && self.differs(entry, shown);
            if entry.version != entry.sent || is_deletable || is_other() {
                due.push(Due { entry: entry.clone(), shown: Arc::clone(shown) });
            }
            true
        });
        // Those that cannot be written keep no other from the API.
        due.sort_by_key(|due| due.entry.failure.is_some());
        due
    }

    /// The status that the API is to have of a pod, as far as its server has the fields.
    fn desired(&self, entry: &Entry, live: &Value) -> Map<String, Value> {
        let status = self.queue.shown(entry);
        let mut desired = pod_status(&status, live, &self.node, entry.clean_up);
        if self.lacks_pod_resources.load(Ordering::Relaxed) {
            FIELDS.iter().for_each(|field| drop(desired.remove(*field)));
        }
        if !self.lacks_devices.load(Ordering::Relaxed) {
            let uid = entry.pod.uid.as_str();
            devices::add(&mut desired, live, |container| self.devices.devices_of(uid, container));
        }
        desired
    }

    /// A server of another version, or one whose feature gate is off, drops the resources of pods or the devices of containers:
    /// they are not sent again.
    fn note_missing_fields(&self, sent: &Map<String, Value>, answer: &RawObject) {
        let [resources, _] = FIELDS;
        let is_missing = sent.contains_key(resources) && answer.field("status").get(resources).is_none();
        if is_missing && !self.lacks_pod_resources.swap(true, Ordering::Relaxed) {
            info!("the API server keeps no resources in the status of pods; they are left out");
        }
        let is_missing = devices::is_dropped(sent, answer.field("status"));
        if is_missing && !self.lacks_devices.swap(true, Ordering::Relaxed) {
            info!("the API server keeps no devices in the statuses of containers; they are left out");
        }
    }

    /// Whether the API's status of a pod is not ours. A status that was just written may differ until the watch has it;
    /// the pod is read again before anything is written.
    fn differs(&self, entry: &Entry, shown: &ApiPod) -> bool {
        let live = shown.live();
        let desired = self.desired(entry, &live);
        revived(&live, &desired).is_empty() && patch(&live, &desired).is_some()
    }

    /// Writes the status of a pod. `Err` if the server cannot be reached.
    async fn write(&self, due: Due) -> Result<(), ()> {
        let Due { entry, shown } = &due;
        let pod = &shown.pod;
        let title = format!("pod {}/{}", pod.namespace, pod.name);
        let sent = self.send(entry, shown).await;
        let mut entries = self.queue.entries();
        let Some(kept) = entries.get_mut(entry.pod.uid.as_str()) else { return Ok(()) };
        let failure = match &sent {
            Sent::Gone => {
                debug!("{title} is no longer in the API");
                if entry.is_final() {
                    entries.remove(entry.pod.uid.as_str());
                }
                return Ok(());
            }
            Sent::Unrelated => {
                debug!("{title} is not, or not yet, one of this node's for the API server");
                return Ok(());
            }
            Sent::Done => None,
            Sent::Stale(containers) => {
                let names = containers.join(", ");
                warn!("{title}: container {names} has ended for good in the API; an older status is dropped");
                None
            }
            Sent::Refused(cause) | Sent::Unreachable(cause) => Some(cause.clone()),
        };
        if let Some(cause) = failure.as_ref().filter(|cause| kept.failure.as_ref() != Some(cause)) {
            warn!("{title}: cannot write its status to the API: {cause}; it is tried again");
        } else if failure.is_none() {
            kept.sent = kept.sent.max(entry.version);
            // A newer change is written next; the time goes on until then.
            if kept.sent == kept.version
                && let Some(since) = kept.since.take()
            {
                self.seconds.observe_duration(since.elapsed());
            }
        }
        kept.failure = failure;
        if matches!(sent, Sent::Unreachable(_)) { Err(()) } else { Ok(()) }
    }

    async fn send(&self, entry: &Entry, shown: &ApiPod) -> Sent {
        self.try_send(entry, shown).await.unwrap_or_else(Sent::from)
    }

    async fn try_send(&self, entry: &Entry, shown: &ApiPod) -> Result<Sent, Failure> {
        let pod = &shown.pod;
        let api: Api<RawObject> =
            Api::namespaced_with(self.client.clone(), &pod.namespace, &core("Pod", "pods"));
        let mut live = asked(api.get(&pod.name)).await?;
        if live.uid() != pod.uid.as_str() {
            return Ok(Sent::Gone);
        }
        let known = Value::Object(live.fields().clone());
        let desired = self.desired(entry, &known);
        let revived = revived(&known, &desired);
        if !revived.is_empty() {
            return Ok(Sent::Stale(revived));
        }
        if let Some(patch) = patch(&known, &desired) {
            live = asked(api.patch_status(&pod.name, &PatchParams::default(), &Patch::Strategic(&patch)))
                .await?;
            self.note_missing_fields(&desired, &live);
        }
        let phase = live.field("status").get("phase").and_then(Value::as_str).unwrap_or_default();
        let is_deleted = live.meta().deletion_timestamp.is_some() && !is_mirror(&live);
        if entry.clean_up != CleanUp::Finished || !is_deleted || !is_terminal(phase) {
            return Ok(Sent::Done);
        }
        let uid = Some(pod.uid.as_str().to_owned());
        let params = DeleteParams {
            grace_period_seconds: Some(0),
            preconditions: Some(Preconditions { uid, resource_version: None }),
            ..DeleteParams::default()
        };
        asked(api.delete(&pod.name, &params)).await?;
        info!("pod {}/{} is removed from the API", pod.namespace, pod.name);
        Ok(Sent::Gone)
    }
}

/// Writes [`AT_ONCE`] at a time. Once the server cannot be reached no other begins, which would wait as long for the same
/// answer. What has begun ends: a request that was given up could come to the server after a later one.
async fn write_all<D, W: Future<Output = Result<(), ()>>>(due: Vec<D>, write: impl Fn(D) -> W) {
    let is_reached = AtomicBool::new(true);
    let begun = stream::iter(due).take_while(|_| ready(is_reached.load(Ordering::Relaxed))).map(write);
    let mut writes = pin!(begun.buffer_unordered(AT_ONCE));
    while let Some(written) = writes.next().await {
        if written.is_err() {
            is_reached.store(false, Ordering::Relaxed);
        }
    }
}

/// A pod whose status is to be written.
struct Due {
    entry: Entry,
    shown: Arc<ApiPod>,
}

/// The answer of the server.
async fn asked<T>(request: impl Future<Output = kube::Result<T>>) -> Result<T, Failure> {
    match tokio::time::timeout(DEADLINE, request).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(match code(&error) {
            Some(404) => Failure::NotFound,
            Some(403) if error.to_string().contains(UNRELATED) => Failure::Unrelated,
            Some(_) => Failure::Refused(cause(&error)),
            None => Failure::Unreachable(cause(&error)),
        }),
        Err(_) => Err(Failure::Unreachable(format!("no answer within {} s", DEADLINE.as_secs()))),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_pod_that_cannot_be_written_cancels_no_other_and_none_begins_after_it() {
        let ended = Mutex::new(Vec::new());
        let write = async |number: usize| {
            let seconds = if number == 0 { 1 } else { 2 };
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            ended.lock().unwrap().push(number);
            if number == 0 { Err(()) } else { Ok(()) }
        };
        write_all((0..3 * AT_ONCE).collect(), write).await;
        let all: Vec<usize> = (0..AT_ONCE).collect();
        assert_eq!(*ended.lock().unwrap(), all);
    }
}

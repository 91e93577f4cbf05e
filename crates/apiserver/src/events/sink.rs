//! The API server as a sink of events.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use agent::ports::{Event, EventSink};
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::Request;
use kube::{Api, Client};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::Instant;
use tracing::{debug, warn};

use crate::events::correlate::{Correlated, Correlator};
use crate::events::document::{document, repeated, unique_name};
use crate::events::record::{NodeEvent, Record};
use crate::raw::{RawObject, cause, code, core, is_path_segment};
use agent::Bucket;

/// Events that wait to be sent.
const QUEUE: usize = 1000;
/// How long a request may take.
const DEADLINE: Duration = Duration::from_secs(10);
/// How often an event is sent while the server does not answer, and the pause in between.
const ATTEMPTS: u32 = 12;
const PAUSE: Duration = Duration::from_secs(10);

/// How fast events are sent: the kubelet's eventRecordQPS and eventBurst.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventLimits {
    /// How many per second in the long run; zero: no limit.
    pub per_second: u32,
    /// How many at once.
    pub burst: u32,
}

impl Default for EventLimits {
    fn default() -> Self {
        Self { per_second: 50, burst: 100 }
    }
}

/// Sends events to the API server by one task. Recording one never blocks: when too many wait, new ones are dropped and
/// counted. The task ends when this value is dropped.
#[derive(Debug)]
pub struct ApiEvents {
    queue: mpsc::Sender<Record>,
    node: String,
    dropped: Arc<AtomicU64>,
    task: AbortHandle,
}

impl ApiEvents {
    /// Starts to send events of pods of this node. Must be called within a tokio runtime.
    #[must_use]
    pub fn start(client: Client, node: &str, limits: EventLimits) -> Self {
        let (queue, events) = mpsc::channel(QUEUE);
        let dropped = Arc::new(AtomicU64::new(0));
        let sender = Sender {
            client,
            node: node.to_owned(),
            correlator: Correlator::new(),
            bucket: Bucket::per_second(limits.per_second, limits.burst),
            number: 0,
            dropped: Arc::clone(&dropped),
        };
        let task = tokio::spawn(sender.run(events)).abort_handle();
        Self { queue, node: node.to_owned(), dropped, task }
    }

    /// Records an event of this node.
    pub(crate) fn record_node(&self, event: NodeEvent) {
        self.put(event.of(&self.node));
    }

    fn put(&self, record: Record) {
        if self.queue.try_send(record).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How many events were not sent: the queue was full, their pod had too many, or the server refused them.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

impl EventSink for ApiEvents {
    fn record(&self, event: Event) {
        self.put(event.into());
    }
}

impl Drop for ApiEvents {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Sender {
    client: Client,
    node: String,
    correlator: Correlator,
    bucket: Option<Bucket>,
    /// Makes names different that are made at the same time.
    number: u64,
    dropped: Arc<AtomicU64>,
}

/// Why an event was not sent.
enum Failure {
    /// The server refused it.
    Refused(String),
    /// The server did not answer.
    Unreachable(String),
}

impl Sender {
    async fn run(mut self, mut events: mpsc::Receiver<Record>) {
        while let Some(event) = events.recv().await {
            let Some(correlated) = self.correlator.observe(&event, Instant::now()) else {
                self.dropped.fetch_add(1, Ordering::Relaxed);
                continue;
            };
            if let Err(cause) = self.send(&event, correlated).await {
                self.dropped.fetch_add(1, Ordering::Relaxed);
                let object = &event.object;
                let (kind, namespace, name) = (object.kind, object.event_namespace(), &object.name);
                warn!("event {} of {kind} {namespace}/{name} was not sent: {cause}", event.reason);
            }
        }
    }

    async fn send(&mut self, event: &Record, mut correlated: Correlated) -> Result<(), String> {
        let mut attempts = 0;
        loop {
            if let Some(bucket) = &mut self.bucket {
                tokio::time::sleep(bucket.wait(Instant::now())).await;
                bucket.take(Instant::now());
            }
            match self.try_send(event, &mut correlated).await {
                Ok(()) => return Ok(()),
                Err(Failure::Refused(cause)) => return Err(cause),
                Err(Failure::Unreachable(cause)) => {
                    attempts += 1;
                    if attempts >= ATTEMPTS {
                        return Err(cause);
                    }
                    debug!("an event waits for the API server: {cause}");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    async fn try_send(&mut self, event: &Record, correlated: &mut Correlated) -> Result<(), Failure> {
        let namespace = event.object.event_namespace();
        if !is_path_segment(namespace) {
            return Err(Failure::Refused(format!("{namespace:?} is no name of a namespace")));
        }
        if let Some(name) = &correlated.name {
            let api: Api<RawObject> =
                Api::namespaced_with(self.client.clone(), namespace, &core("Event", "events"));
            let patch = Patch::Strategic(repeated(event, correlated));
            let (name, params) = (name.clone(), PatchParams::default());
            if within(api.patch(&name, &params, &patch)).await?.is_some() {
                return Ok(());
            }
            // The API forgets events after some time.
            correlated.name = None;
        }
        self.number += 1;
        let name = unique_name(&event.object.name, SystemTime::now(), self.number);
        let document = document(event, correlated, &self.node, &name);
        if within(self.create(namespace, &document)).await?.is_none() {
            return Err(Failure::Refused(format!("there is no namespace {namespace:?}")));
        }
        self.correlator.created(&correlated.key, name);
        Ok(())
    }

    async fn create(&self, namespace: &str, document: &Value) -> kube::Result<RawObject> {
        let request = Request::new(format!("/api/v1/namespaces/{namespace}/events"));
        let body = serde_json::to_vec(document).map_err(kube::Error::SerdeError)?;
        let request = request.create(&PostParams::default(), body).map_err(kube::Error::BuildRequest)?;
        self.client.request(request).await
    }
}

/// The answer of the server; `None` if there is no such object.
async fn within<T>(request: impl Future<Output = kube::Result<T>>) -> Result<Option<T>, Failure> {
    match tokio::time::timeout(DEADLINE, request).await {
        Ok(Ok(answer)) => Ok(Some(answer)),
        Ok(Err(error)) => match code(&error) {
            Some(404) => Ok(None),
            Some(_) => Err(Failure::Refused(cause(&error))),
            None => Err(Failure::Unreachable(cause(&error))),
        },
        Err(_) => Err(Failure::Unreachable(format!("no answer within {} s", DEADLINE.as_secs()))),
    }
}

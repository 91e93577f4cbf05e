//! The agent's ports: small traits that files or an API server can implement.
//!
//! | port | direction | first implementation |
//! |---|---|---|
//! | [`PodSource`] | the pods that this node is to run | [`FileSource`](crate::FileSource) |
//! | [`ObjectStore`] | ConfigMaps and Secrets that pods name | [`Objects`](crate::Objects) |
//! | [`StatusSink`] | the status of each pod | [`StatusFiles`](crate::StatusFiles) |
//! | [`EventSink`] | events of pods, as in Kubernetes | [`EventLog`](crate::EventLog) |
//! | [`Clock`] | the time | [`SystemClock`] |

use std::pin::Pin;
use std::time::{SystemTime, UNIX_EPOCH};

use lifecycle::Moment;
use types::PodUid;
use volumes::payload;

use crate::error::Result;
use crate::status::view::PodStatus;

/// A future that a port returns.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A source of pods. Each set that it delivers is complete: a pod that is missing from the newest set must be
/// stopped.
pub trait PodSource: Send {
    /// A complete set of pods.
    type Set: Send;

    /// Waits for the next set. The first call returns the first set as soon as it is known; later calls return when the
    /// set may have changed. `None` when no further set will come.
    fn next(&mut self) -> BoxFuture<'_, Option<Self::Set>>;
}

/// The ConfigMaps and Secrets that pods reference. Called on threads that may block; an implementation may
/// wait for its cache.
pub trait ObjectStore: Send + Sync {
    /// The ConfigMap as it is now; `None` if there is none.
    ///
    /// # Errors
    /// If the store cannot be read: the operation on the pod is retried.
    fn config_map(&self, namespace: &str, name: &str) -> Result<Option<payload::ConfigMap>>;

    /// The Secret as it is now; `None` if there is none.
    ///
    /// # Errors
    /// If the store cannot be read: the operation on the pod is retried.
    fn secret(&self, namespace: &str, name: &str) -> Result<Option<payload::Secret>>;
}

/// A pod, as statuses and events refer to it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PodRef {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: PodUid,
}

/// Receives the statuses of pods. The last status of a pod must survive the process: a later process resumes
/// from it.
pub trait StatusSink: Send + Sync {
    /// Publishes the status of a pod. Called only when it has changed, one call per pod at a time.
    ///
    /// # Errors
    /// If it could not be stored. The agent logs the error and continues.
    fn publish<'a>(&'a self, pod: &'a PodRef, status: &'a PodStatus) -> BoxFuture<'a, Result<()>>;

    /// The status that was published last for this pod, also by an earlier process.
    fn last(&self, pod: &PodRef) -> Option<PodStatus>;
}

/// The type of a Kubernetes event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventType {
    /// An expected event.
    Normal,
    /// An event that may need attention.
    Warning,
}

/// The object that an event is about: a pod, or one of its containers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventObject {
    /// The pod.
    pub pod: PodRef,
    /// The container as a field of the pod, e.g. `spec.containers{app}`; `None` if the event is about the pod.
    pub field_path: Option<String>,
}

impl EventObject {
    /// The container's name, if the event is about one.
    #[must_use]
    pub fn container(&self) -> Option<&str> {
        self.field_path.as_deref()?.split_once('{')?.1.strip_suffix('}')
    }
}

/// An event of a pod, as in Kubernetes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Normal or warning.
    pub kind: EventType,
    /// The reason, in CamelCase as Kubernetes has it ([`types::reason`]).
    pub reason: &'static str,
    /// The object that the event is about.
    pub object: EventObject,
    /// The image, if the event is about the pull of one.
    pub image: Option<String>,
    /// A message for people.
    pub message: String,
    /// When it happened.
    pub time: Moment,
}

/// Receives events. It must not block: a sink that writes to the network must queue.
pub trait EventSink: Send + Sync {
    /// Records an event.
    fn record(&self, event: Event);
}

/// The wall-clock time. Delays use tokio's timer, which tests can pause.
pub trait Clock: Send + Sync {
    /// The current time.
    fn now(&self) -> Moment;
}

/// The node's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Moment {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Moment::from_millis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }
}

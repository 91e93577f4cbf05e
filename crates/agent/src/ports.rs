//! The agent's ports: small traits that files or an API server can implement.
//!
//! | port | direction | first implementation |
//! |---|---|---|
//! | [`PodSource`] | the pods that this node is to run | [`FileSource`](crate::FileSource) |
//! | [`ObjectStore`] | what pods get from objects: ConfigMaps, Secrets, tokens, certificates, services | [`Objects`](crate::Objects) |
//! | [`StatusSink`] | the status of each pod | [`StatusFiles`](crate::StatusFiles) |
//! | [`EventSink`] | events of pods, as in Kubernetes | [`EventLog`](crate::EventLog) |
//! | [`Clock`] | the time | [`SystemClock`] |

use std::collections::BTreeMap;
use std::pin::Pin;
use std::time::{SystemTime, UNIX_EPOCH};

use admission::PodOrigin;
use lifecycle::Moment;
use types::PodUid;
use volumes::payload;

use crate::error::{Error, Result};
use crate::status::view::PodStatus;

mod credentials;

pub use credentials::{CertificatePlace, CertificateRequest, Credentials, Token, TokenRequest, TrustBundles};

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

/// What pods get from objects outside of their definition. Called on threads that may block; an implementation may
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

    /// Where the pods of this store come from. Tokens and services are asked for only if that is an API server.
    fn pod_origin(&self) -> PodOrigin {
        PodOrigin::Manifests
    }

    /// A token of a service account for a pod. It is refreshed before it expires: a later call may return another.
    ///
    /// # Errors
    /// If there is none: the operation on the pod is retried.
    fn token(&self, request: &TokenRequest) -> Result<Token> {
        Err(Error::Token {
            account: request.account(),
            cause: "there is no API server that could issue it".to_owned(),
        })
    }

    /// A service account as it is now; `None` if there is none.
    ///
    /// # Errors
    /// If it cannot be read: the operation on the pod is retried.
    fn service_account(&self, namespace: &str, name: &str) -> Result<Option<ServiceAccount>> {
        let cause = "there is no API server that could have it";
        Err(Error::config(format!("service account {namespace}/{name}"), cause))
    }

    /// The certificates of trust bundles as PEM, each once, as they are now; `None` if there is no such bundle.
    ///
    /// # Errors
    /// If the bundles cannot be read: the operation on the pod is retried.
    fn trust_bundles(&self, bundles: &TrustBundles) -> Result<Option<String>> {
        let cause = "there is no API server that has them".to_owned();
        Err(Error::TrustBundles { bundles: bundles.to_string(), cause })
    }

    /// A key of a pod and its certificates. They are replaced before they expire: a later call may return others.
    ///
    /// # Errors
    /// If there are none, or not yet: the operation on the pod is retried.
    fn certificate(&self, request: &CertificateRequest) -> Result<Credentials> {
        Err(Error::Certificate {
            signer: request.signer.clone(),
            cause: "there is no API server that could have it issued".to_owned(),
        })
    }

    /// The variables by which containers of a pod in this namespace find services, as they are now.
    ///
    /// # Errors
    /// If the services are not known yet: the operation on the pod is retried.
    fn service_variables(&self, _namespace: &str, _links: ServiceLinks) -> Result<BTreeMap<String, String>> {
        Ok(BTreeMap::new())
    }
}

/// A service account, as credential providers get it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServiceAccount {
    /// Its UID.
    pub uid: String,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
}

/// Which services a pod has variables of: its `enableServiceLinks`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServiceLinks {
    /// Those of its namespace, and the API server's.
    Enabled,
    /// Only the API server's.
    Disabled,
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
    /// A message for people, in the kubelet's words.
    pub message: String,
    /// More about it, for programs; an event in the log has none.
    pub annotations: BTreeMap<String, String>,
    /// What the node's log says instead, where it says more than the event may: the output of a hook, an exit code.
    pub log: Option<String>,
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

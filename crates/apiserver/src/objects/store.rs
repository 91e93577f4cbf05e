//! The API server as a store of objects: one watch for each ConfigMap and Secret that a pod references, one for all services,
//! one for trust bundles, and the tokens and certificates of pods.
//!
//! The Node authorizer lets a node read only objects that pods bound to it reference, and only by name.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use agent::ports::{
    CertificateRequest, Clock, Credentials, ObjectStore, ServiceAccount, ServiceLinks, Token, TokenRequest,
    TrustBundles,
};
use agent::{Error, PodOrigin};
use kube::{Api, Client};
use kube_runtime::watcher::{Config, Event};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use types::PodUid;
use volumes::payload::{ConfigMap, Secret};

use crate::backoff::Backoff;
use crate::follow::{Followed, follow_with};
use crate::objects::payload::{Payload, is_immutable, payload};
use crate::objects::references::{ObjectKey, ObjectKind, is_name};
use crate::pod_certificates::{PodCertificates, Requester};
use crate::raw::{RawObject, cause, core};
use crate::services::Services;
use crate::tokens::{Tokens, issue};
use crate::trust_bundles::TrustBundleWatch;

/// How long the start of a pod waits for the first answers of the API server.
const FIRST_SYNC: Duration = Duration::from_secs(1);
/// The server ends a watch after so many seconds, and a new one is begun.
const WATCH_SECONDS: u32 = 290;

/// How long a request for a service account may take.
const DEADLINE: Duration = Duration::from_secs(10);
/// The time between two searches for tokens that have to be refreshed.
const TOKEN_CHECK: Duration = Duration::from_secs(30);

/// The ConfigMaps and Secrets that registered pods reference, their tokens, and the services. Clones share the objects. While the API server cannot be
/// reached, the objects stay as they were. `Debug` prints no content.
#[derive(Clone)]
pub struct ApiObjects {
    shared: Arc<Shared>,
}

struct Shared {
    client: Client,
    handle: Handle,
    entries: Mutex<HashMap<ObjectKey, Entry>>,
    /// Notifies of each answer and failure.
    answered: watch::Sender<()>,
    changes: watch::Sender<u64>,
    tokens: Tokens,
    services: Services,
    trust_bundles: TrustBundleWatch,
    /// `None` without a node that could request them.
    certificates: Option<PodCertificates>,
}

/// An object that pods reference.
struct Entry {
    pods: BTreeSet<PodUid>,
    state: State,
    task: AbortHandle,
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What is known of an object.
#[derive(Debug, Clone, PartialEq)]
enum State {
    /// The API server has not answered yet, or only with an error.
    Unsynced(Option<String>),
    /// There is no such object.
    Absent,
    /// Its content.
    Present(Payload),
    /// Its content is invalid; what is wrong.
    Invalid(String),
}

impl fmt::Debug for ApiObjects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entries = self.shared.entries();
        f.debug_set().entries(entries.keys().map(ToString::to_string)).finish()
    }
}

impl ApiObjects {
    /// A store without objects. Must be called within a tokio runtime, which runs the watches. The clock tells when tokens
    /// have to be refreshed.
    #[must_use]
    pub fn new(client: Client, clock: Arc<dyn Clock>) -> Self {
        Self::start(client, clock, None)
    }

    /// The same with certificates, which are requested for the pods of a node.
    #[must_use]
    pub fn with_certificates(requester: Requester, clock: Arc<dyn Clock>) -> Self {
        Self::start(requester.client.clone(), clock, Some(requester))
    }

    fn start(client: Client, clock: Arc<dyn Clock>, requester: Option<Requester>) -> Self {
        let changes = watch::Sender::new(0);
        let changed = || {
            let changes = changes.clone();
            move || changes.send_modify(|count| *count += 1)
        };
        let certificates =
            requester.map(|requester| PodCertificates::new(requester, Arc::clone(&clock), changed()));
        let shared = Shared {
            tokens: Tokens::new(issue(client.clone()), clock),
            services: Services::start(client.clone()),
            trust_bundles: TrustBundleWatch::new(client.clone(), changed()),
            certificates,
            client,
            handle: Handle::current(),
            entries: Mutex::default(),
            answered: watch::Sender::new(()),
            changes,
        };
        let store = Self { shared: Arc::new(shared) };
        store.refresh_tokens();
        store
    }

    /// Refreshes tokens for as long as the store exists.
    fn refresh_tokens(&self) {
        let shared = Arc::downgrade(&self.shared);
        self.shared.handle.spawn(async move {
            loop {
                tokio::time::sleep(TOKEN_CHECK).await;
                let Some(shared) = shared.upgrade() else { return };
                if shared.tokens.refresh().await {
                    shared.changed();
                }
            }
        });
    }

    /// Sets the objects that a pod references, and watches them. Objects that it referenced before and no longer does are
    /// watched for its sake no more. Call it before the pod is started, and when it is changed.
    pub fn register(&self, pod: &PodUid, objects: &BTreeSet<ObjectKey>) {
        let mut entries = self.shared.entries();
        for key in objects {
            let entry = entries.entry(key.clone()).or_insert_with(|| Entry {
                pods: BTreeSet::new(),
                state: State::Unsynced(None),
                task: self.watch(key),
            });
            entry.pods.insert(pod.clone());
        }
        entries.retain(|key, entry| objects.contains(key) || entry.is_used_without(pod));
        self.shared.certificates.iter().for_each(|certificates| certificates.register(pod));
    }

    /// Waits a moment until each of these objects is known, or known to be absent. The API server may refuse the first request
    /// for an object of a new pod: its authorizer learns from a watch of its own that the pod is on this node.
    pub async fn await_answers(&self, objects: &BTreeSet<ObjectKey>) {
        let mut answered = self.shared.answered.subscribe();
        let is_open = || {
            let entries = self.shared.entries();
            let mut open = objects.iter().filter_map(|key| entries.get(key));
            open.any(|entry| matches!(entry.state, State::Unsynced(_)))
        };
        let all = async { while is_open() && answered.changed().await.is_ok() {} };
        // What is still open is tried without.
        let _ = tokio::time::timeout(FIRST_SYNC, all).await;
    }

    /// Forgets a pod, once its volumes are gone: its tokens and certificates are dropped, and its objects no longer watched for its sake.
    pub fn unregister(&self, pod: &PodUid) {
        self.shared.entries().retain(|_, entry| entry.is_used_without(pod));
        self.shared.tokens.forget(pod);
        self.shared.certificates.iter().for_each(|certificates| certificates.forget(pod));
    }

    /// Notifies of changes: the number grows with each object that appears, changes or disappears, and with new tokens and
    /// certificates. The files of pods are
    /// then to be written again ([`Agent::refresh`](agent::Agent::refresh)).
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.shared.changes.subscribe()
    }

    /// The objects that are watched or, if they are immutable, kept.
    #[must_use]
    pub fn registered(&self) -> BTreeSet<ObjectKey> {
        self.shared.entries().keys().cloned().collect()
    }

    fn watch(&self, key: &ObjectKey) -> AbortHandle {
        let resource = match key.kind {
            ObjectKind::ConfigMap => core("ConfigMap", "configmaps"),
            ObjectKind::Secret => core("Secret", "secrets"),
        };
        let api = Api::<RawObject>::namespaced_with(self.shared.client.clone(), &key.namespace, &resource);
        let config = Config::default().fields(&format!("metadata.name={}", key.name)).timeout(WATCH_SECONDS);
        let (key, shared) = (key.clone(), Arc::downgrade(&self.shared));
        let task = self.shared.handle.spawn(async move {
            let mut is_listed = false;
            let title = key.to_string();
            follow_with(api, config, &title, Backoff::of_object(), |followed| {
                let Some(shared) = shared.upgrade() else { return ControlFlow::Break(()) };
                match followed {
                    Followed::Failed(failure) => shared.failed(&key, failure.cause),
                    Followed::Event(event) => return shared.observe(&key, event, &mut is_listed),
                }
                ControlFlow::Continue(())
            })
            .await;
        });
        task.abort_handle()
    }

    /// What is known of an object. Waits for nothing: a thread that does could be taken by every pod.
    fn state(&self, key: &ObjectKey) -> agent::Result<Option<Payload>> {
        let error = |cause: String| Error::Config { field: key.to_string(), cause };
        if !is_name(&key.name) {
            return Ok(None);
        }
        let entries = self.shared.entries();
        match entries.get(key).map(|entry| entry.state.clone()) {
            Some(State::Present(payload)) => Ok(Some(payload)),
            Some(State::Absent) => Ok(None),
            Some(State::Invalid(cause)) => Err(error(cause)),
            Some(State::Unsynced(cause)) => {
                let cause = cause.map(|cause| format!(": {cause}")).unwrap_or_default();
                Err(error(format!("it could not be read from the API server yet{cause}")))
            }
            None => Err(error("it is not registered for any pod of this node".to_owned())),
        }
    }
}

impl Shared {
    fn entries(&self) -> MutexGuard<'_, HashMap<ObjectKey, Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a failure. An object that is known stays as it is.
    fn failed(&self, key: &ObjectKey, cause: String) {
        if let Some(Entry { state: State::Unsynced(last), .. }) = self.entries().get_mut(key) {
            *last = Some(cause);
        }
        self.answered.send_replace(());
    }

    /// Applies an event. Breaks off once the object can no longer change.
    fn observe(&self, key: &ObjectKey, event: &Event<RawObject>, is_listed: &mut bool) -> ControlFlow<()> {
        match event {
            Event::Init => *is_listed = false,
            Event::InitApply(raw) | Event::Apply(raw) => {
                *is_listed = true;
                self.set(key, payload(key, raw).map_or_else(State::Invalid, State::Present));
                if is_immutable(raw) {
                    return ControlFlow::Break(());
                }
            }
            Event::InitDone if *is_listed => {}
            Event::InitDone | Event::Delete(_) => self.set(key, State::Absent),
        }
        ControlFlow::Continue(())
    }

    fn set(&self, key: &ObjectKey, state: State) {
        let mut entries = self.entries();
        let Some(entry) = entries.get_mut(key) else { return };
        let is_other = entry.state != state;
        entry.state = state;
        drop(entries);
        self.answered.send_replace(());
        if is_other {
            self.changed();
        }
    }

    fn changed(&self) {
        self.changes.send_modify(|count| *count += 1);
    }
}

impl Entry {
    /// Whether a pod other than this one references it. Removes the reference of this pod.
    fn is_used_without(&mut self, pod: &PodUid) -> bool {
        self.pods.remove(pod);
        !self.pods.is_empty()
    }
}

impl ObjectStore for ApiObjects {
    fn config_map(&self, namespace: &str, name: &str) -> agent::Result<Option<ConfigMap>> {
        let (namespace, name) = (namespace.to_owned(), name.to_owned());
        Ok(match self.state(&ObjectKey { kind: ObjectKind::ConfigMap, namespace, name })? {
            Some(Payload::ConfigMap(map)) => Some(map),
            _ => None,
        })
    }

    fn secret(&self, namespace: &str, name: &str) -> agent::Result<Option<Secret>> {
        let (namespace, name) = (namespace.to_owned(), name.to_owned());
        Ok(match self.state(&ObjectKey { kind: ObjectKind::Secret, namespace, name })? {
            Some(Payload::Secret(secret)) => Some(secret),
            _ => None,
        })
    }

    fn pod_origin(&self) -> PodOrigin {
        PodOrigin::ApiServer
    }

    fn token(&self, request: &TokenRequest) -> agent::Result<Token> {
        self.shared.handle.block_on(self.shared.tokens.get(request))
    }

    fn service_account(&self, namespace: &str, name: &str) -> agent::Result<Option<ServiceAccount>> {
        let accounts = core("ServiceAccount", "serviceaccounts");
        let api: Api<RawObject> = Api::namespaced_with(self.shared.client.clone(), namespace, &accounts);
        let error =
            |cause: String| Error::Config { field: format!("service account {namespace}/{name}"), cause };
        let asked = self.shared.handle.block_on(tokio::time::timeout(DEADLINE, api.get_opt(name)));
        let answer = asked.map_err(|_| error(format!("no answer within {} s", DEADLINE.as_secs())))?;
        let found = answer.map_err(|refused| error(cause(&refused)))?;
        Ok(found.map(|account| ServiceAccount {
            uid: account.uid().to_owned(),
            annotations: account.annotations(),
        }))
    }

    fn trust_bundles(&self, bundles: &TrustBundles) -> agent::Result<Option<String>> {
        self.shared.trust_bundles.get(bundles)
    }

    fn certificate(&self, request: &CertificateRequest) -> agent::Result<Credentials> {
        match &self.shared.certificates {
            Some(certificates) => certificates.get(request),
            None => {
                let cause = "there is no node that could request it".to_owned();
                Err(Error::Certificate { signer: request.signer.clone(), cause })
            }
        }
    }

    fn service_variables(
        &self,
        namespace: &str,
        links: ServiceLinks,
    ) -> agent::Result<BTreeMap<String, String>> {
        self.shared.services.variables(namespace, links)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::time::Instant;

    use agent::ports::SystemClock;

    use super::*;

    /// A store whose API server accepts connections and never answers.
    fn silent() -> (ApiObjects, std::net::TcpListener) {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let client = Client::try_from(kube::Config::new(address.parse().unwrap())).unwrap();
        (ApiObjects::new(client, Arc::new(SystemClock)), listener)
    }

    const FORBIDDEN: &str = r#"{"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 403,
        "reason": "Forbidden", "message": "no relationship found between node and this object"}"#;
    const LIST: &str = r#"{"kind": "SecretList", "apiVersion": "v1", "metadata": {"resourceVersion": "7"},
        "items": [{"metadata": {"name": "s", "namespace": "shop"}, "data": {"key": "dmFsdWU="}}]}"#;

    /// A store whose API server gives these answers, one for each connection, and then none.
    fn answering(answers: [(&'static str, &'static str); 3]) -> ApiObjects {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            for (status, body) in answers {
                let (mut stream, _) = listener.accept().unwrap();
                let _ = stream.read(&mut [0; 4096]);
                let length = body.len();
                let head = format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {length}");
                let _ = stream.write_all(format!("{head}\r\n\r\n{body}").as_bytes());
            }
        });
        let client = Client::try_from(kube::Config::new(address.parse().unwrap())).unwrap();
        ApiObjects::new(client, Arc::new(SystemClock))
    }

    #[tokio::test]
    async fn a_pod_waits_while_the_authorizer_does_not_know_it_yet() {
        let objects =
            answering([("403 Forbidden", FORBIDDEN), ("403 Forbidden", FORBIDDEN), ("200 OK", LIST)]);
        let (namespace, name) = ("shop".to_owned(), "s".to_owned());
        let keys = BTreeSet::from([ObjectKey { kind: ObjectKind::Secret, namespace, name }]);
        objects.register(&PodUid::new("web").unwrap(), &keys);
        objects.await_answers(&keys).await;
        assert!(objects.secret("shop", "s").unwrap().is_some());
    }

    #[tokio::test]
    async fn an_object_that_is_not_answered_keeps_no_thread() {
        let (objects, _server) = silent();
        let key = |number: usize| {
            let (namespace, name) = ("shop".to_owned(), format!("s{number}"));
            ObjectKey { kind: ObjectKind::Secret, namespace, name }
        };
        let keys: BTreeSet<ObjectKey> = (0..30).map(key).collect();
        objects.register(&PodUid::new("web").unwrap(), &keys);
        let begun = Instant::now();
        objects.await_answers(&keys).await;
        assert!(begun.elapsed() >= FIRST_SYNC, "the start waits once");
        let begun = Instant::now();
        for key in &keys {
            let error = objects.secret("shop", &key.name).unwrap_err().to_string();
            assert!(error.contains("could not be read from the API server yet"), "{error}");
        }
        assert!(begun.elapsed() < FIRST_SYNC, "thirty reads, none of which waits");
        assert!(!is_name("=s1") && objects.secret("shop", "=s1").unwrap().is_none());
    }
}

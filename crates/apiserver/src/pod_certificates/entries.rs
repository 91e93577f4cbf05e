//! The certificates of the pods of this node, in memory only.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use agent::Error;
use agent::ports::{CertificatePlace, CertificateRequest, Clock, Credentials};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;
use types::PodUid;

use super::request::Requester;
use super::task::keep_issued;

/// How long a caller waits for a certificate that was just requested.
const FIRST_ANSWER: Duration = Duration::from_secs(1);

/// The certificates of pods. Each is requested when a pod first asks for it, and replaced for as long as the pod does.
pub(crate) struct PodCertificates {
    inner: Arc<Inner>,
    handle: Handle,
}

pub(super) struct Inner {
    pub(super) requester: Requester,
    pub(super) clock: Arc<dyn Clock>,
    /// The pods that may have certificates, each with the turn in which its requests are created: the key of one pod waits for
    /// one key of each other pod.
    pods: Mutex<BTreeMap<PodUid, Arc<Semaphore>>>,
    entries: Mutex<HashMap<Key, Entry>>,
    answered: Condvar,
    changed: Box<dyn Fn() + Send + Sync>,
}

type Key = (PodUid, CertificatePlace);

struct Entry {
    answer: Answer,
    /// Whether a pod has asked for it since it was issued.
    is_used: bool,
    task: AbortHandle,
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What is known of a certificate.
pub(super) enum Answer {
    /// There is none yet, and why.
    Open(String),
    Issued(Credentials),
    /// There will be none, and why.
    Refused(String),
}

impl PodCertificates {
    /// Without certificates. `changed` is called after each one that is issued or refused. Must be called within a tokio
    /// runtime.
    pub(crate) fn new(
        requester: Requester,
        clock: Arc<dyn Clock>,
        changed: impl Fn() + Send + Sync + 'static,
    ) -> Self {
        let inner = Inner {
            requester,
            clock,
            pods: Mutex::default(),
            entries: Mutex::default(),
            answered: Condvar::new(),
            changed: Box::new(changed),
        };
        Self { inner: Arc::new(inner), handle: Handle::current() }
    }

    /// A pod that may have certificates until it is forgotten.
    pub(crate) fn register(&self, pod: &PodUid) {
        self.inner.pods().entry(pod.clone()).or_insert_with(|| Arc::new(Semaphore::new(1)));
    }

    /// The current key and certificates. Waits a moment for the first ones, unless another of the pod is open already: a pod
    /// must not take a thread for as long as signers do not answer.
    pub(crate) fn get(&self, request: &CertificateRequest) -> agent::Result<Credentials> {
        let key = key(request);
        let pods = self.inner.pods();
        let refused = |cause: String| Error::Certificate { signer: request.signer.clone(), cause };
        if !pods.contains_key(&request.pod.uid) {
            return Err(refused("the pod is gone".to_owned()));
        }
        let mut entries = self.inner.entries();
        // Forgetting a pod takes both locks in the same order: none is made for a pod that is gone.
        drop(pods);
        let is_open = |entry: &Entry| matches!(entry.answer, Answer::Open(_));
        let waits = !entries.iter().any(|((pod, _), entry)| *pod == request.pod.uid && is_open(entry));
        let entry = entries.entry(key.clone()).or_insert_with(|| {
            let task = self.handle.spawn(keep_issued(Arc::downgrade(&self.inner), request.clone()));
            let answer = Answer::Open("it is being requested".to_owned());
            Entry { answer, is_used: true, task: task.abort_handle() }
        });
        entry.is_used = true;
        let limit = if waits { FIRST_ANSWER } else { Duration::ZERO };
        let is_open = |entries: &mut HashMap<Key, Entry>| entries.get(&key).is_some_and(is_open);
        let waited = self.inner.answered.wait_timeout_while(entries, limit, is_open);
        let (entries, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let cause = match entries.get(&key).map(|entry| &entry.answer) {
            Some(Answer::Issued(credentials)) => return Ok(credentials.clone()),
            Some(Answer::Open(cause)) => format!("not issued yet: {cause}"),
            Some(Answer::Refused(cause)) => cause.clone(),
            None => "the pod is gone".to_owned(),
        };
        Err(refused(cause))
    }

    /// Forgets the certificates of a pod.
    pub(crate) fn forget(&self, pod: &PodUid) {
        let mut pods = self.inner.pods();
        let mut entries = self.inner.entries();
        pods.remove(pod);
        entries.retain(|(owner, _), _| owner != pod);
    }
}

impl Inner {
    fn entries(&self) -> MutexGuard<'_, HashMap<Key, Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pods(&self) -> MutexGuard<'_, BTreeMap<PodUid, Arc<Semaphore>>> {
        self.pods.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The turn of a pod to create requests; `None` if it is gone.
    pub(super) fn turn(&self, pod: &PodUid) -> Option<Arc<Semaphore>> {
        self.pods().get(pod).cloned()
    }

    /// Notes that a request was created and is not answered.
    pub(super) fn wait_for(&self, request: &CertificateRequest, title: &str) {
        self.set(request, Answer::Open(format!("the signer has not answered {title}")));
    }

    /// Sets what is known. A certificate stays until there is another one.
    pub(super) fn set(&self, request: &CertificateRequest, answer: Answer) {
        let mut entries = self.entries();
        let Some(entry) = entries.get_mut(&key(request)) else { return };
        let is_kept =
            matches!((&entry.answer, &answer), (Answer::Issued(_), Answer::Open(_) | Answer::Refused(_)));
        let is_final = !matches!(answer, Answer::Open(_));
        if !is_kept {
            entry.answer = answer;
        }
        drop(entries);
        if is_final {
            self.answered.notify_all();
            (self.changed)();
        }
    }

    /// Forgets a certificate that no pod has asked for since it was issued: its pod has ended. Returns whether it is kept.
    pub(super) fn keep_if_used(&self, request: &CertificateRequest) -> bool {
        let mut entries = self.entries();
        let Some(entry) = entries.get_mut(&key(request)) else { return false };
        if std::mem::take(&mut entry.is_used) {
            return true;
        }
        entries.remove(&key(request));
        false
    }
}

fn key(request: &CertificateRequest) -> Key {
    (request.pod.uid.clone(), request.place.clone())
}

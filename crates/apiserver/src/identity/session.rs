//! The credentials that the clients of this node present. Files are compared every ten seconds, so that a certificate that
//! another program puts in place is used, too.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use telemetry::metrics::Counter;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tracing::{info, warn};

use super::names::Names;
use super::request::Signer;
use super::rotation::{Rotation, State};
use super::store::Store;
use super::{IdentityError, NodeIdentity};
use crate::client::kubeconfig::{Loaded, load};
use crate::client::pair::{Pair, Source};
use crate::client::presented::answers;
use crate::client::{ApiClient, ClientError, Clients, Presented};

/// How often the files are compared.
const EVERY: Duration = Duration::from_secs(10);
/// How long a node may have no certificate while the API server answers.
const MISSING: Duration = Duration::from_secs(300);

/// The tasks that keep the identity of a node; they end when it is dropped.
#[derive(Debug)]
pub struct Session {
    lost: watch::Receiver<Option<Arc<IdentityError>>>,
    renew_errors: Counter,
    _tasks: JoinSet<()>,
}

impl Session {
    /// Counts renewals of the client certificate that failed.
    pub(crate) fn renew_errors(&self) -> Counter {
        self.renew_errors.clone()
    }

    /// Waits until the identity is lost: the certificate has expired, or was missing for five minutes, and the API server
    /// answers. The agent has to end then; a new start can request a first certificate again.
    pub async fn lost(&self) -> Arc<IdentityError> {
        let mut lost = self.lost.clone();
        let found = lost.wait_for(Option::is_some).await.ok().and_then(|found| found.clone());
        match found {
            Some(error) => error,
            // The task has ended with the runtime.
            None => std::future::pending().await,
        }
    }
}

/// Starts to follow the files, and to rotate if the node is to.
pub(super) async fn start(
    identity: &NodeIdentity,
    bootstrap: Option<ApiClient>,
) -> Result<Clients, IdentityError> {
    let store = Store::client(&identity.cert_dir);
    let loaded = load(&identity.kubeconfig).await?;
    let rotates = identity.rotates && !matches!(loaded.certificate, Source::Other);
    if identity.rotates && !rotates {
        info!(
            "rotateCertificates has no effect: the kubeconfig {} has no client certificate",
            identity.kubeconfig.display()
        );
    }
    let store = rotates.then_some(store);
    if let Some(store) = &store {
        store.open()?;
    }
    let files = Files { kubeconfig: identity.kubeconfig.clone(), store };
    let presented = Presented::new(&loaded.server, &identity.kubeconfig);
    let facts = Arc::clone(presented.identity());
    let mut clients = Clients::presenting(&presented);
    let renewed = Arc::new(Notify::new());
    let mut follower = Follower {
        may_end: rotates || identity.bootstrap_kubeconfig.is_some(),
        seen: None,
        valid_at: Instant::now(),
        was_valid: false,
        renewed: Arc::clone(&renewed),
        files: files.clone(),
        presented,
    };
    follower.present(&loaded)?;
    let (lost_sender, lost) = watch::channel(None);
    let renew_errors = Counter::default();
    let mut tasks = JoinSet::new();
    tasks.spawn(follower.run(lost_sender));
    if let Some(store) = &files.store {
        let own = clients.main.clone();
        let rotation = Rotation {
            title: "client certificate",
            node: identity.name.clone(),
            signer: Signer::Client,
            store: store.clone(),
            renewed,
            errors: renew_errors.clone(),
            awaits: Box::new(move |what| facts.set_awaits(what)),
            state: Box::new(move || {
                let (files, own, bootstrap) = (files.clone(), own.clone(), bootstrap.clone());
                Box::pin(async move { files.state(own, bootstrap).await })
            }),
        };
        tasks.spawn(rotation.run());
    }
    clients.session = Some(Arc::new(Session { lost, renew_errors, _tasks: tasks }));
    Ok(clients)
}

/// Where the credentials are.
#[derive(Debug, Clone)]
struct Files {
    kubeconfig: PathBuf,
    /// The certificate directory, if certificates are rotated.
    store: Option<Store>,
}

/// A certificate, and whether it is one of the kubeconfig itself.
struct Found {
    pair: Pair,
    is_embedded: bool,
}

impl Files {
    /// The certificate to use: that of the certificate directory before that of the kubeconfig, and a valid one before
    /// one that has expired.
    fn certificate(&self, loaded: &Loaded) -> Option<Found> {
        let stored = self.store.as_ref().and_then(Store::current);
        let stored = stored.map(|pair| Found { pair, is_embedded: false });
        let named = match &loaded.certificate {
            Source::Embedded(pair) => Some(Found { pair: (**pair).clone(), is_embedded: true }),
            Source::Files(pair) => {
                pair.as_deref().map(|pair| Found { pair: pair.clone(), is_embedded: false })
            }
            Source::Other => None,
        };
        let now = Timestamp::now();
        let mut all: Vec<Found> = stored.into_iter().chain(named).collect();
        let valid = all.iter().position(|found| !found.pair.is_expired(now)).unwrap_or(0);
        (!all.is_empty()).then(|| all.swap_remove(valid))
    }

    /// What a renewal starts from. A certificate that has expired is none.
    async fn state(&self, own: ApiClient, bootstrap: Option<ApiClient>) -> State {
        let found = load(&self.kubeconfig).await.ok().and_then(|loaded| self.certificate(&loaded));
        let found = found.filter(|found| !found.pair.is_expired(Timestamp::now()));
        let is_unfit = found.as_ref().is_some_and(|found| found.is_embedded);
        let client = if found.is_some() { own } else { bootstrap.unwrap_or(own) };
        State { current: found.map(|found| found.pair), is_unfit, names: Some(Names::default()), client }
    }

    /// The file that a certificate is expected in.
    fn expected(&self) -> PathBuf {
        self.store.as_ref().map_or_else(|| self.kubeconfig.clone(), Store::current_path)
    }
}

/// Keeps what the clients present up to date.
struct Follower {
    files: Files,
    presented: Presented,
    renewed: Arc<Notify>,
    /// Whether the agent ends if the identity is lost: whether a new start can do something about it.
    may_end: bool,
    seen: Option<Seen>,
    /// When there was a valid certificate, or the start.
    valid_at: Instant,
    /// Whether there was a valid certificate since the start.
    was_valid: bool,
}

/// What the clients present.
struct Seen {
    /// The kubeconfig as a whole.
    kubeconfig: serde_json::Value,
    pair: Option<Pair>,
}

impl Follower {
    async fn run(mut self, lost: watch::Sender<Option<Arc<IdentityError>>>) {
        let mut problem = String::new();
        loop {
            let _ = tokio::time::timeout(EVERY, self.renewed.notified()).await;
            let followed = match load(&self.files.kubeconfig).await {
                Ok(loaded) => self.present(&loaded),
                Err(error) => Err(error),
            };
            match followed {
                Ok(()) => problem.clear(),
                Err(error) if error.to_string() == problem => {}
                Err(error) => {
                    problem = error.to_string();
                    warn!(hint = error.hint(), "{problem}; the last usable credentials stay");
                }
            }
            if let Some(error) = self.lost().await {
                lost.send_replace(Some(Arc::new(error)));
            }
        }
    }

    /// Presents what the files hold, if that has changed.
    fn present(&mut self, loaded: &Loaded) -> Result<(), ClientError> {
        let kubeconfig = serde_json::to_value(&loaded.kubeconfig).unwrap_or_default();
        let pair = self.files.certificate(loaded).map(|found| found.pair);
        if self.seen.as_ref().is_some_and(|seen| seen.kubeconfig == kubeconfig && seen.pair == pair) {
            return Ok(());
        }
        match &pair {
            Some(pair) => {
                self.presented.replace(loaded, pair)?;
                if self.seen.is_some() {
                    info!(
                        "client certificate: the API server is asked with that which ends at {} from now on",
                        pair.not_after
                    );
                }
            }
            // The last certificate stays: it is in use, and its file may come back.
            None if self.seen.as_ref().is_some_and(|seen| seen.pair.is_some()) => {}
            // It is requested, and there is nothing to present until then.
            None if self.files.store.is_some() => {}
            None => self.presented.replace_as_named(loaded)?,
        }
        let pair = pair.or_else(|| self.seen.take().and_then(|seen| seen.pair));
        self.seen = Some(Seen { kubeconfig, pair });
        Ok(())
    }

    /// Whether, and why, the identity is lost.
    async fn lost(&mut self) -> Option<IdentityError> {
        let pair = self.seen.as_ref().and_then(|seen| seen.pair.as_ref());
        let server = || self.presented.identity().server.clone();
        let error = match pair {
            Some(pair) if !pair.is_expired(Timestamp::now()) => {
                (self.valid_at, self.was_valid) = (Instant::now(), true);
                return None;
            }
            _ if !self.may_end => return None,
            Some(pair) if self.was_valid => IdentityError::Expired { end: pair.chain_ends, server: server() },
            // One that had expired before the start is as good as none: another one is requested.
            _ if self.valid_at.elapsed() >= MISSING => IdentityError::Missing {
                minutes: MISSING.as_secs() / 60,
                server: server(),
                path: self.files.expected(),
            },
            _ => return None,
        };
        let loaded = load(&self.files.kubeconfig).await.ok()?;
        answers(&loaded).await.then_some(error)
    }
}

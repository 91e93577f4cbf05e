use std::time::Duration;

use api_client::backoff::jittered;
use api_client::raw::{cause, code};
use check::controller::NAME;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::jiff::Timestamp;
use kube::api::PostParams;
use kube::{Api, Client};
use tokio::sync::watch;
use tokio::time::{Instant, timeout, timeout_at};
use tracing::{debug, info, warn};

use super::election::{Observed, Step, held, released};
use crate::metrics::Counters;

/// How often the lease is tried or renewed.
const PERIOD: Duration = Duration::from_secs(2);
/// A leader that could not renew its lease for so long leads no more: well before another one may take it.
const RENEW_DEADLINE: Duration = Duration::from_secs(10);
/// How long a request may take.
const DEADLINE: Duration = Duration::from_secs(5);

/// Whose the lease is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Holder {
    This,
    Other,
    /// It was changed while this replica wrote it: it has to be read again.
    Unclear,
}

/// A replica that leads, or waits to.
pub(crate) struct Elector {
    api: Api<Lease>,
    replica: String,
    leads: watch::Sender<bool>,
    counters: Counters,
    observed: Observed,
    /// The lease as the server last answered, while this replica holds it.
    held: Option<Lease>,
    /// When the last renewal that succeeded was sent.
    renewed: Instant,
    is_failing: bool,
}

impl Elector {
    /// A replica of this name that does not lead yet.
    pub(crate) fn new(client: Client, namespace: &str, replica: &str, counters: Counters) -> Self {
        Self {
            api: Api::namespaced(client, namespace),
            replica: replica.to_owned(),
            leads: watch::Sender::new(false),
            counters,
            observed: Observed::default(),
            held: None,
            renewed: Instant::now(),
            is_failing: false,
        }
    }

    /// Whether this replica leads, as it changes.
    pub(crate) fn leads(&self) -> watch::Receiver<bool> {
        self.leads.subscribe()
    }

    /// Takes part in the election until `shutdown` is done, then gives the lease up.
    pub(crate) async fn run(mut self, shutdown: impl Future<Output = ()>) {
        tokio::pin!(shutdown);
        loop {
            // An attempt is never given up in its midst: this replica would not know whether it holds the lease.
            self.attempt().await;
            tokio::select! {
                () = &mut shutdown => break,
                () = tokio::time::sleep(jittered(PERIOD, 20)) => {}
            }
        }
        self.give_up().await;
    }

    async fn attempt(&mut self) {
        let sent = Instant::now();
        // A leader must know in time that it leads no more.
        let until = if self.is_leading() { self.renewed + RENEW_DEADLINE } else { sent + DEADLINE };
        match timeout_at(until.min(sent + DEADLINE), self.hold()).await {
            Ok(Ok(Holder::This)) => {
                self.renewed = sent;
                self.works();
                self.set_leading(true);
            }
            Ok(Ok(Holder::Other)) => {
                self.works();
                self.set_leading(false);
            }
            // A leader leads on until its deadline: the answer to its last renewal may have been lost.
            Ok(Ok(Holder::Unclear)) => self.works(),
            Ok(Err(cause)) => self.failed(&cause),
            Err(_) => self.failed(&format!("no answer within {} s", DEADLINE.as_secs())),
        }
        if self.is_leading() && self.renewed.elapsed() >= RENEW_DEADLINE {
            warn!("the lease {NAME} could not be renewed for {} s", RENEW_DEADLINE.as_secs());
            self.set_leading(false);
        }
    }

    /// Takes or renews the lease if it can.
    async fn hold(&mut self) -> Result<Holder, String> {
        let found = match self.held.take() {
            Some(held) => Some(held),
            None => self.api.get_opt(NAME).await.map_err(|error| cause(&error))?,
        };
        if self.observed.step(found.as_ref(), &self.replica, Instant::now()) == Step::Wait {
            return Ok(Holder::Other);
        }
        let exists = found.is_some();
        let lease = held(found, NAME, &self.replica, Timestamp::now());
        let params = PostParams::default();
        let written = match exists {
            true => self.api.replace(NAME, &params, &lease).await,
            false => self.api.create(&params, &lease).await,
        };
        match written {
            Ok(lease) => {
                self.held = Some(lease);
                Ok(Holder::This)
            }
            // Another replica was faster, or the lease was deleted.
            Err(error) if matches!(code(&error), Some(404 | 409)) => {
                debug!("the lease {NAME} was changed by another writer: {}", cause(&error));
                Ok(Holder::Unclear)
            }
            Err(error) => {
                // It is still this replica's for all that is known.
                self.held = Some(lease).filter(|lease| lease.metadata.resource_version.is_some());
                Err(cause(&error))
            }
        }
    }

    async fn give_up(&mut self) {
        let was_leading = self.is_leading();
        self.set_leading(false);
        if let Some(held) = self.held.take().filter(|_| was_leading) {
            let lease = released(held, Timestamp::now());
            // Without an answer the lease expires by itself.
            let _ = timeout(DEADLINE, self.api.replace(NAME, &PostParams::default(), &lease)).await;
        }
    }

    fn is_leading(&self) -> bool {
        *self.leads.borrow()
    }

    fn set_leading(&self, leads: bool) {
        let has_changed = self.leads.send_if_modified(|known| std::mem::replace(known, leads) != leads);
        if has_changed {
            self.counters.set_leading(leads);
            let (replica, verb) = (&self.replica, if leads { "leads now" } else { "leads no more" });
            info!("replica {replica} {verb}");
        }
    }

    fn works(&mut self) {
        if std::mem::replace(&mut self.is_failing, false) {
            info!("the lease {NAME} can be read and written again");
        }
    }

    fn failed(&mut self, cause: &str) {
        if !std::mem::replace(&mut self.is_failing, true) {
            let hint =
                "a Role in the controller's namespace needs the verbs get, create and update for leases";
            warn!(
                hint,
                "cannot read or write the lease {NAME}: {cause}; without it no events and no status are written"
            );
        }
    }
}

//! The credentials that the clients present, and what messages say about them.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use hyper::header::HeaderValue;
use k8s_openapi::jiff::fmt::rfc2822;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::config::AuthInfo;
use telemetry::metrics::{Error, Registry};
use tokio::sync::watch;
use tracing::{info, warn};

use super::connections::{Current, Set};
use super::error::ClientError;
use super::kubeconfig::Loaded;
use super::pair::Pair;
use super::requests::RequestMetrics;

/// Clocks that differ by more than this are reported: certificates and tokens are valid for minutes at least.
const SKEW: SignedDuration = SignedDuration::from_secs(60);

/// What messages say about a client.
#[derive(Debug)]
pub(crate) struct Identity {
    /// The URL of the API server.
    pub(crate) server: String,
    pub(crate) kubeconfig: PathBuf,
    facts: Mutex<Facts>,
    /// Set once there is a registry: the first certificate is requested before.
    requests: OnceLock<RequestMetrics>,
}

#[derive(Debug, Default)]
struct Facts {
    /// The end of the client certificate's validity; none if the credentials are no certificate.
    certificate_expires: Option<Timestamp>,
    /// What the node waits for while it has no certificate.
    awaits: Option<String>,
    /// How far the server's clock is ahead of this node's; none if they agree.
    skew: Option<SignedDuration>,
}

impl Identity {
    pub(crate) fn new(server: &str, kubeconfig: &Path) -> Self {
        let (server, kubeconfig) = (server.to_owned(), kubeconfig.to_owned());
        Self { server, kubeconfig, facts: Mutex::default(), requests: OnceLock::new() }
    }

    /// Counts requests from now on.
    pub(super) fn count_requests(&self, registry: &Registry) -> Result<(), Error> {
        let metrics = RequestMetrics::register(registry, &self.server)?;
        // They are counted already, in another registry.
        let _ = self.requests.set(metrics);
        Ok(())
    }

    /// The metrics of requests, if they are counted.
    pub(super) fn requests(&self) -> Option<&RequestMetrics> {
        self.requests.get()
    }

    fn with<T>(&self, work: impl FnOnce(&mut Facts) -> T) -> T {
        work(&mut self.facts.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn certificate_expires(&self) -> Option<Timestamp> {
        self.with(|facts| facts.certificate_expires)
    }

    pub(crate) fn set_certificate_expires(&self, end: Option<Timestamp>) {
        self.with(|facts| facts.certificate_expires = end);
    }

    /// What the node waits for while it has no certificate: "the approval of CertificateSigningRequest csr-x".
    pub(crate) fn awaits(&self) -> Option<String> {
        self.with(|facts| facts.awaits.clone())
    }

    pub(crate) fn set_awaits(&self, what: Option<String>) {
        self.with(|facts| facts.awaits = what);
    }

    /// How far the server's clock is ahead of this node's, if they differ.
    pub(super) fn skew(&self) -> Option<SignedDuration> {
        self.with(|facts| facts.skew)
    }

    /// Compares the server's clock with this node's.
    pub(super) fn saw_date(&self, date: Option<&HeaderValue>, now: Timestamp) {
        let parsed = date.and_then(|date| date.to_str().ok()).and_then(|text| rfc2822::parse(text).ok());
        let Some(theirs) = parsed.map(|zoned| zoned.timestamp()) else { return };
        let ahead = theirs.duration_since(now);
        let skew = (ahead.abs() > SKEW).then_some(ahead);
        let before = self.with(|facts| std::mem::replace(&mut facts.skew, skew));
        match (before, skew) {
            (None, Some(ahead)) => warn!(
                hint = "set the clock of this node (`timedatectl`, chrony), or the server's: certificates, tokens and \
                        leases are judged by both",
                "the clocks of this node and of {} differ: {}",
                self.server,
                difference(ahead, now)
            ),
            (Some(_), None) => info!("the clocks of this node and of {} agree again", self.server),
            _ => {}
        }
    }
}

/// "this node's reads 2026-01-01T00:00:00Z, the server's is 3600 s ahead".
pub(super) fn difference(ahead: SignedDuration, now: Timestamp) -> String {
    let side = if ahead.is_negative() { "behind" } else { "ahead" };
    let now = now.round(k8s_openapi::jiff::Unit::Second).unwrap_or(now);
    format!("this node's reads {now}, the server's is {} s {side}", ahead.abs().as_secs())
}

/// The credentials of all clients of one kubeconfig.
pub(crate) struct Presented {
    identity: Arc<Identity>,
    current: watch::Sender<Option<Arc<Set>>>,
}

impl Presented {
    pub(crate) fn new(server: &str, kubeconfig: &Path) -> Self {
        Self { identity: Arc::new(Identity::new(server, kubeconfig)), current: watch::Sender::new(None) }
    }

    pub(crate) fn identity(&self) -> &Arc<Identity> {
        &self.identity
    }

    pub(super) fn subscribe(&self) -> Current {
        self.current.subscribe()
    }

    /// From now on the clients present this certificate.
    pub(crate) fn replace(&self, loaded: &Loaded, pair: &Pair) -> Result<(), ClientError> {
        let unusable = |error: &(dyn std::error::Error + 'static)| {
            ClientError::unusable(&self.identity.kubeconfig, error)
        };
        let auth = pair.auth_info().map_err(|error| unusable(&error))?;
        let set = Set::new(&loaded.config_with(auth)).map_err(|error| unusable(&error))?;
        self.identity.set_certificate_expires(Some(pair.not_after));
        self.identity.set_awaits(None);
        self.current.send_replace(Some(Arc::new(set)));
        Ok(())
    }

    /// From now on the clients present what the kubeconfig names: a token, or nothing.
    pub(crate) fn replace_as_named(&self, loaded: &Loaded) -> Result<(), ClientError> {
        let set = Set::new(&loaded.config);
        let set = set.map_err(|error| ClientError::unusable(&self.identity.kubeconfig, &error))?;
        self.identity.set_certificate_expires(None);
        self.current.send_replace(Some(Arc::new(set)));
        Ok(())
    }
}

/// Whether the server answers at all, be it with a refusal. No credentials are sent.
pub(crate) async fn answers(loaded: &Loaded) -> bool {
    let Ok(client) = kube::Client::try_from(loaded.config_with(AuthInfo::default())) else { return false };
    let Ok(request) = hyper::Request::get("/livez").body(Vec::new()) else { return false };
    let asked = tokio::time::timeout(super::HEARTBEAT_DEADLINE, client.request_text(request)).await;
    matches!(asked, Ok(Ok(_) | Err(kube::Error::Api(_))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_that_differ_are_known_until_they_agree() {
        let identity = Identity::new("https://a", Path::new("/b"));
        let now: Timestamp = "2026-11-18T12:00:00Z".parse().unwrap();
        let saw = |text: &'static str| identity.saw_date(Some(&HeaderValue::from_static(text)), now);
        saw("Wed, 18 Nov 2026 12:00:59 GMT");
        assert_eq!(identity.skew(), None);
        saw("Wed, 18 Nov 2026 11:00:00 GMT");
        assert_eq!(identity.skew(), Some(SignedDuration::from_secs(-3600)));
        saw("not a date");
        assert!(identity.skew().is_some());
        let text = difference(SignedDuration::from_secs(-3600), now);
        assert_eq!(text, "this node's reads 2026-11-18T12:00:00Z, the server's is 3600 s behind");
        saw("Wed, 18 Nov 2026 12:00:00 GMT");
        assert_eq!(identity.skew(), None);
    }
}

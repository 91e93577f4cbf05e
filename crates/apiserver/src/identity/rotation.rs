//! The renewal of a certificate.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use agent::ports::BoxFuture;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use telemetry::metrics::Counter;
use tokio::sync::Notify;
use tracing::{debug, info, warn};

use super::IdentityError;
use super::names::Names;
use super::request::{Signer, Wanted, await_certificate, new_key, submit};
use super::store::Store;
use crate::backoff::Backoff;
use crate::client::ApiClient;
use crate::client::pair::Pair;

/// How often it is looked whether a renewal is due: files may change, and the clock may jump.
const EVERY: Duration = Duration::from_secs(10);
/// How long an approval may take; then another request is made.
const APPROVAL: Duration = Duration::from_secs(900);

/// What a renewal starts from.
pub(super) struct State {
    /// The certificate of now.
    pub(super) current: Option<Pair>,
    /// Whether it must be replaced at once, although it is valid.
    pub(super) is_unfit: bool,
    /// The names of the next one; `None`: they are not known yet.
    pub(super) names: Option<Names>,
    /// The client to ask with.
    pub(super) client: ApiClient,
}

/// Renews one certificate, for ever.
pub(super) struct Rotation {
    /// For the log: "client certificate".
    pub(super) title: &'static str,
    pub(super) node: String,
    pub(super) signer: Signer,
    pub(super) store: Store,
    /// Notified when there is a new certificate.
    pub(super) renewed: Arc<Notify>,
    /// Counts renewals that failed.
    pub(super) errors: Counter,
    /// Given what is waited for, for messages.
    pub(super) awaits: Box<dyn Fn(Option<String>) + Send + Sync>,
    /// Reads the state of now.
    pub(super) state: Box<dyn Fn() -> BoxFuture<'static, State> + Send + Sync>,
}

impl Rotation {
    pub(super) async fn run(self) {
        let mut backoff = Backoff::new(Duration::from_secs(2), Duration::from_secs(32));
        let mut drawn: Option<(Pair, Timestamp)> = None;
        let mut problem = String::new();
        loop {
            let state = (self.state)().await;
            let now = Timestamp::now();
            let due = match &state.current {
                Some(pair) if !state.is_unfit => match &drawn {
                    Some((known, due)) if known == pair => *due,
                    _ => {
                        let due = due(pair, random());
                        debug!("{}: the renewal is due at {due}", self.title);
                        drawn.insert((pair.clone(), due)).1
                    }
                },
                _ => now,
            };
            let Some(names) = state.names.as_ref().filter(|_| due <= now) else {
                backoff.reset();
                let left = Duration::try_from(due.duration_since(now)).unwrap_or_default();
                tokio::time::sleep(left.clamp(Duration::from_millis(100), EVERY)).await;
                continue;
            };
            match self.renew(&state, names).await {
                Ok(pair) => {
                    problem.clear();
                    info!("{}: a new one is valid until {}", self.title, pair.not_after);
                    self.renewed.notify_one();
                }
                Err(error) => {
                    self.errors.increment();
                    let text = error.to_string();
                    if text == problem {
                        debug!("{}: {text}", self.title);
                    } else {
                        warn!(hint = error.hint(), "{}: {text}; trying again", self.title);
                        problem = text;
                    }
                }
            }
            // Also after a success: a signer whose certificates do not do is not asked without end.
            tokio::time::sleep(backoff.after_failure()).await;
        }
    }

    async fn renew(&self, state: &State, names: &Names) -> Result<Pair, IdentityError> {
        let key = new_key()?;
        let wanted = Wanted { node: &self.node, signer: self.signer, names };
        let is_first = state.current.is_none();
        (self.awaits)(Some(format!("{} to accept its request for one", state.client.server())));
        let name = submit(&state.client, wanted, &key, None).await.map_err(|error| match error {
            IdentityError::Api(error) if is_first && self.signer == Signer::Client => {
                IdentityError::of_bootstrap(error)
            }
            error => error,
        })?;
        info!(
            "{}: CertificateSigningRequest {name} waits for its approval (`kubectl certificate approve {name}`)",
            self.title
        );
        (self.awaits)(Some(format!("the approval of CertificateSigningRequest {name}")));
        let pair = await_certificate(&state.client, &name, &key, APPROVAL).await?;
        self.store.update(&pair, Timestamp::now())?;
        Ok(pair)
    }
}

/// When a certificate is to be renewed: when 70 % of its lifetime have passed, and at 90 % for the greatest `random`, so
/// that not all nodes ask at once. `random` is from 0 to 999.
fn due(pair: &Pair, random: i32) -> Timestamp {
    let life = pair.not_after.duration_since(pair.not_before);
    let millis = life.as_millis() * i128::from(700 + random / 5) / 1000;
    let after = SignedDuration::from_millis(i64::try_from(millis).unwrap_or(i64::MAX));
    pair.not_before.saturating_add(after).unwrap_or(pair.not_after)
}

fn random() -> i32 {
    i32::try_from(RandomState::new().hash_one(0_u8) % 1000).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::pair::tests::pair;

    #[test]
    fn a_renewal_is_due_between_70_and_90_percent_of_the_lifetime() {
        let pair = pair(2021, 2022);
        let day = |random: i32| due(&pair, random).strftime("%Y-%m-%d").to_string();
        // 365 days: after 255.5 days, and before 328.5.
        assert_eq!((day(0).as_str(), day(999).as_str()), ("2021-09-13", "2021-11-25"));
        assert!((0..1000).contains(&random()));
    }
}

//! Sends events while this replica leads.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use api_client::backoff::Backoff;
use api_client::raw::{RawObject, cause, code};
use kube::Client;
use kube::api::PostParams;
use kube::core::Request;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use tracing::{debug, info, warn};

use super::document::document;
use super::pace::Pace;
use super::plan::{Due, Plan};
use crate::metrics::{Counters, Outcome};
use crate::shared::Shared;

/// How long a request may take.
const DEADLINE: Duration = Duration::from_secs(10);
/// Changes that come together within this time are in one text.
const TOGETHER: Duration = Duration::from_millis(100);
/// How often it is looked for what is due if nothing changes.
const TICK: Duration = Duration::from_secs(5);

/// What the sender of events needs.
pub(crate) struct Sender {
    pub(crate) shared: Arc<Shared>,
    pub(crate) client: Client,
    /// Whether this replica leads.
    pub(crate) leads: watch::Receiver<bool>,
    /// The name of this replica.
    pub(crate) replica: String,
    pub(crate) counters: Counters,
}

/// Why an event was not sent.
enum Failure {
    /// It will never be: the API server refuses it, or its namespace is gone or going.
    Final(String),
    /// It is tried again: the API server does not answer, or the right is missing.
    Passing(String),
}

/// Sends events for ever.
pub(crate) async fn run(sender: Sender) {
    let mut tries = Tries::new();
    loop {
        if !sender.leads() {
            // A replica that does not lead keeps no list of changes.
            sender.shared.with(|cluster| drop(cluster.take_changes()));
            sender.wait(TICK).await;
            continue;
        }
        // Nothing is reported before it is known which objects are gone.
        let Some(plan) = sender.shared.with(|cluster| cluster.is_settled().then(|| Plan::begin(cluster)))
        else {
            sender.wait(TOGETHER).await;
            continue;
        };
        sender.lead(plan, &mut tries).await;
    }
}

impl Sender {
    fn leads(&self) -> bool {
        *self.leads.borrow()
    }

    /// Waits for a change of the cluster, no longer than this.
    async fn wait(&self, longest: Duration) {
        let _ = timeout(longest, self.shared.changed()).await;
    }

    /// Sends what is due until this replica leads no more.
    async fn lead(&self, mut plan: Plan, tries: &mut Tries) {
        let mut pace = Pace::new(Instant::now());
        while self.leads() {
            self.shared.with(|cluster| {
                if cluster.is_settled() {
                    plan.update(cluster, Instant::now());
                }
            });
            let Some(due) = plan.next() else {
                self.wait(TICK).await;
                tokio::time::sleep(TOGETHER).await;
                continue;
            };
            tokio::time::sleep(pace.take(Instant::now())).await;
            if self.leads() {
                self.send(due, &mut plan, tries).await;
            }
        }
    }

    async fn send(&self, due: Due, plan: &mut Plan, tries: &mut Tries) {
        let Some(text) = self.shared.with(|cluster| due.notice.text(cluster)) else { return };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let event = document(&due.notice, &text, &self.replica, now);
        match self.create(due.notice.pod.namespace(), &event).await {
            Ok(outcome) => {
                tries.succeeded();
                self.counters.event(text.reason, outcome);
                if let (Outcome::Created, Some(since)) = (outcome, due.since) {
                    self.counters.event_after(since.elapsed());
                }
            }
            Err(Failure::Final(cause)) => {
                tries.succeeded();
                self.counters.event(text.reason, Outcome::Refused);
                warn!("event {} of pod {} was not sent: {cause}", text.reason, due.notice.pod);
            }
            Err(Failure::Passing(cause)) => {
                plan.put_back(due);
                tokio::time::sleep(tries.failed(&cause)).await;
            }
        }
    }

    async fn create(&self, namespace: &str, event: &Value) -> Result<Outcome, Failure> {
        let request = Request::new(format!("/api/v1/namespaces/{namespace}/events"));
        let body = serde_json::to_vec(event).map_err(|error| Failure::Final(error.to_string()))?;
        let request = request.create(&PostParams::default(), body);
        let request = request.map_err(|error| Failure::Final(error.to_string()))?;
        match timeout(DEADLINE, self.client.request::<RawObject>(request)).await {
            Ok(Ok(_)) => Ok(Outcome::Created),
            Ok(Err(error)) => refused(&error),
            Err(_) => Err(Failure::Passing(format!("no answer within {} s", DEADLINE.as_secs()))),
        }
    }
}

fn refused(error: &kube::Error) -> Result<Outcome, Failure> {
    match code(error) {
        // An earlier leader has created it.
        Some(409) => Ok(Outcome::Present),
        Some(403) if is_of_namespace(error) => Err(Failure::Final(cause(error))),
        // A right can be given, a server can come back.
        None | Some(401 | 403 | 408 | 429 | 500..) => Err(Failure::Passing(cause(error))),
        Some(_) => Err(Failure::Final(cause(error))),
    }
}

/// Whether the namespace is being deleted, in which nothing can be created.
fn is_of_namespace(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else { return false };
    let causes = status.details.iter().flat_map(|details| &details.causes);
    causes.into_iter().any(|cause| cause.reason == "NamespaceTerminating")
}

/// Attempts in a row that failed: logged when they begin and when they end.
struct Tries {
    backoff: Backoff,
    is_failing: bool,
}

impl Tries {
    fn new() -> Self {
        let backoff = Backoff::new(Duration::from_millis(500), Duration::from_secs(15));
        Self { backoff, is_failing: false }
    }

    fn succeeded(&mut self) {
        self.backoff.reset();
        if std::mem::replace(&mut self.is_failing, false) {
            info!("events are sent again");
        }
    }

    /// How long to wait before the next attempt.
    fn failed(&mut self, cause: &str) -> Duration {
        if std::mem::replace(&mut self.is_failing, true) {
            debug!("an event waits: {cause}");
        } else {
            let hint = "the ClusterRole of the controller needs the verb create for events";
            warn!(hint, "events cannot be sent: {cause}; they wait, and are tried again");
        }
        self.backoff.spread_after_failure()
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;
    use serde_json::json;

    use super::*;

    fn answer(code: u16, reason: &str) -> Result<Outcome, bool> {
        let status = json!({"code": code, "details": {"causes": [{"reason": reason}]}});
        let status: Status = serde_json::from_value(status).unwrap();
        refused(&kube::Error::Api(status.boxed())).map_err(|failure| matches!(failure, Failure::Final(_)))
    }

    #[test]
    fn an_event_that_is_there_is_sent_and_a_missing_right_is_waited_for() {
        assert_eq!(answer(409, "AlreadyExists"), Ok(Outcome::Present));
        for passing in [401, 403, 429, 500, 503] {
            assert_eq!(answer(passing, ""), Err(false), "{passing}");
        }
        assert_eq!(answer(403, "NamespaceTerminating"), Err(true));
        for last in [400, 404, 422] {
            assert_eq!(answer(last, ""), Err(true), "{last}");
        }
    }
}

//! The life of one certificate: requested, and requested again before it expires.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use agent::ports::{CertificateRequest, Credentials, Event, EventObject, EventType};
use lifecycle::Moment;
use tracing::info;
use types::reason;

use super::entries::{Answer, Inner};
use super::outcome::{Issued, Outcome, Refused};
use super::request::Created;
use crate::backoff::{Backoff, random_below};

/// The longest random time by which a refresh is late, so that the pods of a node do not ask at the same moment.
const JITTER: Duration = Duration::from_secs(5 * 60);
/// A refresh that takes longer than this is reported.
const OVERDUE: Duration = Duration::from_secs(10 * 60);
/// The longest time in which a change of the clock is not noticed.
const CLOCK_CHECK: Duration = Duration::from_secs(5);

/// Requests a certificate, and the next one when its time has come, until the signer refuses or no pod asks for it.
pub(super) async fn keep_issued(inner: Weak<Inner>, request: CertificateRequest) {
    let mut last: Option<Issued> = None;
    loop {
        let issue = issue(&inner, &request);
        let answered = match &last {
            None => issue.await,
            Some(old) => tokio::select! {
                answered = issue => answered,
                () = report_age(&inner, &request, old) => return,
            },
        };
        let Some(issued) = answered else {
            // The pod keeps the certificate that it has.
            if let Some(old) = &last {
                report_age(&inner, &request, old).await;
            }
            return;
        };
        let due = issued.begin_refresh.after(random_below(JITTER));
        if !wait_until(&inner, due).await {
            return;
        }
        let is_used = inner.upgrade().is_some_and(|inner| inner.keep_if_used(&request));
        if !is_used {
            return;
        }
        last = Some(issued);
    }
}

/// Requests a certificate, however often it takes; `None` if the signer refuses, or the agent ends.
async fn issue(inner: &Weak<Inner>, request: &CertificateRequest) -> Option<Issued> {
    let mut backoff = Backoff::new(Duration::from_millis(250), Duration::from_secs(60));
    loop {
        let requester = inner.upgrade()?.requester.clone();
        let turn = inner.upgrade()?.turn(&request.pod.uid)?;
        let attempt = async {
            let turn = turn.acquire().await.map_err(|error| error.to_string())?;
            let Created { name, key } = requester.create(request).await?;
            drop(turn);
            let title = format!("PodCertificateRequest {}/{name}", request.pod.namespace);
            inner.upgrade().into_iter().for_each(|inner| inner.wait_for(request, &title));
            match requester.answer(&request.pod.namespace, &name).await {
                Outcome::Gone => {
                    Err(format!("{title} was deleted before it was answered, and is made again"))
                }
                Outcome::Issued(issued) => Ok((title, Ok((key, issued)))),
                Outcome::Refused(refused) => Ok((title, Err(refused))),
            }
        };
        let (title, answered) = match attempt.await {
            Ok(answered) => answered,
            Err(cause) => {
                inner.upgrade()?.set(request, Answer::Open(cause));
                tokio::time::sleep(backoff.spread_after_failure()).await;
                continue;
            }
        };
        let inner = inner.upgrade()?;
        return match answered {
            Ok((key, issued)) => {
                info!("{title} of pod {} was issued", request.pod.name);
                inner.set(request, Answer::Issued(Credentials::new(key, issued.chain.clone())));
                Some(issued)
            }
            Err(Refused { kind, cause }) => {
                let what = if kind == reason::DENIED { "was denied" } else { "failed" };
                let message = format!(
                    "{title} {what}: {cause}; it is not repeated: delete the pod when the signer {:?} would issue it",
                    request.signer
                );
                event(&inner, request, kind, message.clone());
                inner.set(request, Answer::Refused(message));
                None
            }
        };
    }
}

/// Reports that a certificate should have been replaced, and then that it has expired. Ends with the agent.
async fn report_age(inner: &Weak<Inner>, request: &CertificateRequest, old: &Issued) {
    let place = &request.place;
    let title = format!("The certificate of volume {:?}, source {}", place.volume, place.source);
    let overdue = old.begin_refresh.after(JITTER).after(OVERDUE);
    let signer = &request.signer;
    let steps = [
        (
            overdue,
            reason::CERTIFICATE_OVERDUE,
            format!("{title} should have been refreshed by signer {signer:?}"),
        ),
        (
            old.expires,
            reason::CERTIFICATE_EXPIRED,
            format!("{title} has expired; signer {signer:?} has not issued another"),
        ),
    ];
    for (at, reason, message) in steps {
        if !wait_until(inner, at).await {
            return;
        }
        if let Some(inner) = inner.upgrade() {
            event(&inner, request, reason, message);
        }
    }
    std::future::pending::<()>().await;
}

/// Waits for a time of the clock. Returns whether the agent still runs.
async fn wait_until(inner: &Weak<Inner>, at: Moment) -> bool {
    loop {
        let Some(now) = inner.upgrade().map(|inner| inner.clock.now()) else { return false };
        if now >= at {
            return true;
        }
        tokio::time::sleep(at.since(now).min(CLOCK_CHECK)).await;
    }
}

fn event(inner: &Arc<Inner>, request: &CertificateRequest, reason: &'static str, message: String) {
    inner.requester.events.record(Event {
        kind: EventType::Warning,
        reason,
        object: EventObject { pod: request.pod.clone(), field_path: None },
        image: None,
        message,
        annotations: BTreeMap::new(),
        log: None,
        time: inner.clock.now(),
    });
}

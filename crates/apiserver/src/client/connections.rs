//! Connections whose credentials can change: clients stay the same, what they send through is replaced.

use std::fmt;
use std::future::pending;
use std::sync::Arc;

use futures_util::{StreamExt as _, TryStreamExt as _};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::{Bytes, Frame};
use hyper::{Request, Response};
use k8s_openapi::jiff::Timestamp;
use kube::client::Body;
use tokio::sync::watch;

use super::Identity;
use super::requests::Extent;

type BoxError = Box<dyn std::error::Error + Send + Sync>;
type Answer = Response<UnsyncBoxBody<Bytes, BoxError>>;

/// What requests are for. Each has connections of its own, so that one cannot hold up another.
#[derive(Debug, Clone, Copy)]
pub(super) enum Purpose {
    Main,
    Events,
    Heartbeat,
}

/// The clients of one set of credentials.
pub(super) struct Set {
    pub(super) main: kube::Client,
    pub(super) events: kube::Client,
    pub(super) heartbeat: kube::Client,
}

impl Set {
    pub(super) fn new(config: &kube::Config) -> kube::Result<Self> {
        let client = || kube::Client::try_from(config.clone());
        Ok(Self { main: client()?, events: client()?, heartbeat: client()? })
    }

    fn of(&self, purpose: Purpose) -> kube::Client {
        match purpose {
            Purpose::Main => self.main.clone(),
            Purpose::Events => self.events.clone(),
            Purpose::Heartbeat => self.heartbeat.clone(),
        }
    }
}

/// The credentials of the moment; `None` if there are none.
pub(super) type Current = watch::Receiver<Option<Arc<Set>>>;

/// There are no credentials yet.
#[derive(Debug)]
pub(super) struct NoCredentials;

impl fmt::Display for NoCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("this node has no client certificate")
    }
}

impl std::error::Error for NoCredentials {}

/// A client whose requests go through the credentials of the moment. A watch ends when they change, as it does after some
/// minutes anyway: its reader opens another one, with the new credentials.
pub(super) fn client(purpose: Purpose, current: Current, identity: Arc<Identity>) -> kube::Client {
    let service = tower::service_fn(move |request: Request<Body>| {
        let (current, identity) = (current.clone(), Arc::clone(&identity));
        async move { send(purpose, current, &identity, request).await }
    });
    kube::Client::new(service, "default")
}

async fn send(
    purpose: Purpose,
    mut current: Current,
    identity: &Identity,
    request: Request<Body>,
) -> Result<Answer, BoxError> {
    let set = current.borrow_and_update().clone().ok_or(NoCredentials)?;
    let client = set.of(purpose);
    drop(set);
    let is_watch = request.uri().query().is_some_and(is_watch);
    let extent = if is_watch { Extent::Watch } else { Extent::Single };
    let counted = identity.requests().map(|metrics| metrics.begin(request.method(), extent));
    let answer = client.send(request).await?;
    if let Some(counted) = counted {
        counted.answered(answer.status());
    }
    identity.saw_date(answer.headers().get(hyper::header::DATE), Timestamp::now());
    Ok(answer.map(|body| {
        if !is_watch {
            return body.map_err(BoxError::from).boxed_unsync();
        }
        let changed = async move {
            if current.changed().await.is_err() {
                pending::<()>().await;
            }
        };
        let data = body.into_data_stream().map_err(BoxError::from).take_until(Box::pin(changed));
        StreamBody::new(data.map_ok(Frame::data)).boxed_unsync()
    }))
}

fn is_watch(query: &str) -> bool {
    query.split('&').any(|part| matches!(part, "watch=true" | "watch=1" | "watch"))
}

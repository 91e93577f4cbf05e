//! A watch that survives outages of the API server.

use std::fmt::Debug;
use std::ops::ControlFlow;
use std::pin::pin;
use std::time::Duration;

use futures_util::StreamExt;
use kube::{Api, Resource};
use kube_runtime::watcher::{Config, Error, Event, watcher};
use serde::de::DeserializeOwned;
use tracing::{info, warn};

use crate::backoff::Backoff;
use crate::raw::{RawObject, cause, code};

/// How long a page of a list may take.
const LIST_PATIENCE: Duration = Duration::from_secs(30);
/// After so many refusals of a watch the objects are listed again: the version that it starts from may be one that the
/// server no longer has, or does not have yet.
const RELIST_AFTER: u32 = 3;

/// What a watch reports.
pub enum Followed<'a, K = RawObject> {
    /// An event of the watcher.
    Event(&'a Event<K>),
    /// The watch has failed and is tried again.
    Failed(WatchFailure),
}

/// Why a watch has failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchFailure {
    /// The cause, in one line.
    pub cause: String,
    /// The HTTP status of the answer; `None` if there was no answer.
    pub code: Option<u16>,
}

/// Watches until `handle` breaks off. `title` names the objects in the log. Failures are logged when they begin and end.
pub async fn follow<K>(
    api: Api<K>,
    config: Config,
    title: &str,
    handle: impl FnMut(Followed<'_, K>) -> ControlFlow<()>,
) where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    follow_with(api, config, title, Backoff::of_watch(), handle).await;
}

/// The same with other waits after failures.
pub async fn follow_with<K>(
    api: Api<K>,
    config: Config,
    title: &str,
    mut backoff: Backoff,
    mut handle: impl FnMut(Followed<'_, K>) -> ControlFlow<()>,
) where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let mut health = Health { title, is_failing: false };
    loop {
        let mut stream = pin!(watcher(api.clone(), config.clone()));
        let (mut is_listing, mut refusals) = (true, 0);
        loop {
            let next = stream.next();
            let next = if is_listing {
                tokio::time::timeout(LIST_PATIENCE, next).await.ok()
            } else {
                Some(next.await)
            };
            let failure = match next {
                Some(Some(Ok(event))) => {
                    is_listing = match &event {
                        Event::Init => true,
                        Event::InitDone => false,
                        _ => is_listing,
                    };
                    if !matches!(event, Event::Init) {
                        refusals = 0;
                        health.works();
                    }
                    if handle(Followed::Event(&event)).is_break() {
                        return;
                    }
                    continue;
                }
                Some(Some(Err(error))) => {
                    refusals += u32::from(matches!(&error, Error::WatchStartFailed(kube::Error::Api(_))));
                    WatchFailure::of(&error)
                }
                Some(None) => {
                    refusals = RELIST_AFTER;
                    WatchFailure::unanswered("the watch ended")
                }
                None => {
                    refusals = RELIST_AFTER;
                    WatchFailure::unanswered(format!("no answer within {} s", LIST_PATIENCE.as_secs()))
                }
            };
            health.fails(&failure.cause);
            if handle(Followed::Failed(failure)).is_break() {
                return;
            }
            tokio::time::sleep(backoff.spread_after_failure()).await;
            if refusals >= RELIST_AFTER {
                break;
            }
        }
    }
}

/// Whether a watch works. Each change is logged once.
struct Health<'a> {
    title: &'a str,
    is_failing: bool,
}

impl Health<'_> {
    fn works(&mut self) {
        if std::mem::replace(&mut self.is_failing, false) {
            info!("the watch of {} works again", self.title);
        }
    }

    fn fails(&mut self, cause: &str) {
        if !std::mem::replace(&mut self.is_failing, true) {
            warn!("cannot watch {}: {cause}; what is known stays, and the watch is tried again", self.title);
        }
    }
}

impl WatchFailure {
    fn unanswered(cause: impl Into<String>) -> Self {
        Self { cause: cause.into(), code: None }
    }

    fn of(error: &Error) -> Self {
        match error {
            Error::InitialListFailed(error) | Error::WatchStartFailed(error) | Error::WatchFailed(error) => {
                Self { cause: cause(error), code: code(error) }
            }
            Error::WatchError(status) => {
                Self { cause: format!("{} ({})", status.message, status.code), code: Some(status.code) }
            }
            Error::NoResourceVersion => Self::unanswered("an answer without resourceVersion"),
        }
    }
}

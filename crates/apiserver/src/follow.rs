//! A watch that survives outages of the API server.

use std::ops::ControlFlow;
use std::pin::pin;
use std::time::Duration;

use futures_util::StreamExt;
use kube::Api;
use kube_runtime::watcher::{Config, Error, Event, watcher};
use tracing::{info, warn};

use crate::backoff::Backoff;
use crate::raw::{RawObject, cause};

/// How long a page of a list may take.
const LIST_PATIENCE: Duration = Duration::from_secs(30);
/// After so many refusals of a watch the objects are listed again: the version that it starts from may be one that the
/// server no longer has, or does not have yet.
const RELIST_AFTER: u32 = 3;

/// What a watch reports.
pub(crate) enum Followed<'a> {
    /// An event of the watcher.
    Event(&'a Event<RawObject>),
    /// The watch has failed and is tried again; the cause.
    Failed(String),
}

/// Watches until `handle` breaks off. `title` names the objects in the log. Failures are logged when they begin and end.
pub(crate) async fn follow(
    api: Api<RawObject>,
    config: Config,
    title: &str,
    handle: impl FnMut(Followed<'_>) -> ControlFlow<()>,
) {
    follow_after(Backoff::of_watch(), api, config, title, handle).await;
}

/// The same with other waits until the first list.
pub(crate) async fn follow_after(
    mut backoff: Backoff,
    api: Api<RawObject>,
    config: Config,
    title: &str,
    mut handle: impl FnMut(Followed<'_>) -> ControlFlow<()>,
) {
    let mut health = Health { title, is_failing: false };
    let mut is_first = true;
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
                    if !is_listing && std::mem::take(&mut is_first) {
                        backoff = Backoff::of_watch();
                    }
                    if handle(Followed::Event(&event)).is_break() {
                        return;
                    }
                    continue;
                }
                Some(Some(Err(error))) => {
                    refusals += u32::from(matches!(&error, Error::WatchStartFailed(kube::Error::Api(_))));
                    reason(&error)
                }
                Some(None) => {
                    refusals = RELIST_AFTER;
                    "the watch ended".to_owned()
                }
                None => {
                    refusals = RELIST_AFTER;
                    format!("no answer within {} s", LIST_PATIENCE.as_secs())
                }
            };
            health.fails(&failure);
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

fn reason(error: &Error) -> String {
    match error {
        Error::InitialListFailed(error) | Error::WatchStartFailed(error) | Error::WatchFailed(error) => {
            cause(error)
        }
        Error::WatchError(status) => format!("{} ({})", status.message, status.code),
        Error::NoResourceVersion => "an answer without resourceVersion".to_owned(),
    }
}

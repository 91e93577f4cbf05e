//! The watch of the own Node: labels, taints and pod networks change from outside.

use std::time::Duration;

use futures_util::TryStreamExt as _;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{ListParams, WatchEvent};
use tokio::time::Instant;

use super::seen::Seen;
use crate::backoff::Backoff;
use crate::client::{ApiClient, ApiError, Watch};
use crate::problem::Problems;

/// A watch that ends earlier was not ended by its timeout.
const SHORTEST: Duration = Duration::from_secs(1);

/// Lists and watches the Node until the task ends.
pub(super) async fn watch(client: ApiClient, name: String, seen: Seen) {
    let problems = Problems::new("node watch");
    let watcher = Watcher {
        api: Api::all(client.kube()),
        fields: format!("metadata.name={name}"),
        action: format!("watch Node {name}"),
        client,
        seen,
    };
    let mut backoff = Backoff::of_watch();
    let mut version = None;
    loop {
        let began = Instant::now();
        match watcher.round(&mut version, &problems).await {
            Ok(()) if began.elapsed() >= SHORTEST => backoff.reset(),
            // A server or proxy that ends each watch at once is not asked without a pause.
            Ok(()) => tokio::time::sleep(backoff.after_failure()).await,
            Err(error) => {
                // The version may be the cause; a list of one object costs little.
                version = None;
                problems.failed(error);
                tokio::time::sleep(backoff.after_failure()).await;
            }
        }
    }
}

struct Watcher {
    client: ApiClient,
    api: Api<Node>,
    fields: String,
    action: String,
    seen: Seen,
}

impl Watcher {
    /// One watch, after a list if no resource version is known.
    async fn round(&self, version: &mut Option<String>, problems: &Problems) -> Result<(), ApiError> {
        let from = match version.take() {
            Some(known) => known,
            None => self.list().await?,
        };
        let from = version.insert(from).clone();
        let watch = Watch { fields: &self.fields, version: &from };
        let stream = self.client.watch(&self.action, &self.api, watch).await?;
        problems.solved();
        let mut stream = std::pin::pin!(stream);
        while let Some(event) = stream.try_next().await? {
            match event {
                WatchEvent::Added(node) | WatchEvent::Modified(node) => {
                    version.clone_from(&node.metadata.resource_version);
                    self.seen.saw(node);
                }
                WatchEvent::Deleted(node) => {
                    version.clone_from(&node.metadata.resource_version);
                    self.seen.gone();
                }
                WatchEvent::Bookmark(bookmark) => {
                    *version = Some(bookmark.metadata.resource_version);
                }
                WatchEvent::Error(_) => {}
            }
        }
        Ok(())
    }

    /// Lists the Node; the resource version to watch from.
    async fn list(&self) -> Result<String, ApiError> {
        let params = ListParams::default().fields(&self.fields);
        let list = self.client.call(&self.action, self.api.list(&params)).await?;
        match list.items.into_iter().next() {
            Some(node) => self.seen.listed(node),
            None => self.seen.gone(),
        }
        Ok(list.metadata.resource_version.unwrap_or_default())
    }
}

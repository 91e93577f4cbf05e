//! Watches: streams of events that end after a minute, so that a dead connection is noticed.

use std::fmt::Debug;
use std::time::Duration;

use futures_util::{Stream, StreamExt as _};
use kube::Api;
use kube::api::{WatchEvent, WatchParams};
use serde::de::DeserializeOwned;

use super::{ApiClient, ApiError};

/// The time after which the server ends a watch.
const WATCH_SECONDS: u32 = 60;
/// The longest silence: a server that is there has ended the watch by then.
const SILENCE: Duration = Duration::from_secs(65);

impl ApiClient {
    /// Watches objects from a resource version on. The stream ends after a minute at most; the caller then opens
    /// another from the last resource version.
    ///
    /// # Errors
    /// If the watch cannot be opened; later errors are items of the stream. After [`super::ErrorKind::Gone`] the
    /// objects have to be listed again.
    pub async fn watch<K>(
        &self,
        action: &str,
        api: &Api<K>,
        from: Watch<'_>,
    ) -> Result<impl Stream<Item = Result<WatchEvent<K>, ApiError>> + use<K>, ApiError>
    where
        K: Clone + DeserializeOwned + Debug,
    {
        let params = WatchParams::default().timeout(WATCH_SECONDS).fields(from.fields);
        let stream = self.call(action, api.watch(&params, from.version)).await?;
        let (client, action) = (self.clone(), action.to_owned());
        let state = Some((Box::pin(stream), client, action));
        Ok(futures_util::stream::unfold(state, async |state| {
            let (mut stream, client, action) = state?;
            match tokio::time::timeout(SILENCE, stream.next()).await {
                Ok(None) => None,
                Ok(Some(Ok(event))) => Some((client.event(&action, event), Some((stream, client, action)))),
                Ok(Some(Err(error))) => Some((Err(ApiError::new(&action, &error, &client.identity)), None)),
                Err(_) => Some((Err(ApiError::timeout(&action, SILENCE, &client.identity)), None)),
            }
        }))
    }

    /// An error that comes as an event is an error.
    fn event<K>(&self, action: &str, event: WatchEvent<K>) -> Result<WatchEvent<K>, ApiError> {
        match event {
            WatchEvent::Error(status) => {
                Err(ApiError::new(action, &kube::Error::Api(status), &self.identity))
            }
            event => Ok(event),
        }
    }
}

/// What to watch, and from where on.
#[derive(Debug, Clone, Copy)]
pub struct Watch<'a> {
    /// The field selector: `metadata.name=worker-1`.
    pub fields: &'a str,
    /// The resource version of the last list or event.
    pub version: &'a str,
}

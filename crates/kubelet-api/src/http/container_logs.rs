use std::sync::Arc;

use hyper::StatusCode;
use k8s_openapi::jiff::Timestamp;

use super::answer::{Answer, pieces};
use super::handler::{Handler, Refused};
use crate::logs::{LogQuery, LogRequest, LogStream, QueryError, choose, open};

/// Whose log is wanted.
#[derive(Debug, Clone, Copy)]
pub(super) struct LogPath<'a> {
    pub(super) namespace: &'a str,
    pub(super) pod: &'a str,
    pub(super) container: &'a str,
}

impl Handler {
    /// The log of a container for a user.
    pub(super) async fn container_log(
        &self,
        of: LogPath<'_>,
        query: &str,
        user: &str,
    ) -> Result<Answer, Refused> {
        let query = LogQuery::parse(query, Timestamp::now()).map_err(|error| match error {
            QueryError::Undecodable => {
                Refused::new(StatusCode::BAD_REQUEST, r#"{"message": "Unable to decode query."}"#)
            }
            QueryError::Invalid => {
                Refused::new(StatusCode::UNPROCESSABLE_ENTITY, r#"{"message": "Invalid request."}"#)
            }
        })?;
        let LogPath { namespace, pod, container } = of;
        let found = self.find(namespace, pod).await?;
        let missing = |words: String| Refused::new(StatusCode::NOT_FOUND, words);
        let found = found.ok_or_else(|| missing(format!("pod {pod:?} does not exist")))?;
        if found.container(container).is_none() {
            return Err(missing(format!("container {container:?} not found in pod {pod:?}")));
        }
        if query.stream != LogStream::All && !self.splits_streams {
            let stream = format!("{:?}", query.stream);
            let words = format!(
                "unable to return the given log stream: {stream:?}. Please enable PodLogsQuerySplitStreams feature gate in kubelet"
            );
            return Err(Refused::new(StatusCode::BAD_REQUEST, words));
        }
        let refused = |words: String| Refused::new(StatusCode::BAD_REQUEST, words);
        let place = self.logs.take_of_pod(user, namespace, pod)?;
        let attempt = choose(&found, pod, container, query.previous).map_err(refused)?;
        let request = LogRequest {
            namespace: namespace.to_owned(),
            pod: pod.to_owned(),
            container: container.to_owned(),
            attempt,
            query,
        };
        let opened = open(request, found.logs, Arc::clone(&self.shown.pods), place).await;
        let failed = |error| {
            refused(format!("failed to read the log of container {container:?} in pod {pod:?}: {error}"))
        };
        Ok(pieces(opened.map_err(failed)?))
    }
}

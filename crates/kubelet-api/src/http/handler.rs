use std::sync::Arc;

use hyper::body::{Bytes, Incoming};
use hyper::{Method, Request, StatusCode};
use k8s_openapi::jiff::Timestamp;
use secure_serving::{Answers, BoxFuture, Decided};
use serde_json::json;
use telemetry::metrics::{CONTENT_TYPE, Registry};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio_rustls::rustls::pki_types::CertificateDer;
use tracing::{error, warn};

use super::answer::{Answer, no_path, only_get, pieces, text, typed, unauthorized};
use super::healthz;
use super::metrics::RequestMetrics;
use super::path::{decoded, form};
use super::route::Route;
use super::sessions::Kind;
use crate::auth::{Attributes, Auth, Credentials, Refusal};
use crate::health::SyncLoop;
use crate::logs::{LogQuery, LogRequest, LogStream, QueryError, choose, open};
use crate::pods::{Pods, ServedPod};
use crate::streams::Streams;
use crate::usage::{Detail, Usage, resource_metrics, summary};

const JSON: &str = "application/json";

/// Answers the requests of port 10250.
pub(crate) struct Handler {
    pub(crate) auth: Auth,
    pub(crate) pods: Arc<dyn Pods>,
    pub(crate) registry: Registry,
    pub(crate) metrics: RequestMetrics,
    pub(crate) sync_loop: SyncLoop,
    /// What the node and its pods use.
    pub(crate) usage: Arc<dyn Usage>,
    /// How many requests for it may wait at once.
    pub(crate) usage_turns: UsageTurns,
    /// The configuration, as `/configz` answers it.
    pub(crate) configz: Bytes,
    /// How many logs may be read at once.
    pub(crate) log_turns: Arc<Semaphore>,
    /// The runtime, for sessions.
    pub(crate) streams: Arc<dyn Streams>,
    /// How many sessions may be open at once.
    pub(crate) session_turns: Arc<Semaphore>,
    /// Whether logs, exec and their like are served.
    pub(crate) has_debugging: bool,
    /// Whether one of the streams of a log can be wanted.
    pub(crate) splits_streams: bool,
}

/// How many requests of each path may wait for a read of all pods, or for the runtime: a client with the right to one of these
/// paths cannot keep the others from being answered.
pub(crate) struct UsageTurns {
    summary: Semaphore,
    resource: Semaphore,
    containers: Semaphore,
}

impl UsageTurns {
    const EACH: usize = 8;

    pub(crate) fn new() -> Self {
        let [summary, resource, containers] = [(); 3].map(|()| Semaphore::new(Self::EACH));
        Self { summary, resource, containers }
    }
}

/// A turn, if there is one.
fn turn(of: &Semaphore) -> Result<SemaphorePermit<'_>, Refused> {
    let words = "too many requests for this wait for their answer; try again later";
    of.try_acquire().map_err(|_| Refused::new(StatusCode::TOO_MANY_REQUESTS, words))
}

impl Answers for Handler {
    fn answer<'a>(
        &'a self,
        request: &'a mut Request<Incoming>,
        certificates: &'a [CertificateDer<'static>],
        allowed: Box<dyn FnOnce() + Send + 'a>,
    ) -> BoxFuture<'a, Decided> {
        Box::pin(self.decide(request, certificates, allowed))
    }
}

impl Handler {
    /// Answers a request. Its body is not read before the client is authorized; `allowed` is called then.
    async fn decide(
        &self,
        request: &mut Request<Incoming>,
        certificates: &[CertificateDer<'static>],
        allowed: impl FnOnce(),
    ) -> Decided {
        // What is authorized is what is routed: one path, decoded once.
        let path = decoded(request.uri().path()).into_owned();
        let method = request.method().clone();
        let _counted = self.metrics.begin(method.as_str(), &path);
        let attributes = Attributes::of(method.as_str(), &path);
        let credentials = Credentials { certificates, headers: request.headers() };
        if let Err(refusal) = self.auth.check(credentials, &attributes).await {
            let answer = match refusal {
                Refusal::Unauthorized => unauthorized(request.version()),
                Refusal::Forbidden(words) => text(StatusCode::FORBIDDEN, words),
                Refusal::Unknown(words) => text(StatusCode::INTERNAL_SERVER_ERROR, words),
            };
            return Decided { answer, is_allowed: false, tunnel: None };
        }
        allowed();
        let query = request.uri().query().unwrap_or_default().to_owned();
        let route = Route::of(&path, self.has_debugging);
        let session = match route {
            Route::Exec(of) => Some(Kind::Exec(of)),
            Route::Attach(of) => Some(Kind::Attach(of)),
            Route::PortForward(of) => Some(Kind::PortForward(of)),
            _ => None,
        };
        if let Some(kind) = session {
            let opened = self.session(request, kind, &query).await;
            let (answer, tunnel) = opened.unwrap_or_else(|refused| (refused.answer(), None));
            return Decided { answer, is_allowed: true, tunnel };
        }
        let answer = match route {
            Route::Unknown => no_path(),
            Route::Disabled => text(StatusCode::METHOD_NOT_ALLOWED, "Debug endpoints are disabled.\n"),
            Route::Unserved(name) => {
                let words = format!("wardlet agent does not serve /{name}\n");
                text(StatusCode::NOT_FOUND, words)
            }
            Route::Summary if [Method::GET, Method::POST].contains(&method) => {
                self.summary(&query).await.unwrap_or_else(Refused::answer)
            }
            Route::Run(of) => self.run(&method, of, &query).await.unwrap_or_else(Refused::answer),
            _ if method != Method::GET => only_get(),
            Route::Healthz(check) => healthz::answer(check, &query, &self.sync_loop),
            Route::Pods => self.pods().await,
            Route::RunningPods => self.running_pods().await,
            Route::Metrics => self.gathered().await,
            Route::ResourceMetrics => self.resource_metrics().await.unwrap_or_else(Refused::answer),
            Route::ContainerMetrics => self.container_metrics().await.unwrap_or_else(Refused::answer),
            Route::Configz => typed(StatusCode::OK, JSON, self.configz.clone()),
            Route::ContainerLogs { namespace, pod, container } => {
                let of = LogPath { namespace, pod, container };
                self.logs(of, &query).await.unwrap_or_else(Refused::answer)
            }
            // Answered above.
            Route::Exec(_) | Route::Attach(_) | Route::PortForward(_) | Route::Summary => no_path(),
        };
        Decided { answer, is_allowed: true, tunnel: None }
    }

    async fn pods(&self) -> Answer {
        self.list(|pods| pods.list()).await
    }

    async fn running_pods(&self) -> Answer {
        self.list(|pods| pods.running()).await
    }

    async fn list(&self, read: fn(&dyn Pods) -> Vec<serde_json::Value>) -> Answer {
        let pods = Arc::clone(&self.pods);
        let list = blocking(move || {
            json!({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": read(&*pods)}).to_string()
        });
        list.await.map_or_else(|answer| *answer, |list| typed(StatusCode::OK, JSON, list))
    }

    async fn summary(&self, query: &str) -> Result<Answer, Refused> {
        let _turn = turn(&self.usage_turns.summary)?;
        let is_short = only_cpu_and_memory(query);
        let detail = if is_short { Detail::Rates } else { Detail::All };
        let read = self.usage.read(detail).await;
        let node = read.map_err(|words| Refused::new(StatusCode::INTERNAL_SERVER_ERROR, words))?;
        let body = blocking(move || summary(&node, is_short).to_string()).await;
        Ok(body.map_or_else(|answer| *answer, |body| typed(StatusCode::OK, JSON, body)))
    }

    async fn container_metrics(&self) -> Result<Answer, Refused> {
        let _turn = turn(&self.usage_turns.containers)?;
        let read = self.usage.container_metrics().await;
        let all = read.map_err(|words| Refused::new(StatusCode::INTERNAL_SERVER_ERROR, words))?;
        Ok(typed(StatusCode::OK, CONTENT_TYPE, all))
    }

    async fn resource_metrics(&self) -> Result<Answer, Refused> {
        let _turn = turn(&self.usage_turns.resource)?;
        let read = self.usage.read(Detail::CpuAndMemory).await;
        if let Err(words) = &read {
            warn!("what containers use cannot be read: {words}");
        }
        let body = blocking(move || resource_metrics(read.as_ref().map_err(|_| ()))).await;
        Ok(body.map_or_else(|answer| *answer, |body| typed(StatusCode::OK, CONTENT_TYPE, body)))
    }

    async fn gathered(&self) -> Answer {
        let registry = self.registry.clone();
        let all = blocking(move || registry.text());
        all.await.map_or_else(|answer| *answer, |all| typed(StatusCode::OK, CONTENT_TYPE, all))
    }

    async fn logs(&self, of: LogPath<'_>, query: &str) -> Result<Answer, Refused> {
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
        let Ok(turn) = Arc::clone(&self.log_turns).try_acquire_owned() else {
            let words = "too many logs are being read on this node; try again later";
            return Err(Refused::new(StatusCode::TOO_MANY_REQUESTS, words));
        };
        let attempt = choose(&found, pod, container, query.previous).map_err(refused)?;
        let request = LogRequest {
            namespace: namespace.to_owned(),
            pod: pod.to_owned(),
            container: container.to_owned(),
            attempt,
            query,
        };
        let opened = open(request, found.logs, Arc::clone(&self.pods), turn).await;
        let failed = |error| {
            refused(format!("failed to read the log of container {container:?} in pod {pod:?}: {error}"))
        };
        Ok(pieces(opened.map_err(failed)?))
    }

    pub(super) async fn find(&self, namespace: &str, pod: &str) -> Result<Option<ServedPod>, Refused> {
        let (pods, namespace, pod) = (Arc::clone(&self.pods), namespace.to_owned(), pod.to_owned());
        let found = tokio::task::spawn_blocking(move || pods.find(&namespace, &pod)).await;
        found.map_err(|error| Refused::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))
    }
}

/// Whether a query for the summary asks for CPU and memory alone: by one value, and no other word for it.
fn only_cpu_and_memory(query: &str) -> bool {
    let pairs = form(query);
    let mut values = pairs.iter().filter(|(name, _)| name == "only_cpu_and_memory").map(|(_, value)| value);
    values.next().is_some_and(|value| value == "true") && values.next().is_none()
}

/// Whose log is wanted.
struct LogPath<'a> {
    namespace: &'a str,
    pod: &'a str,
    container: &'a str,
}

/// Why there is no log or session.
pub(super) struct Refused {
    status: StatusCode,
    words: String,
}

impl Refused {
    pub(super) fn new(status: StatusCode, words: impl Into<String>) -> Self {
        Self { status, words: words.into() }
    }

    fn answer(self) -> Answer {
        text(self.status, self.words)
    }
}

async fn blocking(work: impl FnOnce() -> String + Send + 'static) -> Result<String, Box<Answer>> {
    tokio::task::spawn_blocking(work).await.map_err(|cause| {
        error!("a request ended early: {cause}");
        Box::new(text(StatusCode::INTERNAL_SERVER_ERROR, "Internal Server Error"))
    })
}

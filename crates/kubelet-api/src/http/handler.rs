use std::sync::Arc;

use hyper::body::{Bytes, Incoming};
use hyper::header::{CONNECTION, HeaderValue, IF_NONE_MATCH};
use hyper::{Method, Request, StatusCode, Version};
use k8s_openapi::jiff::Timestamp;
use serde_json::json;
use telemetry::metrics::{CONTENT_TYPE, Registry};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio_rustls::rustls::pki_types::CertificateDer;
use tracing::{error, warn};

use super::answer::{Answer, no_path, only_get, pieces, text, typed};
use super::document::{document, moved};
use super::healthz;
use super::metrics::RequestMetrics;
use super::path::{decoded, form};
use super::route::Route;
use super::sessions::Kind;
use crate::auth::{Attributes, Auth, Credentials, Refusal};
use crate::health::SyncLoop;
use crate::logs::{LogQuery, LogRequest, LogStream, QueryError, choose, open};
use crate::page::Page;
use crate::pods::{Pods, ServedPod};
use crate::streams::{Streams, Tunnel};
use crate::usage::{Detail, Usage, resource_metrics, summary};

const JSON: &str = "application/json";

/// Answers the requests of port 10250, and of a port for the page alone.
pub(crate) struct Handler {
    /// Which paths this port serves.
    pub(crate) paths: Paths,
    pub(crate) auth: Arc<Auth>,
    pub(crate) pods: Arc<dyn Pods>,
    pub(crate) registry: Registry,
    pub(crate) metrics: RequestMetrics,
    pub(crate) sync_loop: SyncLoop,
    /// What the node and its pods use.
    pub(crate) usage: Arc<dyn Usage>,
    /// How many requests for it may wait at once.
    pub(crate) usage_turns: UsageTurns,
    /// The page of this node, if it is served.
    pub(crate) page: Option<Arc<dyn Page>>,
    /// How many requests for it may wait at once.
    pub(crate) page_turns: Semaphore,
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

/// Which paths a port serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Paths {
    /// Those of a kubelet, and the page.
    All,
    /// The page alone.
    Page,
}

/// How many requests of each path may wait for a read of all pods, or for the runtime: a client with the right to one of these
/// paths cannot keep the others from being answered.
pub(crate) struct UsageTurns {
    summary: Semaphore,
    resource: Semaphore,
    containers: Semaphore,
}

impl UsageTurns {
    pub(crate) const EACH: usize = 8;

    pub(crate) fn new() -> Self {
        let [summary, resource, containers] = [(); 3].map(|()| Semaphore::new(Self::EACH));
        Self { summary, resource, containers }
    }
}

/// A turn, if there is one.
pub(super) fn turn(of: &Semaphore) -> Result<SemaphorePermit<'_>, Refused> {
    let words = "too many requests for this wait for their answer; try again later";
    of.try_acquire().map_err(|_| Refused::new(StatusCode::TOO_MANY_REQUESTS, words))
}

/// An answer, and whether the client was allowed to ask.
pub(super) struct Decided {
    pub(super) answer: Answer,
    pub(super) is_allowed: bool,
    /// What becomes of the connection after the answer.
    pub(super) tunnel: Option<Tunnel>,
}

impl Handler {
    /// A handler of the page alone, with the same decisions on users and the same metrics.
    pub(crate) fn of_page(&self) -> Self {
        Self {
            paths: Paths::Page,
            auth: Arc::clone(&self.auth),
            pods: Arc::clone(&self.pods),
            registry: self.registry.clone(),
            metrics: self.metrics.clone(),
            sync_loop: self.sync_loop.clone(),
            usage: Arc::clone(&self.usage),
            usage_turns: UsageTurns::new(),
            page: self.page.clone(),
            page_turns: Semaphore::new(UsageTurns::EACH),
            configz: self.configz.clone(),
            log_turns: Arc::clone(&self.log_turns),
            streams: Arc::clone(&self.streams),
            session_turns: Arc::clone(&self.session_turns),
            has_debugging: self.has_debugging,
            splits_streams: self.splits_streams,
        }
    }

    /// Answers a request. Its body is not read before the client is authorized; `allowed` is called then.
    pub(super) async fn answer(
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
        let route = match (self.paths, Route::of(&path, self.has_debugging)) {
            (Paths::Page, route) if !matches!(route, Route::Page(_)) => Route::Unknown,
            (_, route) => route,
        };
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
            Route::Page(rest) => {
                let known = request.headers().get(IF_NONE_MATCH).cloned();
                self.page(rest, query, known).await.unwrap_or_else(Refused::answer)
            }
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

    async fn page(&self, rest: &str, query: String, known: Option<HeaderValue>) -> Result<Answer, Refused> {
        let Some(page) = self.page.clone() else { return Ok(no_path()) };
        let Some(path) = rest.strip_prefix('/') else { return Ok(moved("wardlet/")) };
        let _turn = turn(&self.page_turns)?;
        let path = path.to_owned();
        let found = tokio::task::spawn_blocking(move || page.document(&path, &query)).await;
        let found =
            found.map_err(|error| Refused::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
        Ok(found.map_or_else(no_path, |found| document(found, known.as_ref())))
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

    pub(super) fn answer(self) -> Answer {
        text(self.status, self.words)
    }
}

/// 401. The connection ends: it has cost enough.
pub(super) fn unauthorized(version: Version) -> Answer {
    let mut answer = text(StatusCode::UNAUTHORIZED, "Unauthorized");
    if version < Version::HTTP_2 {
        answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    answer
}

async fn blocking(work: impl FnOnce() -> String + Send + 'static) -> Result<String, Box<Answer>> {
    tokio::task::spawn_blocking(work).await.map_err(|cause| {
        error!("a request ended early: {cause}");
        Box::new(text(StatusCode::INTERNAL_SERVER_ERROR, "Internal Server Error"))
    })
}

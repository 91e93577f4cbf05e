use std::sync::Arc;
use std::time::Duration;

use hyper::body::{Body as _, Bytes, Incoming};
use hyper::header::{CONNECTION, HeaderMap, HeaderValue};
use hyper::{Method, Request, StatusCode, Version};
use tokio_rustls::rustls::pki_types::CertificateDer;

use super::answer::{Answer, disabled, no_path, only_get, text, typed};
use super::container_logs::LogPath;
use super::metrics::{Port, RequestMetrics};
use super::path::decoded;
use super::places::{Full, Places};
use super::route::Route;
use super::sessions::Kind;
use super::shown::{JSON, Question, Shown};
use crate::auth::{Attributes, Auth, Credentials, Refusal};
use crate::node_logs::NodeLogs;
use crate::pods::ServedPod;
use crate::streams::{Streams, Tunnel};

/// A longer body is refused: no path takes one.
const LONGEST_BODY: u64 = 64 << 10;

/// Answers the requests of port 10250.
pub(crate) struct Handler {
    pub(crate) auth: Auth,
    pub(crate) shown: Arc<Shown>,
    pub(crate) metrics: RequestMetrics,
    /// The configuration, as `/configz` answers it.
    pub(crate) configz: Bytes,
    /// For logs that are read.
    pub(crate) logs: Arc<Places>,
    /// The node's own logs; `None`: they are not served.
    pub(crate) node_logs: Option<NodeLogs>,
    /// The runtime, for sessions.
    pub(crate) streams: Arc<dyn Streams>,
    /// For sessions that are open.
    pub(crate) sessions: Arc<Places>,
    /// A session ends when its runtime's connection carries nothing for this time; `None`: it does not.
    pub(crate) idle: Option<Duration>,
    /// Whether logs, exec and their like are served.
    pub(crate) has_debugging: bool,
    /// Whether WebSockets of clients are bridged to SPDY of the runtime.
    pub(crate) bridges: bool,
    /// Whether one of the streams of a log can be wanted.
    pub(crate) splits_streams: bool,
}

/// An answer, and whether the client was allowed to ask.
pub(super) struct Decided {
    pub(super) answer: Answer,
    pub(super) is_allowed: bool,
    /// What becomes of the connection after the answer.
    pub(super) tunnel: Option<Tunnel>,
}

impl Decided {
    fn refused(answer: Answer) -> Self {
        Self { answer, is_allowed: false, tunnel: None }
    }
}

impl Handler {
    /// Answers a request. Its body is not read before the client is authorized, and is not read at all; `allowed` is called
    /// then with the user, and says whether the user may have another connection.
    pub(super) async fn answer(
        &self,
        request: &mut Request<Incoming>,
        certificates: &[CertificateDer<'static>],
        allowed: impl FnOnce(&str) -> bool,
    ) -> Decided {
        // What is authorized is what is routed: one path, decoded once.
        let path = decoded(request.uri().path()).into_owned();
        let method = request.method().clone();
        let _counted = self.metrics.begin(Port::Secure, method.as_str(), &path);
        let attributes = Attributes::of(method.as_str(), &path);
        let credentials = Credentials { certificates, headers: request.headers() };
        let user = match self.auth.check(credentials, &attributes).await {
            Ok(user) => user.name,
            Err(Refusal::Unauthorized) => return Decided::refused(unauthorized(request.version())),
            Err(Refusal::Forbidden(words)) => return Decided::refused(text(StatusCode::FORBIDDEN, words)),
            Err(Refusal::Unknown(words)) => {
                return Decided::refused(text(StatusCode::INTERNAL_SERVER_ERROR, words));
            }
        };
        if !allowed(&user) {
            let answer = Full::OfUser("connections").answer();
            return Decided::refused(closing(answer, request.version()));
        }
        if request.body().size_hint().lower() > LONGEST_BODY {
            let words = "no path of this port takes a body of this size\n";
            let answer = closing(text(StatusCode::PAYLOAD_TOO_LARGE, words), request.version());
            return Decided { answer, is_allowed: true, tunnel: None };
        }
        let query = request.uri().query().unwrap_or_default().to_owned();
        let question = Question { method: &method, query: &query, user: &user };
        let (answer, tunnel) = match Route::of(&path, self.has_debugging) {
            Route::Exec(of) => self.session(request, Kind::Exec(of), question).await,
            Route::Attach(of) => self.session(request, Kind::Attach(of), question).await,
            Route::PortForward(of) => self.session(request, Kind::PortForward(of), question).await,
            route => (self.routed(route, question).await, None),
        };
        Decided { answer, is_allowed: true, tunnel }
    }

    async fn routed(&self, route: Route<'_>, question: Question<'_>) -> Answer {
        let Question { method, query, user } = question;
        match route {
            Route::Unknown => no_path(),
            Route::Disabled => disabled("Debug endpoints are disabled.\n"),
            Route::Unserved(name) => {
                text(StatusCode::NOT_FOUND, format!("wardlet agent does not serve /{name}\n"))
            }
            Route::Run(of) => self.run(of, question).await.unwrap_or_else(Refused::answer),
            Route::NodeLogs(_) if self.node_logs.is_none() => disabled("logs endpoint is disabled.\n"),
            Route::NodeLogs(_) | Route::Configz | Route::ContainerLogs { .. } if method != Method::GET => {
                only_get()
            }
            Route::NodeLogs(path) => self.node_log(path, user).await.unwrap_or_else(Refused::answer),
            Route::Configz => typed(StatusCode::OK, JSON, self.configz.clone()),
            Route::ContainerLogs { namespace, pod, container } => {
                let of = LogPath { namespace, pod, container };
                self.container_log(of, query, user).await.unwrap_or_else(Refused::answer)
            }
            shown => self.shown.answer(shown, question).await,
        }
    }

    pub(super) async fn find(&self, namespace: &str, pod: &str) -> Result<Option<ServedPod>, Refused> {
        let (pods, namespace, pod) = (Arc::clone(&self.shown.pods), namespace.to_owned(), pod.to_owned());
        let found = tokio::task::spawn_blocking(move || pods.find(&namespace, &pod)).await;
        found.map_err(|error| Refused::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))
    }
}

/// Why there is no log or session: the answer instead.
pub(super) struct Refused(Box<Answer>);

impl From<Full> for Refused {
    fn from(full: Full) -> Self {
        Self(Box::new(full.answer()))
    }
}

impl Refused {
    pub(super) fn new(status: StatusCode, words: impl Into<String>) -> Self {
        Self(Box::new(text(status, words.into())))
    }

    /// With headers that say what the client could ask for instead.
    pub(super) fn offering(mut self, headers: HeaderMap) -> Self {
        self.0.headers_mut().extend(headers);
        self
    }

    pub(super) fn answer(self) -> Answer {
        *self.0
    }
}

/// 401. The connection ends: it has cost enough.
pub(super) fn unauthorized(version: Version) -> Answer {
    closing(text(StatusCode::UNAUTHORIZED, "Unauthorized"), version)
}

/// An answer behind which the connection ends.
fn closing(mut answer: Answer, version: Version) -> Answer {
    if version < Version::HTTP_2 {
        answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    answer
}

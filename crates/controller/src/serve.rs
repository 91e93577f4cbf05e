//! The port of the controller: metrics for callers that the API server allows to read them, and checks of health for all.

use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::{Method, Request, StatusCode, Version};
use kube::Client;
use secure_serving::answer::{Answer, no_path, only_get, text, typed, unauthorized};
use secure_serving::path::decoded;
use secure_serving::{
    Action, Answers, ApiReviews, BoxFuture, CertificateDer, Decided, Decisions, Reviews, Tokens, Ttls, bearer,
};
use telemetry::metrics::{CONTENT_TYPE, Registry};
use tracing::{debug, error, warn};

use crate::shared::Shared;

/// How long the answer about a token counts, and that about a right: as in Kubernetes' own components.
const TOKEN_TTL: Duration = Duration::from_secs(10);
const TTLS: Ttls = Ttls { allowed: Duration::from_secs(10), denied: Duration::from_secs(10) };

/// Answers the requests of the port.
pub(crate) struct Handler {
    registry: Registry,
    shared: Arc<Shared>,
    tokens: Tokens,
    decisions: Decisions,
}

/// Why a request is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Refusal {
    /// 401: there is no valid token.
    Unauthorized,
    /// 403: the user may not do this.
    Forbidden(String),
    /// 500: the API server could not be asked.
    Unknown,
}

impl Handler {
    pub(crate) fn new(registry: Registry, shared: Arc<Shared>, client: Client) -> Self {
        Self::asking(registry, shared, Arc::new(ApiReviews::new(client)))
    }

    fn asking(registry: Registry, shared: Arc<Shared>, reviews: Arc<dyn Reviews>) -> Self {
        let decisions = Decisions::new(Arc::clone(&reviews), TTLS);
        Self { registry, shared, tokens: Tokens::new(reviews, TOKEN_TTL), decisions }
    }

    /// Whether the holder of a token may read a path.
    async fn check(&self, token: Option<&str>, verb: &str, path: &str) -> Result<(), Refusal> {
        let token = token.ok_or(Refusal::Unauthorized)?;
        let user = match self.tokens.user(token).await {
            Ok(Some(user)) => user.authenticated(),
            Ok(None) => return Err(Refusal::Unauthorized),
            Err(cause) => {
                warn!("cannot ask for the user of a token, and the request is refused: {cause}");
                return Err(Refusal::Unknown);
            }
        };
        let action = Action::Path { verb: verb.to_owned(), path: path.to_owned() };
        match self.decisions.is_allowed(&user, action).await {
            Ok(true) => Ok(()),
            Ok(false) => {
                debug!("user {} may not {verb} {path}", user.name);
                Err(Refusal::Forbidden(format!("Forbidden (user={}, verb={verb}, path={path})\n", user.name)))
            }
            Err(cause) => {
                warn!("cannot ask what user {} may do, and the request is refused: {cause}", user.name);
                Err(Refusal::Unknown)
            }
        }
    }

    async fn metrics(&self) -> Answer {
        let registry = self.registry.clone();
        match tokio::task::spawn_blocking(move || registry.text()).await {
            Ok(all) => typed(StatusCode::OK, CONTENT_TYPE, all),
            Err(cause) => {
                error!("a request ended early: {cause}");
                text(StatusCode::INTERNAL_SERVER_ERROR, "Internal Server Error")
            }
        }
    }

    /// Ready once each resource is known, or known to be refused: a missing right keeps nothing else from working.
    fn ready(&self) -> Answer {
        let (is_ready, unread) = self.shared.with(|cluster| (cluster.is_ready(), cluster.unread()));
        let unread: Vec<&str> = unread.into_iter().map(|watched| watched.resource()).collect();
        match (is_ready, unread.join(", ")) {
            (true, names) if names.is_empty() => text(StatusCode::OK, "ok"),
            (true, names) => text(StatusCode::OK, format!("ok, but these cannot be read: {names}\n")),
            (false, names) => {
                text(StatusCode::SERVICE_UNAVAILABLE, format!("these have not been read yet: {names}\n"))
            }
        }
    }

    async fn decide(&self, asked: Asked, allowed: Box<dyn FnOnce() + Send + '_>) -> Decided {
        let Asked { method, path, version, token } = asked;
        let decided = |answer, is_allowed| Decided { answer, is_allowed, tunnel: None };
        // Probes have no credentials; these paths say nothing of the cluster but which resources were read.
        match path.as_str() {
            "/healthz" | "/livez" if method == Method::GET => {
                return decided(text(StatusCode::OK, "ok"), false);
            }
            "/readyz" if method == Method::GET => return decided(self.ready(), false),
            _ => {}
        }
        let verb = method.as_str().to_ascii_lowercase();
        match self.check(token.as_deref(), &verb, &path).await {
            Ok(()) => {}
            Err(Refusal::Unauthorized) => return decided(unauthorized(version), false),
            Err(Refusal::Forbidden(words)) => return decided(text(StatusCode::FORBIDDEN, words), false),
            Err(Refusal::Unknown) => {
                let words = "the API server could not be asked whether this is allowed\n";
                return decided(text(StatusCode::INTERNAL_SERVER_ERROR, words), false);
            }
        }
        allowed();
        let answer = match path.as_str() {
            _ if method != Method::GET => only_get(),
            "/metrics" => self.metrics().await,
            _ => no_path(),
        };
        decided(answer, true)
    }
}

/// A request without its body.
struct Asked {
    method: Method,
    path: String,
    version: Version,
    token: Option<String>,
}

impl Asked {
    fn of(request: &Request<Incoming>) -> Self {
        Self {
            method: request.method().clone(),
            // What is authorized is what is answered: one path, decoded once.
            path: decoded(request.uri().path()).into_owned(),
            version: request.version(),
            token: bearer(request.headers()).map(str::to_owned),
        }
    }
}

impl Answers for Handler {
    fn answer<'a>(
        &'a self,
        request: &'a mut Request<Incoming>,
        _certificates: &'a [CertificateDer<'static>],
        allowed: Box<dyn FnOnce() + Send + 'a>,
    ) -> BoxFuture<'a, Decided> {
        Box::pin(self.decide(Asked::of(request), allowed))
    }
}

#[cfg(test)]
mod tests {
    use conflicts::Rules;
    use secure_serving::{AccessQuestion, User};

    use super::*;
    use crate::cluster::{Cluster, Details};
    use crate::objects::Watched;

    /// An API server that knows one token and one right.
    struct Known;

    impl Reviews for Known {
        fn token(&self, token: String) -> BoxFuture<'_, Result<Option<User>, String>> {
            let user = |name: &str| User { name: name.to_owned(), ..User::default() };
            Box::pin(std::future::ready(match token.as_str() {
                "of-prometheus" => Ok(Some(user("prometheus"))),
                "of-jane" => Ok(Some(user("jane"))),
                "no-server" => Err("no route to host".to_owned()),
                _ => Ok(None),
            }))
        }

        fn access(&self, question: AccessQuestion) -> BoxFuture<'_, Result<bool, String>> {
            let metrics = Action::Path { verb: "get".to_owned(), path: "/metrics".to_owned() };
            let allowed = question.user.name == "prometheus" && question.action == metrics;
            Box::pin(std::future::ready(Ok(allowed)))
        }
    }

    fn handler() -> Handler {
        let cluster = Cluster::new(Rules::default(), Details::Dropped);
        Handler::asking(Registry::default(), Arc::new(Shared::new(cluster)), Arc::new(Known))
    }

    #[tokio::test]
    async fn only_a_user_with_the_right_to_get_the_path_is_answered() {
        let handler = handler();
        for (token, expected) in [
            (Some("of-prometheus"), Ok(())),
            (None, Err(Refusal::Unauthorized)),
            (Some("wrong"), Err(Refusal::Unauthorized)),
            (Some("no-server"), Err(Refusal::Unknown)),
        ] {
            assert_eq!(handler.check(token, "get", "/metrics").await, expected, "{token:?}");
        }
        for (token, verb, path) in [
            ("of-jane", "get", "/metrics"),
            ("of-prometheus", "post", "/metrics"),
            ("of-prometheus", "get", "/other"),
        ] {
            let refused = handler.check(Some(token), verb, path).await;
            assert!(matches!(refused, Err(Refusal::Forbidden(_))), "{token} {verb} {path}");
        }
    }

    #[test]
    fn it_is_ready_when_each_resource_is_known_or_refused() {
        let handler = handler();
        assert_eq!(handler.ready().status(), StatusCode::SERVICE_UNAVAILABLE);
        handler.shared.with(|cluster| {
            for watched in Watched::ALL {
                cluster.begin(watched);
                cluster.finish(watched);
            }
        });
        assert_eq!(handler.ready().status(), StatusCode::OK);
    }
}

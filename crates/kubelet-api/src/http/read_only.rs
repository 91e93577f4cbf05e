use std::net::SocketAddr;
use std::sync::Arc;

use hyper::body::Incoming;
use hyper::{Method, Request};
use tokio::net::TcpListener;

use super::answer::{Answer, disabled, no_path, only_get};
use super::metrics::{Port, RequestMetrics};
use super::path::decoded;
use super::plain::{self, Answers};
use super::route::Route;
use super::shown::{Question, Shown};

/// The most connections to the port.
const CONNECTIONS: usize = 64;

/// The read-only port: what can be seen of a node, without a decision on the client.
pub(crate) struct ReadOnly {
    pub(crate) shown: Arc<Shown>,
    pub(crate) metrics: RequestMetrics,
}

/// Serves the read-only port for ever.
pub(crate) async fn serve_read_only(listener: TcpListener, read_only: ReadOnly) {
    plain::serve(listener, CONNECTIONS, Arc::new(read_only)).await;
}

impl Answers for ReadOnly {
    async fn answer(self: Arc<Self>, request: Request<Incoming>, peer: SocketAddr) -> Answer {
        let path = decoded(request.uri().path()).into_owned();
        let _counted = self.metrics.begin(Port::ReadOnly, request.method().as_str(), &path);
        let query = request.uri().query().unwrap_or_default();
        let user = peer.ip().to_string();
        let question = Question { method: request.method(), query, user: &user };
        match Route::of(&path, false) {
            Route::Disabled => disabled("Debug endpoints are disabled.\n"),
            Route::Unknown | Route::Unserved(_) | Route::Configz => no_path(),
            // A client without an identity changes nothing.
            Route::HealthMetrics if request.method() != Method::GET => only_get(),
            route => self.shown.answer(route, question).await,
        }
    }
}

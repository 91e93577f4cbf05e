use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::{Method, Request, StatusCode};
use tokio::net::TcpListener;
use tracing::warn;

use super::answer::{Answer, no_path, only_get, text};
use super::path::decoded;
use super::plain::{self, Answers};
use super::route::Route;
use super::slis::HealthMetrics;
use crate::health::SyncLoop;

/// How long until the port is tried again.
const RETRY: Duration = Duration::from_secs(5);
const CONNECTIONS: usize = 64;
const STUCK: &str = "the loop that drives all pods has not turned for two minutes";

/// What `/healthz` looks at. Clones are the same.
#[derive(Debug, Clone)]
pub(crate) struct Health {
    pub(crate) sync_loop: SyncLoop,
    pub(crate) metrics: HealthMetrics,
}

impl Health {
    /// Each check with its result.
    fn checks(&self) -> [(&'static str, bool); 2] {
        [("ping", true), ("syncloop", self.sync_loop.is_healthy())]
    }

    /// The answer of `/healthz` or of one of its checks. The results of all checks are counted, as with a kubelet, and that
    /// of a single one is not.
    pub(super) fn check(&self, check: &str, query: &str) -> Answer {
        if check.is_empty() {
            return self.all(query);
        }
        match self.checks().into_iter().find(|(name, _)| *name == check) {
            None => no_path(),
            Some((_, true)) => text(StatusCode::OK, "ok"),
            Some((_, false)) => {
                text(StatusCode::INTERNAL_SERVER_ERROR, format!("internal server error: {STUCK}\n"))
            }
        }
    }

    fn all(&self, query: &str) -> Answer {
        let checks = self.checks();
        checks.iter().for_each(|(name, is_healthy)| self.metrics.checked(name, *is_healthy));
        let line = |(name, is_healthy): &(&str, bool)| {
            if *is_healthy {
                format!("[+]{name} ok\n")
            } else {
                format!("[-]{name} failed: reason withheld\n")
            }
        };
        let list: String = checks.iter().map(line).collect();
        if checks.iter().any(|(_, is_healthy)| !is_healthy) {
            return text(StatusCode::INTERNAL_SERVER_ERROR, format!("{list}healthz check failed\n"));
        }
        let is_verbose = query.split('&').any(|pair| pair.split('=').next() == Some("verbose"));
        let words = if is_verbose { format!("{list}healthz check passed\n") } else { "ok".to_owned() };
        text(StatusCode::OK, words)
    }
}

/// Serves the healthz port, without authentication. An address that cannot be used is tried again: the node works without.
pub(crate) async fn serve_healthz(address: SocketAddr, health: Health) {
    let listener = loop {
        match TcpListener::bind(address).await {
            Ok(listener) => break listener,
            Err(cause) => {
                warn!("cannot listen on {address} for healthz: {cause}; it is tried again");
                tokio::time::sleep(RETRY).await;
            }
        }
    };
    plain::serve(listener, CONNECTIONS, Arc::new(health)).await;
}

impl Answers for Health {
    async fn answer(self: Arc<Self>, request: Request<Incoming>, _: SocketAddr) -> Answer {
        let path = decoded(request.uri().path());
        match Route::of(&path, true) {
            Route::Healthz(_) if request.method() != Method::GET => only_get(),
            Route::Healthz(check) => self.check(check, request.uri().query().unwrap_or_default()),
            _ => no_path(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_that_does_not_turn_is_unhealthy() {
        let of = |sync_loop: SyncLoop| Health { sync_loop, metrics: HealthMetrics::register().unwrap() };
        let (healthy, stuck) = (of(SyncLoop::default()), of(SyncLoop::stuck()));
        for check in ["", "syncloop"] {
            assert_eq!(healthy.check(check, "").status(), StatusCode::OK);
            assert_eq!(stuck.check(check, "").status(), StatusCode::INTERNAL_SERVER_ERROR);
        }
        assert_eq!(stuck.check("ping", "").status(), StatusCode::OK);
        let result = "kubernetes_healthcheck{name=\"syncloop\",type=\"healthz\"}";
        assert!(stuck.metrics.text().contains(&format!("{result} 0\n")));
        stuck.sync_loop.turn();
        assert_eq!(stuck.check("", "verbose").status(), StatusCode::OK);
        assert!(stuck.metrics.text().contains(&format!("{result} 1\n")));
        assert_eq!(stuck.check("other", "").status(), StatusCode::NOT_FOUND);
    }
}

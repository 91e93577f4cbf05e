use std::net::SocketAddr;
use std::sync::Arc;

use hyper::{Method, StatusCode};

use super::answer::{Answer, no_path, only_get, text};
use super::plain::{Asked, Plain, serve_plain};
use super::route::Route;
use crate::health::SyncLoop;

const STUCK: &str = "the loop that drives all pods has not turned for two minutes";

/// The answer of `/healthz` or of one of its checks.
pub(super) fn answer(check: &str, query: &str, sync_loop: &SyncLoop) -> Answer {
    let is_verbose = query.split('&').any(|pair| pair.split('=').next() == Some("verbose"));
    match check {
        "ping" => text(StatusCode::OK, "ok"),
        "syncloop" if sync_loop.is_healthy() => text(StatusCode::OK, "ok"),
        "syncloop" => text(StatusCode::INTERNAL_SERVER_ERROR, format!("internal server error: {STUCK}\n")),
        "" if !sync_loop.is_healthy() => {
            let list = "[+]ping ok\n[-]syncloop failed: reason withheld\nhealthz check failed\n";
            text(StatusCode::INTERNAL_SERVER_ERROR, list)
        }
        "" if is_verbose => text(StatusCode::OK, "[+]ping ok\n[+]syncloop ok\nhealthz check passed\n"),
        "" => text(StatusCode::OK, "ok"),
        _ => no_path(),
    }
}

/// Serves the healthz port, without authentication. An address that cannot be used is tried again: the node works without.
pub(crate) async fn serve_healthz(address: SocketAddr, sync_loop: SyncLoop) {
    serve_plain(address, Arc::new(Healthz(sync_loop))).await;
}

/// What the healthz port answers.
struct Healthz(SyncLoop);

impl Plain for Healthz {
    const NAME: &'static str = "healthz";

    async fn answer(&self, asked: Asked) -> Answer {
        match Route::of(&asked.path, true) {
            Route::Healthz(_) if asked.method != Method::GET => only_get(),
            Route::Healthz(check) => answer(check, &asked.query, &self.0),
            _ => no_path(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_that_does_not_turn_is_unhealthy() {
        let stuck = SyncLoop::stuck();
        for check in ["", "syncloop"] {
            assert_eq!(answer(check, "", &SyncLoop::default()).status(), StatusCode::OK);
            assert_eq!(answer(check, "", &stuck).status(), StatusCode::INTERNAL_SERVER_ERROR);
        }
        assert_eq!(answer("ping", "", &stuck).status(), StatusCode::OK);
        stuck.turn();
        assert_eq!(answer("", "verbose", &stuck).status(), StatusCode::OK);
        assert_eq!(answer("other", "", &stuck).status(), StatusCode::NOT_FOUND);
    }
}

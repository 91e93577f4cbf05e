use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tracing::warn;

use super::answer::{Answer, no_path, only_get, text};
use super::path::decoded;
use super::route::Route;
use super::slots::Slots;
use crate::health::SyncLoop;

/// How long until the port is tried again.
const RETRY: Duration = Duration::from_secs(5);
/// How long the headers of a request may take.
const HEADERS: Duration = Duration::from_secs(10);
const CONNECTIONS: usize = 64;
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
    let listener = loop {
        match TcpListener::bind(address).await {
            Ok(listener) => break listener,
            Err(cause) => {
                warn!("cannot listen on {address} for healthz: {cause}; it is tried again");
                tokio::time::sleep(RETRY).await;
            }
        }
    };
    let slots = Slots::new(CONNECTIONS);
    let mut connections = JoinSet::new();
    loop {
        let Some(permit) = slots.permit().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let (slot, sync_loop) = (slots.take(permit), sync_loop.clone());
                connections.spawn(async move {
                    tokio::select! {
                        () = connection(stream, sync_loop) => {}
                        () = slot.evicted() => {}
                    }
                });
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
        while connections.try_join_next().is_some() {}
    }
}

async fn connection(stream: TcpStream, sync_loop: SyncLoop) {
    let service = service_fn(|request: Request<_>| {
        let answer = plain(&request, &sync_loop);
        async move { Ok::<_, Infallible>(answer) }
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEADERS).max_buf_size(16 << 10);
    // A client that breaks the connection has no answer to get.
    let _ = builder.serve_connection(TokioIo::new(stream), service).await;
}

fn plain(request: &Request<hyper::body::Incoming>, sync_loop: &SyncLoop) -> Answer {
    let path = decoded(request.uri().path());
    match Route::of(&path, true) {
        Route::Healthz(_) if request.method() != Method::GET => only_get(),
        Route::Healthz(check) => answer(check, request.uri().query().unwrap_or_default(), sync_loop),
        _ => no_path(),
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

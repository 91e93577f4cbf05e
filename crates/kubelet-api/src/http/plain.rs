//! Ports without TLS and without authentication, for processes of this node.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{HeaderMap, Method, Request};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tracing::{debug, warn};

use super::answer::Answer;
use super::path::decoded;
use super::slots::Slots;

/// How long until the port is tried again.
const RETRY: Duration = Duration::from_secs(5);
/// How long the headers of a request may take.
const HEADERS: Duration = Duration::from_secs(10);
const CONNECTIONS: usize = 64;

/// What a client asks for.
pub(super) struct Asked {
    pub(super) method: Method,
    /// Without percent-encoding.
    pub(super) path: String,
    pub(super) query: String,
    pub(super) headers: HeaderMap,
}

/// What a port answers.
pub(super) trait Plain: Send + Sync + 'static {
    /// What is served, for the log.
    const NAME: &'static str;

    fn answer(&self, asked: Asked) -> impl Future<Output = Answer> + Send;
}

/// Serves a port. An address that cannot be used is tried again: the node works without.
pub(super) async fn serve_plain<P: Plain>(address: SocketAddr, plain: Arc<P>) {
    let listener = bind(address, P::NAME).await;
    let slots = Slots::new(CONNECTIONS);
    let mut connections = JoinSet::new();
    loop {
        let Some(permit) = slots.permit().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let (slot, plain) = (slots.take(permit), Arc::clone(&plain));
                connections.spawn(async move {
                    tokio::select! {
                        () = connection(stream, plain) => {}
                        () = slot.evicted() => {}
                    }
                });
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
        while connections.try_join_next().is_some() {}
    }
}

async fn bind(address: SocketAddr, name: &str) -> TcpListener {
    let mut is_said = false;
    loop {
        match TcpListener::bind(address).await {
            Ok(listener) => return listener,
            Err(cause) if std::mem::replace(&mut is_said, true) => {
                debug!("cannot listen on {address} for {name}: {cause}");
            }
            Err(cause) => warn!("cannot listen on {address} for {name}: {cause}; it is tried again"),
        }
        tokio::time::sleep(RETRY).await;
    }
}

async fn connection<P: Plain>(stream: TcpStream, plain: Arc<P>) {
    let service = service_fn(move |request: Request<Incoming>| {
        let (plain, asked) = (Arc::clone(&plain), asked(&request));
        async move { Ok::<_, Infallible>(plain.answer(asked).await) }
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEADERS).max_buf_size(16 << 10);
    // A client that breaks the connection has no answer to get.
    let _ = builder.serve_connection(TokioIo::new(stream), service).await;
}

fn asked(request: &Request<Incoming>) -> Asked {
    Asked {
        method: request.method().clone(),
        path: decoded(request.uri().path()).into_owned(),
        query: request.uri().query().unwrap_or_default().to_owned(),
        headers: request.headers().clone(),
    }
}

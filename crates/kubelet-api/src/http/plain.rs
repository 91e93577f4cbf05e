use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::answer::Answer;
use super::slots::{Slot, Slots};

/// How long the headers of a request may take, and how long a connection may be idle.
const HEADERS: Duration = Duration::from_secs(10);
/// The longest time of a connection, and so of an answer that its client takes slowly.
const LONGEST: Duration = Duration::from_mins(5);
/// The greatest size of the headers of a request.
const HEADER_BYTES: usize = 16 << 10;

/// Answers requests of plain HTTP, which need no decision.
pub(super) trait Answers: Send + Sync + 'static {
    /// The answer to a client at this address.
    fn answer(
        self: Arc<Self>,
        request: Request<Incoming>,
        peer: SocketAddr,
    ) -> impl Future<Output = Answer> + Send;
}

/// Serves so many connections at a time, for ever.
pub(super) async fn serve<A: Answers>(listener: TcpListener, most: usize, answers: Arc<A>) {
    let slots = Slots::new(most);
    let mut connections = JoinSet::new();
    loop {
        let Some(permit) = slots.permit().await else { return };
        match listener.accept().await {
            Ok((stream, peer)) => {
                let slot = Arc::new(slots.take(permit));
                let served = connection(stream, peer, Arc::clone(&answers), Arc::clone(&slot));
                connections.spawn(async move {
                    tokio::select! {
                        () = served => {}
                        () = slot.evicted() => {}
                        () = tokio::time::sleep(LONGEST) => {}
                    }
                });
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
        while connections.try_join_next().is_some() {}
    }
}

async fn connection<A: Answers>(stream: TcpStream, peer: SocketAddr, answers: Arc<A>, slot: Arc<Slot>) {
    let service = service_fn(move |request| {
        let (answers, slot) = (Arc::clone(&answers), Arc::clone(&slot));
        async move {
            // One that asks is not silent. Clients of one address share their part of the connections.
            slot.prove(&peer.ip().to_string());
            Ok::<_, Infallible>(answers.answer(request, peer).await)
        }
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEADERS).max_buf_size(HEADER_BYTES);
    // A client that breaks the connection has no answer to get.
    let _ = builder.serve_connection(TokioIo::new(stream), service).await;
}

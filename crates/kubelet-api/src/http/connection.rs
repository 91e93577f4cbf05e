use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tracing::{debug, warn};

use super::answer::Answer;
use super::handler::Handler;

/// More clients wait until one of them has gone.
const CONNECTIONS: usize = 1024;
/// How long a TLS handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How long the headers of a request may take, and how long a connection may be idle.
const HEADERS: Duration = Duration::from_secs(90);
/// A connection without an authorized request ends after this time.
const UNPROVEN: Duration = Duration::from_secs(30);
/// The longest time of a connection, and so of every answer.
const LONGEST: Duration = Duration::from_secs(4 * 3600);
/// The greatest size of the headers of a request.
const HEADER_BYTES: u32 = 64 << 10;
/// Requests at the same time on one connection of HTTP/2.
const STREAMS: u32 = 100;
/// How often it is checked whether a client of HTTP/2 is there.
const PING: Duration = Duration::from_secs(30);

/// A port with TLS.
pub(crate) struct Secure {
    pub(crate) listener: TcpListener,
    pub(crate) tls: TlsAcceptor,
    pub(crate) handler: Arc<Handler>,
}

/// Accepts connections for ever. All of them end when the future is dropped.
pub(crate) async fn serve(secure: Secure) {
    let turns = Arc::new(Semaphore::new(CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        let Ok(permit) = Arc::clone(&turns).acquire_owned().await else { return };
        match secure.listener.accept().await {
            Ok((stream, peer)) => {
                let (tls, handler) = (secure.tls.clone(), Arc::clone(&secure.handler));
                connections.spawn(async move {
                    if let Err(cause) = connection(stream, tls, handler, permit).await {
                        debug!("a connection of {peer} ended: {cause}");
                    }
                });
            }
            Err(cause) => {
                warn!("cannot accept a connection to the kubelet's API: {cause}");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
        while connections.try_join_next().is_some() {}
    }
}

async fn connection(
    stream: TcpStream,
    tls: TlsAcceptor,
    handler: Arc<Handler>,
    _permit: OwnedSemaphorePermit,
) -> Result<(), String> {
    stream.set_nodelay(true).map_err(|error| error.to_string())?;
    let accepted = tokio::time::timeout(HANDSHAKE, tls.accept(stream)).await;
    let stream =
        accepted.map_err(|_| "the TLS handshake took too long")?.map_err(|error| error.to_string())?;
    let (_, session) = stream.get_ref();
    let client = Arc::new(Client {
        handler,
        certificates: session.peer_certificates().unwrap_or_default().to_vec(),
        is_proven: AtomicBool::new(false),
    });
    let is_http2 = session.alpn_protocol() == Some(b"h2");
    let limits = limits(Arc::clone(&client));
    let service = service_fn(move |request| {
        let client = Arc::clone(&client);
        async move { Ok::<_, Infallible>(client.answer(request).await) }
    });
    let stream = TokioIo::new(stream);
    let served = async {
        if is_http2 {
            let mut builder = http2::Builder::new(TokioExecutor::new());
            builder.timer(TokioTimer::new()).max_header_list_size(HEADER_BYTES);
            builder.max_concurrent_streams(STREAMS).keep_alive_interval(PING);
            builder.serve_connection(stream, service).await
        } else {
            let mut builder = http1::Builder::new();
            builder.timer(TokioTimer::new()).header_read_timeout(HEADERS);
            builder.max_buf_size(usize::try_from(HEADER_BYTES).unwrap_or(usize::MAX));
            builder.serve_connection(stream, service).await
        }
    };
    tokio::select! {
        served = served => served.map_err(|error| error.to_string()),
        cause = limits => Err(cause.to_owned()),
    }
}

/// Ends when a connection has lived too long.
async fn limits(client: Arc<Client>) -> &'static str {
    tokio::time::sleep(UNPROVEN).await;
    if !client.is_proven.load(Ordering::Relaxed) {
        return "no request was authorized in time";
    }
    tokio::time::sleep(LONGEST).await;
    "it has lived for too long"
}

/// The client of one connection.
struct Client {
    handler: Arc<Handler>,
    certificates: Vec<CertificateDer<'static>>,
    /// Whether one of its requests was authorized.
    is_proven: AtomicBool,
}

impl Client {
    async fn answer(&self, request: Request<Incoming>) -> Answer {
        let decided = self.handler.answer(&request, &self.certificates).await;
        if decided.is_allowed {
            self.is_proven.store(true, Ordering::Relaxed);
        }
        decided.answer
    }
}

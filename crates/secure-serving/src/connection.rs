//! Connections and their limits.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::{Request, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustix::net::sockopt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tracing::{debug, warn};

use crate::BoxFuture;
use crate::answer::{Answer, unauthorized};
use crate::slots::{Slot, Slots};

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
/// How long a connection is silent before its client is asked whether it is there.
const KEEP_ALIVE: Duration = Duration::from_secs(60);
/// How often it is checked whether a client of HTTP/2 is there.
const PING: Duration = Duration::from_secs(30);

/// What answers the requests of a port.
pub trait Answers: Send + Sync {
    /// Answers a request. Its body is not read before the client is authorized; `allowed` is called then. `certificates`
    /// is the chain of the connection, whose key the client has; it is not verified against any authority.
    fn answer<'a>(
        &'a self,
        request: &'a mut Request<Incoming>,
        certificates: &'a [CertificateDer<'static>],
        allowed: Box<dyn FnOnce() + Send + 'a>,
    ) -> BoxFuture<'a, Decided>;
}

/// An answer, and whether the client was allowed to ask.
pub struct Decided {
    /// The answer.
    pub answer: Answer,
    /// Whether the client was authorized.
    pub is_allowed: bool,
    /// What becomes of the connection after the answer, if it speaks HTTP no more.
    pub tunnel: Option<BoxFuture<'static, ()>>,
}

/// A port with TLS.
pub struct Secure {
    /// The port.
    pub listener: TcpListener,
    /// Its TLS.
    pub tls: Arc<ServerConfig>,
    /// What answers the requests.
    pub answers: Arc<dyn Answers>,
}

/// Accepts connections for ever. All of them end when the future is dropped.
pub async fn serve(secure: Secure) {
    let tls = TlsAcceptor::from(secure.tls);
    let slots = Slots::of_port();
    let mut connections = JoinSet::new();
    loop {
        let Some(permit) = slots.permit().await else { return };
        match secure.listener.accept().await {
            Ok((stream, peer)) => {
                let (tls, answers) = (tls.clone(), Arc::clone(&secure.answers));
                let slot = Arc::new(slots.take(permit));
                connections.spawn(async move {
                    let served = connection(stream, tls, answers, Arc::clone(&slot));
                    let ended = tokio::select! {
                        ended = served => ended,
                        () = slot.evicted() => Err("it made room for a newer one".to_owned()),
                    };
                    if let Err(cause) = ended {
                        debug!("a connection of {peer} ended: {cause}");
                    }
                });
            }
            Err(cause) => {
                warn!("cannot accept a connection: {cause}");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
        while connections.try_join_next().is_some() {}
    }
}

async fn connection(
    stream: TcpStream,
    tls: TlsAcceptor,
    answers: Arc<dyn Answers>,
    slot: Arc<Slot>,
) -> Result<(), String> {
    stream.set_nodelay(true).map_err(|error| error.to_string())?;
    // A client that has vanished is noticed, also if nothing is written to it.
    sockopt::set_socket_keepalive(&stream, true).map_err(|error| error.to_string())?;
    sockopt::set_tcp_keepidle(&stream, KEEP_ALIVE).map_err(|error| error.to_string())?;
    let accepted = tokio::time::timeout(HANDSHAKE, tls.accept(stream)).await;
    let stream =
        accepted.map_err(|_| "the TLS handshake took too long")?.map_err(|error| error.to_string())?;
    let (_, session) = stream.get_ref();
    let client = Arc::new(Client {
        answers,
        certificates: session.peer_certificates().unwrap_or_default().to_vec(),
        slot,
        turn: Semaphore::new(1),
        is_proven: AtomicBool::new(false),
        is_refused: AtomicBool::new(false),
        refusal: Notify::new(),
        tunnel: Mutex::default(),
    });
    let is_http2 = session.alpn_protocol() == Some(b"h2");
    let limits = limits(Arc::clone(&client));
    let (refused, upgraded) = (Arc::clone(&client), Arc::clone(&client));
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
            let mut connection = pin!(builder.serve_connection(stream, service));
            tokio::select! {
                served = &mut connection => return served,
                // As with HTTP/1, a refused client has to connect again.
                () = refused.refusal.notified() => connection.as_mut().graceful_shutdown(),
            }
            connection.await
        } else {
            let mut builder = http1::Builder::new();
            builder.timer(TokioTimer::new()).header_read_timeout(HEADERS);
            builder.max_buf_size(usize::try_from(HEADER_BYTES).unwrap_or(usize::MAX));
            builder.serve_connection(stream, service).with_upgrades().await?;
            let tunnel = upgraded.tunnel.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(tunnel) = tunnel {
                tunnel.await;
            }
            Ok(())
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
    answers: Arc<dyn Answers>,
    certificates: Vec<CertificateDer<'static>>,
    slot: Arc<Slot>,
    /// Until a request is authorized, one is decided on at a time.
    turn: Semaphore,
    /// Whether one of its requests was authorized.
    is_proven: AtomicBool,
    /// Whether its credentials were refused. The connection ends then.
    is_refused: AtomicBool,
    refusal: Notify,
    /// What becomes of the connection when it speaks HTTP no more.
    tunnel: Mutex<Option<BoxFuture<'static, ()>>>,
}

impl Client {
    async fn answer(&self, mut request: Request<Incoming>) -> Answer {
        // The semaphore is never closed.
        let turn = if self.is_proven() { None } else { self.turn.acquire().await.ok() };
        if self.is_refused.load(Ordering::Relaxed) && !self.is_proven() {
            return unauthorized(request.version());
        }
        let turn = turn.filter(|_| !self.is_proven());
        // Before the answer, which may take as long as a command runs.
        let allowed = || {
            self.is_proven.store(true, Ordering::Relaxed);
            self.slot.prove();
            drop(turn);
        };
        let decided = self.answers.answer(&mut request, &self.certificates, Box::new(allowed)).await;
        if decided.tunnel.is_some() {
            *self.tunnel.lock().unwrap_or_else(PoisonError::into_inner) = decided.tunnel;
        }
        if !decided.is_allowed && decided.answer.status() == StatusCode::UNAUTHORIZED && !self.is_proven() {
            self.is_refused.store(true, Ordering::Relaxed);
            self.refusal.notify_one();
        }
        decided.answer
    }

    fn is_proven(&self) -> bool {
        self.is_proven.load(Ordering::Relaxed)
    }
}

//! Asking a runtime.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;
use tonic::transport::Channel;

use crate::v1::image_service_client::ImageServiceClient;
use crate::v1::runtime_service_client::RuntimeServiceClient;
use crate::v1::{StatusRequest, StatusResponse};
use crate::{CallError, Endpoint, Error, LONGEST_MESSAGE, Result, within};

/// How long the first exchange of bytes with a runtime may take: it takes microseconds, and a runtime that takes
/// longer hangs.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// The authority of a connection that has none; upstream's servers refuse an empty one.
const AUTHORITY: &str = "http://localhost";

/// How long a client waits for a server that takes over from another one, see [`Client::connect_to_successors`].
const SUCCESSION: Duration = Duration::from_secs(5);
/// Pause between two attempts.
const PAUSE: Duration = Duration::from_millis(20);

/// A runtime that we can talk to. Clones share one connection.
#[derive(Debug, Clone)]
pub struct Client {
    channel: Channel,
    /// How long another server may take to follow the one that has gone.
    succession: Duration,
    /// The process that listened on the socket when it was last connected to; 0 if it is not known.
    server: Arc<AtomicU32>,
}

impl Client {
    /// Connects to the runtime that listens there. The connection is made again by itself when it breaks.
    ///
    /// # Errors
    /// If there is no such socket, no process listens on it, or the process accepts no connection in time.
    pub async fn connect(endpoint: &Endpoint) -> Result<Self> {
        Self::connect_within(endpoint, Duration::ZERO).await
    }

    /// The same, for a socket on which one process after another serves the same runtime: a connection that breaks is
    /// made again to the next server, once that listens.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub async fn connect_to_successors(endpoint: &Endpoint) -> Result<Self> {
        Self::connect_within(endpoint, SUCCESSION).await
    }

    async fn connect_within(endpoint: &Endpoint, succession: Duration) -> Result<Self> {
        let socket = endpoint.socket().to_owned();
        // The transport hides what the kernel said; this tells it, for the first connection.
        UnixStream::connect(&socket).await.map_err(|source| refused(&socket, &source))?;
        let target = socket.clone();
        // The first connection is not waited for: the caller may be the process that has to serve.
        let waits = Arc::new(AtomicBool::new(false));
        let server = Arc::new(AtomicU32::new(0));
        let known = Arc::clone(&server);
        let connector = tower::service_fn(move |_| {
            let patience = if waits.swap(true, Ordering::Relaxed) { succession } else { Duration::ZERO };
            let (target, known) = (target.clone(), Arc::clone(&known));
            async move {
                let stream = connected(&target, patience).await?;
                known.store(listening_process(&stream).unwrap_or(0), Ordering::Relaxed);
                Ok::<_, io::Error>(TokioIo::new(stream))
            }
        });
        let authority = tonic::transport::Endpoint::from_static(AUTHORITY);
        match tokio::time::timeout(PATIENCE, authority.connect_with_connector(connector)).await {
            Ok(Ok(channel)) => Ok(Self { channel, succession, server }),
            Ok(Err(cause)) => Err(Error::Connect { socket, cause: innermost(&cause) }),
            Err(_) => Err(Error::Silent { socket, seconds: PATIENCE.as_secs() }),
        }
    }

    /// The runtime's verbose status. It is asked for again if the server ended before it answered and another follows.
    ///
    /// # Errors
    /// If the runtime answers with an error, or not before the deadline.
    pub async fn status(&self, deadline: Duration) -> std::result::Result<StatusResponse, CallError> {
        let over = Instant::now() + self.succession;
        loop {
            let request = StatusRequest { verbose: true };
            match within(deadline, "Status", self.runtime().status(request)).await {
                Err(error) if error.is_of_transport() && Instant::now() < over => {
                    tokio::time::sleep(PAUSE).await
                }
                answer => return answer,
            }
        }
    }

    /// Talks over a stream of bytes, such as one half of [`tokio::io::duplex`]; ends with it.
    ///
    /// # Errors
    /// If the other side takes no connection.
    pub async fn over<S>(stream: S) -> Result<Self>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let stream = Arc::new(Mutex::new(Some(stream)));
        let connector = tower::service_fn(move |_| {
            let once = stream.lock().map(|mut stream| stream.take()).ok().flatten();
            async move { once.map(TokioIo::new).ok_or_else(|| io::Error::from(io::ErrorKind::BrokenPipe)) }
        });
        let connecting = tonic::transport::Endpoint::from_static(AUTHORITY);
        let channel = connecting
            .connect_with_connector(connector)
            .await
            .map_err(|cause| Error::Serve { cause: innermost(&cause) })?;
        Ok(Self { channel, succession: Duration::ZERO, server: Arc::default() })
    }

    /// The process of the runtime, as of the last connection; `None` where it is not known: over a stream of bytes, or if process 1
    /// listens for it.
    #[must_use]
    pub fn server_process(&self) -> Option<u32> {
        Some(self.server.load(Ordering::Relaxed)).filter(|process| *process > 1)
    }

    /// Sandboxes and containers.
    #[must_use]
    pub fn runtime(&self) -> RuntimeServiceClient<Channel> {
        RuntimeServiceClient::new(self.channel.clone())
            .max_decoding_message_size(LONGEST_MESSAGE)
            .max_encoding_message_size(LONGEST_MESSAGE)
    }

    /// Images.
    #[must_use]
    pub fn images(&self) -> ImageServiceClient<Channel> {
        ImageServiceClient::new(self.channel.clone())
            .max_decoding_message_size(LONGEST_MESSAGE)
            .max_encoding_message_size(LONGEST_MESSAGE)
    }
}

/// A connection, if a process listens within `patience`.
async fn connected(socket: &Path, patience: Duration) -> io::Result<UnixStream> {
    let over = Instant::now() + patience;
    loop {
        match UnixStream::connect(socket).await {
            Err(e) if is_absent(&e) && Instant::now() < over => tokio::time::sleep(PAUSE).await,
            connected => return connected,
        }
    }
}

fn listening_process(stream: &UnixStream) -> Option<u32> {
    u32::try_from(stream.peer_cred().ok()?.pid()?).ok()
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
}

fn refused(socket: &Path, source: &io::Error) -> Error {
    let socket = socket.to_owned();
    match source.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Error::Absent { socket },
        io::ErrorKind::ConnectionRefused => Error::NobodyListens { socket },
        io::ErrorKind::PermissionDenied => Error::NoRight { socket },
        _ => Error::Connect { socket, cause: source.to_string() },
    }
}

/// "transport error" says nothing: the last cause is the one that does.
fn innermost(error: &dyn std::error::Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

//! Asking a runtime.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;
use tonic::transport::Channel;

use crate::v1::image_service_client::ImageServiceClient;
use crate::v1::runtime_service_client::RuntimeServiceClient;
use crate::{Endpoint, Error, LONGEST_MESSAGE, Result};

/// How long the first exchange of bytes with a runtime may take: it takes microseconds, and a runtime that takes
/// longer hangs.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// The authority of a connection that has none; upstream's servers refuse an empty one.
const AUTHORITY: &str = "http://localhost";

/// A runtime that we can talk to. Clones share one connection.
#[derive(Debug, Clone)]
pub struct Client {
    channel: Channel,
}

impl Client {
    /// Connects to the runtime that listens there. The connection is made again by itself when it breaks.
    ///
    /// # Errors
    /// If there is no such socket, no process listens on it, or the process accepts no connection in time.
    pub async fn connect(endpoint: &Endpoint) -> Result<Self> {
        let socket = endpoint.socket().to_owned();
        // The transport hides what the kernel said; this tells it, for the first connection.
        UnixStream::connect(&socket).await.map_err(|source| refused(&socket, &source))?;
        let target = socket.clone();
        let connector = tower::service_fn(move |_| {
            let target = target.clone();
            async move { UnixStream::connect(target).await.map(TokioIo::new) }
        });
        let authority = tonic::transport::Endpoint::from_static(AUTHORITY);
        match tokio::time::timeout(PATIENCE, authority.connect_with_connector(connector)).await {
            Ok(Ok(channel)) => Ok(Self { channel }),
            Ok(Err(cause)) => Err(Error::Connect { socket, cause: innermost(&cause) }),
            Err(_) => Err(Error::Silent { socket, seconds: PATIENCE.as_secs() }),
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
        Ok(Self { channel })
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

//! The recorder: a CRI endpoint that passes each call on to containerd and writes its request to a file.
//!
//! It does not decode messages, so that nothing that a client sends can be lost in it. All requests of CRI are
//! single messages; responses are passed on as they come, also those that are streams.

use std::convert::Infallible;
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http2::SendRequest;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde::{Deserialize, Serialize};
use tokio::net::{UnixListener, UnixStream};

use crate::cluster::record::Record;
use crate::{Error, Result};

/// Calls whose response names an object that later requests are about.
const NAMING: [&str; 2] =
    ["/runtime.v1.RuntimeService/RunPodSandbox", "/runtime.v1.RuntimeService/CreateContainer"];

/// The length of the frame's head before a gRPC message: a flag and the message's length.
const HEAD: usize = 5;

/// A call as it is written down, one line of JSON each.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// `/runtime.v1.RuntimeService/RunPodSandbox` and the like.
    pub path: String,
    /// The request message in base64.
    pub request: String,
    /// The response message in base64, of calls that make a sandbox or a container and succeeded.
    #[serde(default)]
    pub response: String,
}

impl Call {
    /// The method's name without its service.
    #[must_use]
    pub fn method(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }
}

/// A message in base64, decoded.
///
/// # Errors
/// If it is not base64.
pub fn message(text: &str) -> Result<Vec<u8>> {
    STANDARD.decode(text).map_err(|error| Error::Recording { cause: format!("{text:?}: {error}") })
}

/// The file of calls of a testbed.
#[must_use]
pub fn file(record: &Record) -> PathBuf {
    record.places.data.join("cri-calls.jsonl")
}

/// Serves the testbed `name` until killed.
///
/// # Errors
/// If the socket or the file cannot be made.
pub fn serve(name: &str) -> Result<()> {
    let record = Record::read(name)?;
    let path = file(&record);
    let out = File::options().create(true).append(true).open(&path).map_err(Error::file("open", &path))?;
    let recorder = Arc::new(Recorder { runtime: record.places.containerd_socket(), out: Mutex::new(out) });
    let socket = record.places.recorder_socket();
    // A recorder that was killed leaves its socket.
    let _ = std::fs::remove_file(&socket);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_io().build();
    let failed = |error| Error::file("listen on", &socket)(error);
    runtime.map_err(failed)?.block_on(recorder.listen(&socket)).map_err(failed)
}

struct Recorder {
    /// The socket of the runtime.
    runtime: PathBuf,
    out: Mutex<File>,
}

type Body = BoxBody<Bytes, hyper::Error>;

impl Recorder {
    async fn listen(self: Arc<Self>, socket: &std::path::Path) -> std::io::Result<()> {
        let listener = UnixListener::bind(socket)?;
        loop {
            let (client, _) = listener.accept().await?;
            let recorder = Arc::clone(&self);
            tokio::spawn(async move {
                if let Err(error) = recorder.connection(client).await {
                    eprintln!("a connection ended: {error}");
                }
            });
        }
    }

    /// Serves a connection over one of its own to the runtime.
    async fn connection(self: Arc<Self>, client: UnixStream) -> std::result::Result<(), Failure> {
        let runtime = TokioIo::new(UnixStream::connect(&self.runtime).await?);
        let (sender, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), runtime).await?;
        tokio::spawn(connection);
        let service = hyper::service::service_fn(move |request| {
            let (recorder, sender) = (Arc::clone(&self), sender.clone());
            async move {
                Ok::<_, Infallible>(
                    recorder.call(sender, request).await.unwrap_or_else(|error| refused(&error)),
                )
            }
        });
        let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
        Ok(server.serve_connection(TokioIo::new(client), service).await?)
    }

    async fn call(
        &self,
        mut sender: SendRequest<Full<Bytes>>,
        request: Request<Incoming>,
    ) -> std::result::Result<Response<Body>, Failure> {
        let (head, body) = request.into_parts();
        let path = head.uri.path().to_owned();
        let asked = body.collect().await?.to_bytes();
        let answer = sender.send_request(Request::from_parts(head, Full::new(asked.clone()))).await?;
        if !NAMING.contains(&path.as_str()) {
            self.write(&path, &asked, &[]);
            return Ok(answer.map(BodyExt::boxed));
        }
        let (head, body) = answer.into_parts();
        let whole = body.collect().await?;
        let trailers = whole.trailers().cloned();
        let bytes = whole.to_bytes();
        self.write(&path, &asked, &bytes);
        let body = Full::new(bytes).map_err(|never: Infallible| match never {});
        let trailers = async move { trailers.map(Ok) };
        Ok(Response::from_parts(head, body.with_trailers(trailers).boxed()))
    }

    fn write(&self, path: &str, request: &[u8], response: &[u8]) {
        let message = |bytes: &[u8]| STANDARD.encode(bytes.get(HEAD..).unwrap_or_default());
        let call = Call { path: path.to_owned(), request: message(request), response: message(response) };
        let line = serde_json::to_string(&call).unwrap_or_default();
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = writeln!(out, "{line}") {
            eprintln!("a call to {path} is not recorded: {error}");
        }
    }
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The answer to a call that could not be passed on: gRPC's code 14, unavailable.
fn refused(error: &Failure) -> Response<Body> {
    eprintln!("a call was not passed on: {error}");
    let empty = Full::new(Bytes::new()).map_err(|never: Infallible| match never {}).boxed();
    let mut response = Response::new(empty);
    let headers = response.headers_mut();
    headers.insert("content-type", hyper::header::HeaderValue::from_static("application/grpc"));
    headers.insert("grpc-status", hyper::header::HeaderValue::from_static("14"));
    response
}

//! The HTTP server and the URLs it gives out.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::handler::{AttachRequest, ExecRequest, Handler, PortForwardRequest};
use crate::tokens::{Tokens, Wanted};
use crate::{Error, Result, connection};

/// What every connection shares.
pub(crate) struct Shared {
    pub(crate) handler: Arc<dyn Handler>,
    tokens: Mutex<Tokens>,
}

impl Shared {
    pub(crate) fn tokens(&self) -> MutexGuard<'_, Tokens> {
        // Nothing between lock and unlock leaves the table half changed.
        self.tokens.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Serves exec, attach and port-forward until it is dropped, which ends all its sessions too.
///
/// It speaks plain HTTP: the token in the URL is all that a client needs. Bind it to loopback, as the kubelet, which
/// is the only client, runs on the same host.
pub struct Server {
    address: SocketAddr,
    base: String,
    shared: Arc<Shared>,
    serving: JoinHandle<()>,
}

impl Server {
    /// Listens there (port 0: on any free port) and serves. Needs a tokio runtime.
    ///
    /// # Errors
    /// If the address is taken or not one of this host.
    pub async fn bind(address: SocketAddr, handler: Arc<dyn Handler>) -> Result<Self> {
        let failed = |source| Error::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let shared = Arc::new(Shared { handler, tokens: Mutex::default() });
        let serving = tokio::spawn(connection::accept(listener, Arc::clone(&shared)));
        Ok(Self { address, base: format!("http://{address}"), shared, serving })
    }

    /// Gives out URLs below this one instead, where clients come through something else than our address.
    ///
    /// # Errors
    /// If it is not an HTTP URL, or has a query or fragment.
    pub fn with_base_url(mut self, url: &str) -> Result<Self> {
        let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
        let odd = |c: char| c == '?' || c == '#' || c.is_whitespace() || c.is_control();
        if rest.is_none_or(|rest| rest.is_empty() || rest.starts_with('/') || rest.contains(odd)) {
            return Err(Error::BaseUrl { url: url.to_owned() });
        }
        self.base = url.trim_end_matches('/').to_owned();
        Ok(self)
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A URL at which a client has a minute to run this command, once.
    ///
    /// # Errors
    /// If CRI does not allow the request, or too many URLs are unused.
    pub fn exec(&self, request: ExecRequest) -> Result<String> {
        required("container_id", &request.container)?;
        if request.command.is_empty() {
            return Err(Error::Request { field: "cmd", cause: "a command is needed" });
        }
        streams(request.tty, [request.stdin, request.stdout, request.stderr])?;
        self.url(Wanted::Exec(request))
    }

    /// A URL at which a client has a minute to join this container's streams, once.
    ///
    /// # Errors
    /// If CRI does not allow the request, or too many URLs are unused.
    pub fn attach(&self, request: AttachRequest) -> Result<String> {
        required("container_id", &request.container)?;
        streams(request.tty, [request.stdin, request.stdout, request.stderr])?;
        self.url(Wanted::Attach(request))
    }

    /// A URL at which a client has a minute to open one session for this sandbox's ports.
    ///
    /// # Errors
    /// If CRI does not allow the request, or too many URLs are unused.
    pub fn port_forward(&self, request: PortForwardRequest) -> Result<String> {
        required("pod_sandbox_id", &request.sandbox)?;
        if request.ports.contains(&0) {
            return Err(Error::Request { field: "port", cause: "0 is not a valid port" });
        }
        self.url(Wanted::PortForward(request))
    }

    fn url(&self, wanted: Wanted) -> Result<String> {
        let verb = wanted.verb();
        let token = self.shared.tokens().insert(wanted, Instant::now())?;
        Ok(format!("{}/{verb}/{token}", self.base))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

fn required(field: &'static str, value: &str) -> Result<()> {
    if value.is_empty() { Err(Error::Request { field, cause: "is missing" }) } else { Ok(()) }
}

fn streams(tty: bool, [stdin, stdout, stderr]: [bool; 3]) -> Result<()> {
    if tty && stderr {
        return Err(Error::Request { field: "stderr", cause: "a terminal has no separate error output" });
    }
    if !stdin && !stdout && !stderr {
        return Err(Error::Request { field: "stdin", cause: "one of stdin, stdout and stderr is needed" });
    }
    Ok(())
}

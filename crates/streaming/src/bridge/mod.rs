//! A session between a WebSocket client and a runtime's streaming server that speaks SPDY.
//!
//! Two protocols of `kubectl` are known to no streaming server of a CRI runtime but ours: `v5.channel.k8s.io`, in which a client
//! can close its input, and `SPDY/3.1+portforward.k8s.io`, SPDY inside of WebSocket's messages. What stands between client and
//! runtime, as a kubelet does, answers their handshake itself and speaks SPDY to the runtime.

mod command;
mod ports;

use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, StatusCode};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::command::Role;
use crate::negotiate::{self, Bridged, Refused};

/// The streams of a session: those that the runtime was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Whether the client sends input.
    pub stdin: bool,
    /// Whether it wants the output.
    pub stdout: bool,
    /// Whether it wants the error output; never with a terminal.
    pub stderr: bool,
    /// Whether there is a terminal.
    pub tty: bool,
}

impl Wanted {
    fn roles(self) -> Vec<Role> {
        let Self { stdin, stdout, stderr, tty } = self;
        let roles = [
            (Role::Error, true),
            (Role::Stdin, stdin),
            (Role::Stdout, stdout),
            (Role::Stderr, stderr),
            (Role::Resize, tty),
        ];
        roles.into_iter().filter_map(|(role, is_wanted)| is_wanted.then_some(role)).collect()
    }
}

/// What a session is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A command, or the streams of a container's first process.
    Command(Wanted),
    /// Connections to ports.
    Ports,
}

/// A WebSocket client's session that is bridged to SPDY.
#[derive(Clone, Debug)]
pub struct Bridge {
    purpose: Purpose,
    bridged: Bridged,
}

/// Why a handshake is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The status of the answer.
    pub status: StatusCode,
    /// Its headers.
    pub headers: HeaderMap,
    /// What is wrong, for people.
    pub cause: String,
}

impl From<Refused> for Refusal {
    fn from(refused: Refused) -> Self {
        Self { status: refused.status, headers: map(refused.headers), cause: refused.why }
    }
}

impl Bridge {
    /// The bridge for a request; `None` if it does not ask for one of the two protocols.
    ///
    /// # Errors
    /// If it asks for one, and its handshake is not well formed.
    pub fn of(method: &Method, headers: &HeaderMap, purpose: Purpose) -> Result<Option<Self>, Box<Refusal>> {
        let of = match purpose {
            Purpose::Command(_) => negotiate::Purpose::Command,
            Purpose::Ports => negotiate::Purpose::PortForward,
        };
        let bridged = Bridged::of(method, headers, of).map_err(|refused| Box::new(refused.into()))?;
        Ok(bridged.map(|bridged| Self { purpose, bridged }))
    }

    /// The headers of the answer to the client, whose status is 101.
    #[must_use]
    pub fn answer(&self) -> HeaderMap {
        map(self.bridged.answer.clone())
    }

    /// The headers of the request to the runtime, a POST without a body.
    #[must_use]
    pub fn request(&self) -> HeaderMap {
        map(self.bridged.request.clone())
    }

    /// Passes on what both send, after their handshakes, until the session is over.
    pub async fn run<C, R>(self, client: C, runtime: R)
    where
        C: AsyncRead + AsyncWrite + Send + 'static,
        R: AsyncRead + AsyncWrite + Send + 'static,
    {
        match self.purpose {
            Purpose::Command(wanted) => command::run(client, runtime, wanted).await,
            Purpose::Ports => ports::run(client, runtime).await,
        }
    }
}

fn map(headers: Vec<(HeaderName, String)>) -> HeaderMap {
    let value = |(name, value)| Some((name, HeaderValue::try_from(value).ok()?));
    headers.into_iter().filter_map(value).collect()
}

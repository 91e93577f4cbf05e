//! Passing an upgraded connection on to the runtime.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use hyper::body::{Bytes, Incoming};
use hyper::header::{CONNECTION, HeaderMap, HeaderValue, SEC_WEBSOCKET_PROTOCOL, UPGRADE, USER_AGENT};
use hyper::upgrade::{OnUpgrade, on};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use streaming::bridge::{Bridge, Purpose, Refusal};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, copy, split};
use tracing::debug;

use super::Session;
use super::activity::{Activity, Noted};
use super::dial::{Dialled, Runtime, dial};

/// How long the runtime may take to answer a request for a session.
const DEADLINE: Duration = Duration::from_secs(30);
/// How long both sides may take to hear of the end.
const CLOSING: Duration = Duration::from_secs(5);
/// The headers that the runtime gets: the protocol, not the user.
const PASSED: [&str; 9] = [
    "upgrade",
    "sec-websocket-extensions",
    "sec-websocket-key",
    "sec-websocket-protocol",
    "sec-websocket-version",
    "x-stream-protocol-version",
    "origin",
    "user-agent",
    "accept",
];
/// The subprotocol of WebSockets that carries a bearer token.
const TOKEN_PROTOCOL: &str = "base64url.bearer.authorization.k8s.io.";

/// Passes bytes in both directions until one side has ended.
pub(crate) type Tunnel = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What the runtime has answered.
pub(crate) enum Upgraded {
    /// It speaks the protocol: these are the headers for the client. The tunnel begins when the client has them.
    Switched { headers: HeaderMap, tunnel: Tunnel },
    /// It refuses, with what it would accept.
    Refused { status: StatusCode, headers: HeaderMap, text: Bytes },
}

/// The client's side: its request without the body, and its connection after the answer.
pub(crate) struct Asked {
    pub(crate) method: Method,
    pub(crate) headers: HeaderMap,
    pub(crate) client: OnUpgrade,
}

/// How the client's protocol reaches the runtime.
pub(crate) enum Way {
    /// The runtime speaks it, or refuses it.
    AsItIs,
    /// Over SPDY.
    Bridged(Box<Bridge>),
}

impl Asked {
    /// `None` if the request wants no other protocol.
    pub(crate) fn of(request: &mut Request<Incoming>) -> Option<Self> {
        let asks = request.headers().get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok());
        let asks =
            asks.flat_map(|value| value.split(',')).any(|word| word.trim().eq_ignore_ascii_case("upgrade"));
        (asks && request.headers().contains_key(UPGRADE)).then(|| Self {
            method: request.method().clone(),
            headers: request.headers().clone(),
            client: on(request),
        })
    }

    /// How it reaches the runtime.
    ///
    /// # Errors
    /// If its handshake is not well formed.
    pub(crate) fn way(&self, session: &Session) -> Result<Way, Box<Refusal>> {
        let purpose = match session {
            Session::Exec { wanted, .. } | Session::Attach { wanted, .. } => {
                Purpose::Command((*wanted).into())
            }
            Session::PortForward { .. } => Purpose::Ports,
        };
        let bridge = Bridge::of(&self.method, &self.headers, purpose)?;
        Ok(bridge.map_or(Way::AsItIs, |bridge| Way::Bridged(Box::new(bridge))))
    }
}

/// Asks the runtime for the session at this URL, without the client's credentials. The session ends when the runtime's connection
/// carries nothing for the time `idle`.
///
/// # Errors
/// If the runtime cannot be reached there, or its answer is not HTTP.
pub(crate) async fn open(
    url: &str,
    asked: Asked,
    way: Way,
    idle: Option<Duration>,
) -> Result<Upgraded, String> {
    let (method, headers) = match &way {
        Way::AsItIs => (asked.method, without_credentials(&asked.headers)),
        Way::Bridged(bridge) => {
            let mut headers = bridge.request();
            headers.extend(asked.headers.get(USER_AGENT).map(|value| (USER_AGENT, value.clone())));
            (Method::POST, headers)
        }
    };
    let dialled = tokio::time::timeout(DEADLINE, dial(url, method, headers)).await;
    let dialled = dialled
        .unwrap_or_else(|_| Err(format!("the runtime did not answer within {} s", DEADLINE.as_secs())))?;
    let (headers, runtime) = match dialled {
        Dialled::Refused { status, headers, text } => return Ok(Upgraded::Refused { status, headers, text }),
        Dialled::Switched { headers, runtime } => (headers, runtime),
    };
    let headers = match &way {
        Way::AsItIs => headers,
        Way::Bridged(bridge) => bridge.answer(),
    };
    let tunnel = Box::pin(pass(asked.client, runtime, way, idle));
    Ok(Upgraded::Switched { headers, tunnel })
}

async fn pass(client: OnUpgrade, runtime: Runtime, way: Way, idle: Option<Duration>) {
    let Runtime { upgrade, driving } = runtime;
    let _driving = driving;
    let (client, runtime) = match tokio::try_join!(client, upgrade) {
        Ok((client, runtime)) => (TokioIo::new(client), TokioIo::new(runtime)),
        Err(error) => return debug!("a session did not begin: {error}"),
    };
    let activity = Activity::begin();
    let runtime = Noted { io: runtime, activity: activity.clone() };
    let passing = async {
        match way {
            Way::AsItIs => both_ways(client, runtime).await,
            Way::Bridged(bridge) => bridge.run(client, runtime).await,
        }
    };
    tokio::select! {
        () = passing => {}
        () = activity.idle(idle) => debug!("a session ended: it was idle for too long"),
    }
}

async fn both_ways(client: impl AsyncRead + AsyncWrite, runtime: impl AsyncRead + AsyncWrite) {
    let (mut from_client, mut to_client) = split(client);
    let (mut from_runtime, mut to_runtime) = split(runtime);
    // No protocol of sessions goes on in one direction only.
    let ended = tokio::select! {
        ended = copy(&mut from_client, &mut to_runtime) => ended,
        ended = copy(&mut from_runtime, &mut to_client) => ended,
    };
    if let Err(error) = ended {
        debug!("a session ended: {error}");
    }
    let closing = async { tokio::join!(to_client.shutdown(), to_runtime.shutdown()) };
    let _ = tokio::time::timeout(CLOSING, closing).await;
}

/// The headers for the runtime, which must not see the user. Its server takes no body.
fn without_credentials(headers: &HeaderMap) -> HeaderMap {
    let mut kept = HeaderMap::new();
    for (name, value) in headers.iter().filter(|(name, _)| PASSED.contains(&name.as_str())) {
        if name == SEC_WEBSOCKET_PROTOCOL {
            let words = value.to_str().unwrap_or_default().split(',').map(str::trim);
            let words: Vec<_> = words.filter(|word| !word.starts_with(TOKEN_PROTOCOL)).collect();
            if let Ok(value) = HeaderValue::from_str(&words.join(", ")) {
                kept.append(name.clone(), value);
            }
        } else {
            kept.append(name.clone(), value.clone());
        }
    }
    kept.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_runtime_gets_the_protocol_and_no_credentials() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("authorization", "Bearer secret"),
            ("cookie", "secret"),
            ("host", "node0"),
            ("connection", "Upgrade, Keep-Alive"),
            ("upgrade", "SPDY/3.1"),
            ("x-stream-protocol-version", "v4.channel.k8s.io"),
            ("x-stream-protocol-version", "v3.channel.k8s.io"),
            ("x-forwarded-for", "10.0.0.1"),
            ("x-remote-user", "admin"),
            ("impersonate-user", "admin"),
            ("proxy-authorization", "secret"),
            ("sec-websocket-protocol", "v4.channel.k8s.io, base64url.bearer.authorization.k8s.io.c2VjcmV0"),
            ("content-length", "0"),
        ] {
            headers.append(name, HeaderValue::from_static(value));
        }
        let kept = without_credentials(&headers);
        let mut names: Vec<_> = kept.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
        names.sort_unstable();
        assert_eq!(
            names,
            [
                ("connection", &b"Upgrade"[..]),
                ("sec-websocket-protocol", b"v4.channel.k8s.io"),
                ("upgrade", b"SPDY/3.1"),
                ("x-stream-protocol-version", b"v3.channel.k8s.io"),
                ("x-stream-protocol-version", b"v4.channel.k8s.io"),
            ]
        );
    }
}

//! Passing an upgraded connection on to the runtime.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::header::{CONNECTION, HOST, HeaderMap, HeaderValue, SEC_WEBSOCKET_PROTOCOL, UPGRADE};
use hyper::upgrade::{OnUpgrade, on};
use hyper::{Method, Request, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncWriteExt as _, copy, split};
use tokio::net::TcpStream;
use tracing::debug;

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
/// The headers of a refusal that the client gets.
const OFFERS: [&str; 2] = ["x-accepted-stream-protocol-versions", "sec-websocket-version"];
/// The most bytes of a refusal of the runtime that are passed on.
const REFUSAL: usize = 16 << 10;

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
}

/// Asks the runtime for the session at this URL, in the client's words but without its credentials.
///
/// # Errors
/// If the runtime cannot be reached there, or its answer is not HTTP.
pub(crate) async fn open(url: &str, asked: Asked) -> Result<Upgraded, String> {
    let opened = tokio::time::timeout(DEADLINE, at(url, asked)).await;
    opened.unwrap_or_else(|_| Err(format!("the runtime did not answer within {} s", DEADLINE.as_secs())))
}

async fn at(url: &str, asked: Asked) -> Result<Upgraded, String> {
    let uri: Uri = url.parse().map_err(|error| format!("the runtime's URL cannot be read: {error}"))?;
    let authority = uri.authority().filter(|_| uri.scheme_str() == Some("http"));
    let Some(authority) = authority else {
        return Err(
            "the runtime serves streams with TLS, which is not supported: in containerd's configuration set \
                    enable_tls_streaming to false"
                .to_owned(),
        );
    };
    let host = authority.host().trim_start_matches('[').trim_end_matches(']');
    let stream = TcpStream::connect((host, authority.port_u16().unwrap_or(80))).await;
    let stream =
        stream.map_err(|error| format!("cannot reach the runtime's streams at {authority}: {error}"))?;
    let _ = stream.set_nodelay(true);
    let said = |error: hyper::Error| format!("the runtime's streams at {authority}: {error}");
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(said)?;
    // It ends with the connection, which the tunnel takes over.
    let driving = tokio::spawn(async move {
        if let Err(error) = connection.with_upgrades().await {
            debug!("the connection to the runtime's streams ended: {error}");
        }
    });
    let driving = Driving(driving);
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let mut request = Request::new(Empty::<Bytes>::new());
    *request.method_mut() = asked.method;
    *request.uri_mut() =
        path.parse().map_err(|error| format!("the runtime's URL cannot be read: {error}"))?;
    *request.headers_mut() = without_credentials(&asked.headers);
    if let Ok(host) = HeaderValue::from_str(authority.as_str()) {
        request.headers_mut().insert(HOST, host);
    }
    let mut response = sender.send_request(request).await.map_err(said)?;
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        let (status, mut headers) = (response.status(), HeaderMap::new());
        for name in OFFERS {
            for value in response.headers().get_all(name) {
                headers.append(name, value.clone());
            }
        }
        let body = Limited::new(response.into_body(), REFUSAL).collect().await;
        let text = body.map(http_body_util::Collected::to_bytes).unwrap_or_default();
        return Ok(Upgraded::Refused { status, headers, text });
    }
    let headers = response.headers().clone();
    let runtime = on(&mut response);
    let client = asked.client;
    let tunnel = Box::pin(async move {
        let _driving = driving;
        match tokio::try_join!(client, runtime) {
            Ok((client, runtime)) => {
                let (mut from_client, mut to_client) = split(TokioIo::new(client));
                let (mut from_runtime, mut to_runtime) = split(TokioIo::new(runtime));
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
            Err(error) => debug!("a session did not begin: {error}"),
        }
    });
    Ok(Upgraded::Switched { headers, tunnel })
}

/// Ends a task with its owner.
struct Driving(tokio::task::JoinHandle<()>);

impl Drop for Driving {
    fn drop(&mut self) {
        self.0.abort();
    }
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

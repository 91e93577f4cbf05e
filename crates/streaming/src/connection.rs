//! One TCP connection: its request is matched with what was asked for, then upgraded.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONNECTION, CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::upgrade::OnUpgrade;
use hyper::{Method, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::asking::{Asking, Request, Slot};
use crate::command::Asked;
use crate::negotiate::{Purpose, Refused, Speech, negotiate};
use crate::server::Shared;
use crate::tokens::Wanted;
use crate::websocket::sessions::Subprotocol;
use crate::{spdy, websocket};

/// How long a client may take over its request.
const PATIENCE: Duration = Duration::from_secs(5);

/// No request has more bytes in its line and headers.
const LONGEST_REQUEST: usize = 64 << 10;

/// When a connection cannot be accepted because there are too many files open, trying at once would not help.
const PAUSE: Duration = Duration::from_millis(50);

/// Accepts clients for ever. When this is dropped, their sessions end.
pub(crate) async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut asking = Asking::default();
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        match listener.accept().await {
            Ok((stream, _)) => {
                let slot = asking.join().await;
                let shared = Arc::clone(&shared);
                connections.spawn(async move {
                    let asked = timeout(PATIENCE, admitted(stream, slot, &shared)).await;
                    if let Ok(Some(upgrade)) = asked {
                        upgrade.serve(&shared).await;
                    }
                });
            }
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

/// Answers a request. A client whose request line has a token that is waited for gives its slot back and is not sent
/// away; all others can be, until they have their answer.
async fn admitted(stream: TcpStream, slot: Slot, shared: &Arc<Shared>) -> Option<Upgrade> {
    let is_expected = |token: &str| shared.tokens().is_waiting(token, Instant::now());
    match slot.await_request(&stream, is_expected).await? {
        Request::Expected => ask(stream, shared).await,
        Request::Other(slot) => slot.while_kept(ask(stream, shared)).await.flatten(),
    }
}

/// A connection that was upgraded, and to what.
struct Upgrade {
    io: OnUpgrade,
    speech: Speech,
    wanted: Wanted,
}

/// Answers the client's one request.
async fn ask(stream: TcpStream, shared: &Arc<Shared>) -> Option<Upgrade> {
    let _ = stream.set_nodelay(true);
    let agreed = Arc::new(Mutex::new(None));
    let service = service_fn(|request| {
        let (shared, agreed) = (Arc::clone(shared), Arc::clone(&agreed));
        async move {
            let answered = answer(request, &shared).map(|(upgrade, response)| {
                *agreed.lock().unwrap_or_else(PoisonError::into_inner) = Some(upgrade);
                response
            });
            Ok::<_, Infallible>(answered.unwrap_or_else(refuse))
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(PATIENCE)
        .max_buf_size(LONGEST_REQUEST)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    connection.await.ok()?;
    agreed.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// Uses a token up only for a client with which we can speak: one that falls back to another protocol tries twice.
fn answer(
    mut request: hyper::Request<Incoming>,
    shared: &Shared,
) -> Result<(Upgrade, Response<Full<Bytes>>), Refused> {
    let nothing = || Refused::new(StatusCode::NOT_FOUND, "no such session, or it was used or has expired");
    if request.method() != Method::GET && request.method() != Method::POST {
        return Err(Refused::new(StatusCode::METHOD_NOT_ALLOWED, "GET or POST"));
    }
    // Something in front of us may have added to the path.
    let mut path = request.uri().path().rsplitn(3, '/');
    let (Some(token), Some(verb)) = (path.next(), path.next()) else { return Err(nothing()) };
    let purpose = match verb {
        "exec" | "attach" => Purpose::Command,
        "portforward" => Purpose::PortForward,
        _ => return Err(nothing()),
    };
    let agreed = negotiate(request.method(), request.headers(), purpose)?;
    let mut wanted = shared.tokens().take(verb, token, Instant::now()).ok_or_else(nothing)?;
    if let (Wanted::PortForward(asked), Speech::PortChannels(_)) = (&mut wanted, agreed.speech) {
        asked.ports = ports(&asked.ports, request.uri().query())?;
    }
    let upgrade = Upgrade { io: hyper::upgrade::on(&mut request), speech: agreed.speech, wanted };
    Ok((upgrade, respond(StatusCode::SWITCHING_PROTOCOLS, agreed.headers, String::new())))
}

/// The ports of the request, else those of the URL: `?port=80&port=443` or `?port=80,443`.
fn ports(asked: &[u16], query: Option<&str>) -> Result<Vec<u16>, Refused> {
    let refused = |why: &str| Refused::new(StatusCode::BAD_REQUEST, why);
    let mut ports = asked.to_vec();
    if ports.is_empty() {
        let values = query.unwrap_or_default().split('&').filter_map(|pair| pair.strip_prefix("port="));
        for value in values.flat_map(|values| values.split(',')) {
            match value.parse() {
                Ok(port @ 1..) => ports.push(port),
                _ => return Err(refused("a port is a number from 1 to 65535")),
            }
        }
    }
    // Two channels each, and the last of 256 is no channel.
    match ports.len() {
        1..=127 => Ok(ports),
        0 => Err(refused("no port is named")),
        _ => Err(refused("more than 127 ports")),
    }
}

fn refuse(refused: Refused) -> Response<Full<Bytes>> {
    let mut headers = refused.headers;
    headers.push((CONTENT_TYPE, "text/plain; charset=utf-8".to_owned()));
    headers.push((CONNECTION, "close".to_owned()));
    respond(refused.status, headers, refused.why + "\n")
}

fn respond(status: StatusCode, headers: Vec<(HeaderName, String)>, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    for (name, value) in headers {
        if let Ok(value) = HeaderValue::try_from(value) {
            response.headers_mut().append(name, value);
        }
    }
    response
}

impl Upgrade {
    async fn serve(self, shared: &Shared) {
        let Self { io, speech, wanted } = self;
        let Ok(upgraded) = io.await else { return };
        let (io, handler) = (TokioIo::new(upgraded), &shared.handler);
        match (speech, wanted) {
            (Speech::Channels(coding, closing, verdict), Wanted::Exec(asked)) => {
                let subprotocol = Subprotocol { coding, closing, verdict };
                websocket::sessions::command(io, handler, Asked::Exec(asked), subprotocol).await;
            }
            (Speech::Channels(coding, closing, verdict), Wanted::Attach(asked)) => {
                let subprotocol = Subprotocol { coding, closing, verdict };
                websocket::sessions::command(io, handler, Asked::Attach(asked), subprotocol).await;
            }
            (Speech::Streams(resizing, verdict), Wanted::Exec(asked)) => {
                spdy::sessions::command(io, handler, Asked::Exec(asked), resizing, verdict).await;
            }
            (Speech::Streams(resizing, verdict), Wanted::Attach(asked)) => {
                spdy::sessions::command(io, handler, Asked::Attach(asked), resizing, verdict).await;
            }
            (Speech::PortChannels(coding), Wanted::PortForward(asked)) => {
                websocket::sessions::forward(io, handler, asked, coding).await;
            }
            (Speech::PortTunnel, Wanted::PortForward(asked)) => {
                websocket::sessions::tunnel(io, handler, asked.sandbox).await;
            }
            (Speech::PortStreams, Wanted::PortForward(asked)) => {
                spdy::sessions::forward(io, handler, asked.sandbox).await;
            }
            // A token works for its own verb only, and the verb decides what can be agreed on.
            _ => {}
        }
    }
}

use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::header::{HOST, HeaderMap, HeaderValue};
use hyper::upgrade::{OnUpgrade, on};
use hyper::{Method, Request, Response, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tracing::debug;

/// The headers of a refusal that the client gets.
const OFFERS: [&str; 2] = ["x-accepted-stream-protocol-versions", "sec-websocket-version"];
/// The most bytes of a refusal of the runtime that are passed on.
const REFUSAL: usize = 16 << 10;

/// What the runtime has answered at its URL.
pub(super) enum Dialled {
    Switched { headers: HeaderMap, runtime: Runtime },
    Refused { status: StatusCode, headers: HeaderMap, text: Bytes },
}

/// The runtime's connection, when it is upgraded. What drives it until then ends with this value.
pub(super) struct Runtime {
    pub(super) upgrade: OnUpgrade,
    pub(super) driving: Driving,
}

/// Ends a task with its owner.
pub(super) struct Driving(tokio::task::JoinHandle<()>);

impl Drop for Driving {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Asks for an upgrade at a URL.
pub(super) async fn dial(url: &str, method: Method, headers: HeaderMap) -> Result<Dialled, String> {
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
    let driving = Driving(tokio::spawn(async move {
        if let Err(error) = connection.with_upgrades().await {
            debug!("the connection to the runtime's streams ended: {error}");
        }
    }));
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let mut request = Request::new(Empty::<Bytes>::new());
    *request.method_mut() = method;
    *request.uri_mut() =
        path.parse().map_err(|error| format!("the runtime's URL cannot be read: {error}"))?;
    *request.headers_mut() = headers;
    if let Ok(host) = HeaderValue::from_str(authority.as_str()) {
        request.headers_mut().insert(HOST, host);
    }
    let mut response = sender.send_request(request).await.map_err(said)?;
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        return Ok(refusal(response).await);
    }
    let headers = response.headers().clone();
    let runtime = Runtime { upgrade: on(&mut response), driving };
    Ok(Dialled::Switched { headers, runtime })
}

async fn refusal(response: Response<Incoming>) -> Dialled {
    let (status, mut headers) = (response.status(), HeaderMap::new());
    for name in OFFERS {
        for value in response.headers().get_all(name) {
            headers.append(name, value.clone());
        }
    }
    let body = Limited::new(response.into_body(), REFUSAL).collect().await;
    let text = body.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    Dialled::Refused { status, headers, text }
}

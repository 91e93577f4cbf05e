//! A connection to a URL of a runtime's, upgraded.

use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::header::{CONNECTION, HOST, UPGRADE};
use hyper::upgrade::Upgraded;
use hyper::{Request, Response, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// The longest head of an answer that is read.
const LONGEST_HEAD: usize = 16 << 10;
/// The longest body of a refusal that is read.
const LONGEST_REFUSAL: usize = 4 << 10;
const PROTOCOL: &str = "v4.channel.k8s.io";

/// The URL, if it is of the kind that runtimes give: `http://HOST:PORT/PATH`.
fn parse(url: &str) -> Result<Uri, String> {
    let uri: Uri = url.parse().map_err(|e| format!("this is not a URL: {e}"))?;
    match (uri.scheme_str(), uri.authority()) {
        (Some("http"), Some(_)) => Ok(uri),
        _ => Err("the runtime serves streams in another way than HTTP".to_owned()),
    }
}

/// Connects to the URL and asks for an upgrade to SPDY.
pub(super) async fn upgraded(url: &str) -> Result<TokioIo<Upgraded>, String> {
    let uri = parse(url)?;
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
    let stream = TcpStream::connect((host, uri.port_u16().unwrap_or(80))).await.map_err(|e| e.to_string())?;
    // Keys are pressed one at a time.
    stream.set_nodelay(true).map_err(|e| e.to_string())?;
    let mut client = http1::Builder::new();
    client.max_buf_size(LONGEST_HEAD);
    let (mut sender, connection) = client.handshake(TokioIo::new(stream)).await.map_err(|e| cause(&e))?;
    // The task ends with the connection, or hands it over when it is upgraded.
    tokio::spawn(connection.with_upgrades());
    let response = sender.send_request(request(&uri)?).await.map_err(|e| cause(&e))?;
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        return Err(refusal(response).await);
    }
    hyper::upgrade::on(response).await.map(TokioIo::new).map_err(|e| cause(&e))
}

fn request(uri: &Uri) -> Result<Request<Empty<Bytes>>, String> {
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let host = uri.authority().map_or("", |authority| authority.as_str());
    Request::post(path)
        .header(HOST, host)
        .header(CONNECTION, "Upgrade")
        .header(UPGRADE, "SPDY/3.1")
        .header("X-Stream-Protocol-Version", PROTOCOL)
        .body(Empty::new())
        .map_err(|e| e.to_string())
}

/// What the runtime says instead of an upgrade.
async fn refusal(response: Response<Incoming>) -> String {
    let status = response.status().as_u16();
    let body = Limited::new(response.into_body(), LONGEST_REFUSAL).collect().await;
    let body = body.map(|body| body.to_bytes()).unwrap_or_default();
    format!("the runtime answers {status}: {}", String::from_utf8_lossy(&body).trim())
}

fn cause(error: &hyper::Error) -> String {
    if error.is_parse() { "the runtime's answer is not HTTP".to_owned() } else { error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_one_of_http_with_a_host() {
        assert_eq!(parse("http://127.0.0.1:80/exec/x").unwrap().port_u16(), Some(80));
        assert_eq!(parse("http://[::1]:80").unwrap().host(), Some("[::1]"));
        assert!(parse("https://127.0.0.1/exec").is_err() && parse("http:///x").is_err());
        assert!(parse("http://a/x\r\nHost: b").is_err() && parse("/exec/x").is_err());
    }
}

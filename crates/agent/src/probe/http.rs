//! HTTP probes and hooks: a GET request, judged by the status code of its response.

use http_body_util::{BodyExt as _, Empty};
use hyper::Request;
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::header::{HeaderName, HeaderValue, LOCATION};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

use super::connect::connect;
use super::target::{Scheme, Target};
use super::tls;

/// Maximum size of a response's head.
const LONGEST: usize = 8192;
/// Maximum number of bytes of a redirection's body that are shown. Other bodies are not read.
const SHOWN: usize = 1024;
/// Maximum number of redirections that are followed, as Go's HTTP client has it.
const REDIRECTIONS: u32 = 10;

/// A GET request.
pub(super) struct Get<'a> {
    pub(super) scheme: Scheme,
    pub(super) host: &'a str,
    pub(super) port: u16,
    pub(super) path: &'a str,
    pub(super) headers: &'a [(&'a str, &'a str)],
}

impl Get<'_> {
    /// Sends the request. A status from 200 to 399 is a success. A redirection to the same host is followed; one to another
    /// host, or to none, is a success with a warning, in the kubelet's words. Certificates are not verified.
    ///
    /// # Errors
    /// If the server cannot be reached, its response is not HTTP, its status is another one, or redirections have no end.
    pub(super) async fn ask(&self) -> Result<Option<String>, String> {
        let place = format!("{}://{}:{}{}", self.scheme.text(), self.host, self.port, self.path);
        self.answer().await.map_err(|why| format!("{place}: {why}"))
    }

    async fn answer(&self) -> Result<Option<String>, String> {
        let (host, path) = (self.host.to_owned(), self.path.to_owned());
        let mut target = Target { scheme: self.scheme, host, port: self.port, path };
        for _ in 0..=REDIRECTIONS {
            let response = self.send(&target).await?;
            match response.code {
                200..=299 => return Ok(None),
                300..=399 => match response.next(&target) {
                    Some(next) => target = next,
                    None => {
                        return Ok(Some(format!(
                            "Probe terminated redirects, Response body: {}",
                            response.body
                        )));
                    }
                },
                code => return Err(format!("status {code}")),
            }
        }
        Err(format!("stopped after {REDIRECTIONS} redirects"))
    }

    async fn send(&self, target: &Target) -> Result<Response, String> {
        let Target { scheme, host, port, path } = target;
        let stream = connect(host, *port).await.map_err(|e| e.to_string())?;
        let request = request(host, *port, path, self.headers)?;
        match scheme {
            Scheme::Http => exchange(stream, request).await,
            Scheme::Https => exchange(tls::over(stream, host).await?, request).await,
        }
    }
}

/// What counts of a response.
struct Response {
    code: u16,
    location: Option<String>,
    /// The start of a redirection's body.
    body: String,
}

impl Response {
    async fn read(response: hyper::Response<Incoming>) -> Result<Self, hyper::Error> {
        let location = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
        let (code, location) = (response.status().as_u16(), location.map(str::to_owned));
        let body = if response.status().is_redirection() {
            shown(response.into_body()).await?
        } else {
            String::new()
        };
        Ok(Self { code, location, body })
    }

    /// Where a redirection leads, if the probe follows it.
    fn next(&self, from: &Target) -> Option<Target> {
        let is_followed = matches!(self.code, 301 | 302 | 303 | 307 | 308);
        self.location.as_ref().filter(|_| is_followed).and_then(|location| from.redirected(location))
    }
}

async fn shown(mut body: Incoming) -> Result<String, hyper::Error> {
    let mut bytes = Vec::new();
    while bytes.len() < SHOWN
        && let Some(frame) = body.frame().await
    {
        bytes.extend(frame?.into_data().unwrap_or_default());
    }
    bytes.truncate(SHOWN);
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    request: Request<Empty<Bytes>>,
) -> Result<Response, String> {
    let mut client = http1::Builder::new();
    client.max_buf_size(LONGEST).title_case_headers(true);
    let (mut sender, connection) = client.handshake(TokioIo::new(stream)).await.map_err(|e| cause(&e))?;
    let mut connection = std::pin::pin!(connection);
    let answer = async { Response::read(sender.send_request(request).await?).await };
    let mut answer = std::pin::pin!(answer);
    tokio::select! {
        biased;
        response = &mut answer => response.map_err(|e| cause(&e)),
        // The connection task ends first if the server closes the connection right after its response.
        ended = &mut connection => match ended {
            Ok(()) => answer.await.map_err(|e| cause(&e)),
            Err(error) => Err(cause(&error)),
        },
    }
}

fn cause(error: &hyper::Error) -> String {
    match std::error::Error::source(error) {
        _ if error.is_parse() => "the answer is not HTTP".to_owned(),
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

fn request(
    host: &str,
    port: u16,
    path: &str,
    headers: &[(&str, &str)],
) -> Result<Request<Empty<Bytes>>, String> {
    let slash = if path.starts_with('/') { "" } else { "/" };
    let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
    let mut request = Request::get(format!("{slash}{path}"))
        .header("Connection", "close")
        .body(Empty::new())
        .map_err(|e| format!("the probe's path {path:?} cannot be sent: {e}"))?;
    let all = request.headers_mut();
    // More than a map of headers can hold; adding them without a check panics.
    let too_many = |_| format!("the probe has too many headers: {}", headers.len());
    for (name, value) in headers {
        let invalid = |e: &dyn std::fmt::Display| format!("the probe's header {name:?} cannot be sent: {e}");
        let value = HeaderValue::from_str(value).map_err(|e| invalid(&e))?;
        let name = HeaderName::try_from(*name).map_err(|e| invalid(&e))?;
        all.try_append(name, value).map_err(too_many)?;
    }
    for (name, value) in [
        ("host", format!("{host}:{port}")),
        ("user-agent", "kube-probe/1.37".into()),
        ("accept", "*/*".into()),
    ] {
        if !all.contains_key(name) {
            let value = HeaderValue::from_str(&value).map_err(|e| e.to_string())?;
            all.try_insert(name, value).map_err(too_many)?;
        }
    }
    Ok(request)
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    fn asked(port: u16) -> Get<'static> {
        Get { scheme: Scheme::Http, host: "127.0.0.1", port, path: "/healthz", headers: &[("X-A", "b")] }
    }

    const REDIRECTS: &str = "Probe terminated redirects, Response body: ";

    async fn served(answer: &str) -> Result<Option<String>, String> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut buffer = vec![0; 4096];
            let read = stream.read(&mut buffer).await.unwrap();
            stream.write_all(answer.as_bytes()).await.unwrap();
            String::from_utf8_lossy(&buffer[..read]).into_owned()
        };
        let get = asked(port);
        let (request, outcome) = tokio::join!(server, get.ask());
        assert!(
            request.starts_with("GET /healthz HTTP/1.1\r\n") && request.contains("X-A: b\r\n"),
            "{request}"
        );
        outcome
    }

    #[tokio::test]
    async fn a_status_from_200_to_399_is_well() {
        assert_eq!(served("HTTP/1.1 200 OK\r\n\r\n").await, Ok(None));
        assert_eq!(served("HTTP/1.0 302 Found\r\n\r\n").await, Ok(Some(REDIRECTS.to_owned())));
        assert!(served("HTTP/1.1 500 Oh\r\n\r\n").await.unwrap_err().contains("status 500"));
        assert!(served("SSH-2.0-x\r\n").await.unwrap_err().contains("not HTTP"));
    }

    /// One answer for each request of a probe of `/start`; the paths that were asked for.
    async fn redirected(answers: &[&str]) -> (Vec<String>, Result<Option<String>, String>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = async {
            let mut paths = Vec::new();
            for answer in answers {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut buffer = vec![0; 4096];
                let read = stream.read(&mut buffer).await.unwrap();
                let request = String::from_utf8_lossy(&buffer[..read]).into_owned();
                paths.push(request.split(' ').nth(1).unwrap().to_owned());
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
            paths
        };
        let get = Get { path: "/start", ..asked(port) };
        tokio::join!(server, get.ask())
    }

    #[tokio::test]
    async fn a_redirection_to_the_same_host_is_followed_and_one_to_another_is_well_with_a_warning() {
        let [local, foreign] = ["/healthz", "http://0.0.0.0/"]
            .map(|to| format!("HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 5\r\n\r\nthere"));
        let (paths, outcome) = redirected(&[&local, "HTTP/1.1 500 Oh\r\n\r\n"]).await;
        assert_eq!(paths, ["/start", "/healthz"]);
        assert!(outcome.unwrap_err().contains("status 500"));
        assert_eq!(redirected(&[&local, "HTTP/1.1 200 OK\r\n\r\n"]).await.1, Ok(None));
        assert_eq!(redirected(&[&foreign]).await.1, Ok(Some(format!("{REDIRECTS}there"))));
        let (paths, outcome) = redirected(&[local.as_str(); 11]).await;
        assert_eq!(paths.len(), 11);
        assert!(outcome.unwrap_err().contains("10 redirects"));
    }

    /// A container does not fill the events of the cluster.
    #[tokio::test]
    async fn only_the_start_of_a_redirections_body_is_shown() {
        let answer = "HTTP/1.1 304 Not Modified\r\nConnection: close\r\n\r\n";
        assert_eq!(served(answer).await, Ok(Some(REDIRECTS.to_owned())));
        let long = "x".repeat(64 * SHOWN);
        let answer =
            format!("HTTP/1.1 302 Found\r\nLocation: http://0.0.0.0/\r\nConnection: close\r\n\r\n{long}");
        assert_eq!(served(&answer).await, Ok(Some(format!("{REDIRECTS}{}", &long[..SHOWN]))));
        let cut = "HTTP/1.1 302 Found\r\nLocation: http://0.0.0.0/\r\nContent-Length: 9\r\n\r\nx";
        assert!(served(cut).await.is_err());
    }

    #[test]
    fn what_cannot_be_in_a_request_is_refused_and_not_sent() {
        let with = |path: &str, header| request("127.0.0.1", 80, path, &[header]).map(|_| ());
        assert_eq!(with("healthz?a=b", ("X-A", "b")), Ok(()));
        assert!(with("/a b", ("X-A", "b")).unwrap_err().contains("path \"/a b\""));
        assert!(with("/a\r\nX-B: c", ("X-A", "b")).unwrap_err().contains("path"));
        assert!(with("/", ("X-A", "b\r\nX-B: c")).unwrap_err().contains("header \"X-A\""));
        assert!(with("/", ("X A", "b")).unwrap_err().contains("header \"X A\""));
        let names: Vec<String> = (0..33_000).map(|number| format!("a{number:x}")).collect();
        let many: Vec<_> = names.iter().map(|name| (name.as_str(), "")).collect();
        assert!(request("127.0.0.1", 80, "/", &many).unwrap_err().contains("too many headers: 33000"));
    }
}

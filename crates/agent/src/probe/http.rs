//! One GET, of which nothing but the status counts.

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

use super::tls;

/// Enough for a status line and then some; nobody makes us read more.
const LONGEST: u64 = 8192;

/// Which way a probe asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scheme {
    Http,
    Https,
}

impl Scheme {
    pub(super) fn of(name: Option<&str>) -> Self {
        if name.is_some_and(|name| name.eq_ignore_ascii_case("https")) { Self::Https } else { Self::Http }
    }

    fn text(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }
}

/// What is asked for.
pub(super) struct Get<'a> {
    pub(super) scheme: Scheme,
    pub(super) at: (&'a str, u16),
    pub(super) path: &'a str,
    pub(super) headers: &'a [(&'a str, &'a str)],
}

impl Get<'_> {
    /// Well from 200 to 399. Redirections are not followed, and certificates not looked at.
    pub(super) async fn ask(&self) -> Result<(), String> {
        let (host, port) = self.at;
        let place = format!("{}://{host}:{port}{}", self.scheme.text(), self.path);
        self.answer().await.map_err(|why| format!("{place}: {why}"))
    }

    async fn answer(&self) -> Result<(), String> {
        let stream = TcpStream::connect(self.at).await.map_err(|e| e.to_string())?;
        let request = request(self.at, self.path, self.headers)?;
        let code = match self.scheme {
            Scheme::Http => exchange(stream, &request).await,
            Scheme::Https => exchange(tls::over(stream, self.at.0).await?, &request).await,
        };
        match code? {
            200..=399 => Ok(()),
            code => Err(format!("status {code}")),
        }
    }
}

async fn exchange(mut stream: impl AsyncRead + AsyncWrite + Unpin, request: &str) -> Result<u16, String> {
    stream.write_all(request.as_bytes()).await.map_err(|e| e.to_string())?;
    stream.flush().await.map_err(|e| e.to_string())?;
    let mut answer = Vec::new();
    let mut limited = stream.take(LONGEST);
    while !answer.contains(&b'\n') {
        if limited.read_buf(&mut answer).await.map_err(|e| e.to_string())? == 0 {
            break;
        }
    }
    status(&answer).ok_or_else(|| "the answer is no HTTP".to_owned())
}

fn request(at: (&str, u16), path: &str, headers: &[(&str, &str)]) -> Result<String, String> {
    let is_plain = |text: &str| !text.contains(['\r', '\n']);
    if !is_plain(path) || path.contains(' ') || !headers.iter().all(|(n, v)| is_plain(n) && is_plain(v)) {
        return Err("a line break in the probe's path or headers".to_owned());
    }
    let slash = if path.starts_with('/') { "" } else { "/" };
    let has = |name: &str| headers.iter().any(|(given, _)| given.eq_ignore_ascii_case(name));
    let mut text = format!("GET {slash}{path} HTTP/1.1\r\nConnection: close\r\n");
    let (host, port) = at;
    let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
    for (name, value) in [
        ("Host", format!("{host}:{port}")),
        ("User-Agent", "kube-probe/1.37".into()),
        ("Accept", "*/*".into()),
    ] {
        if !has(name) {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
    }
    headers.iter().for_each(|(name, value)| text.push_str(&format!("{name}: {value}\r\n")));
    Ok(text + "\r\n")
}

fn status(answer: &[u8]) -> Option<u16> {
    let text = String::from_utf8_lossy(answer);
    let mut words = text.lines().next()?.split(' ');
    words.next().filter(|version| version.starts_with("HTTP/1."))?;
    words.next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    fn asked(port: u16) -> Get<'static> {
        Get { scheme: Scheme::Http, at: ("127.0.0.1", port), path: "/healthz", headers: &[("X-A", "b")] }
    }

    async fn served(answer: &'static str) -> Result<(), String> {
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
        assert_eq!(served("HTTP/1.1 200 OK\r\n\r\n").await, Ok(()));
        assert_eq!(served("HTTP/1.0 302 Found\r\n\r\n").await, Ok(()));
        assert!(served("HTTP/1.1 500 Oh\r\n\r\n").await.unwrap_err().contains("status 500"));
        assert!(served("SSH-2.0-x\r\n").await.unwrap_err().contains("no HTTP"));
    }
}

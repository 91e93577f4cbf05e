//! One GET, of which nothing but the status counts.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Enough for a status line and then some; nobody makes us read more.
const LONGEST: u64 = 8192;

/// Well from 200 to 399. Redirections are not followed.
pub(super) async fn get(at: (&str, u16), path: &str, headers: &[(&str, &str)]) -> Result<(), String> {
    let (host, port) = at;
    let failed = |e: std::io::Error| format!("http://{host}:{port}{path}: {e}");
    let mut stream = TcpStream::connect(at).await.map_err(failed)?;
    stream.write_all(request(at, path, headers)?.as_bytes()).await.map_err(failed)?;
    let mut answer = Vec::new();
    let mut limited = (&mut stream).take(LONGEST);
    while !answer.contains(&b'\n') {
        if limited.read_buf(&mut answer).await.map_err(failed)? == 0 {
            break;
        }
    }
    match status(&answer) {
        Some(200..=399) => Ok(()),
        Some(code) => Err(format!("http://{host}:{port}{path}: status {code}")),
        None => Err(format!("http://{host}:{port}{path}: the answer is no HTTP")),
    }
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
        let (request, outcome) = tokio::join!(server, get(("127.0.0.1", port), "/healthz", &[("X-A", "b")]));
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

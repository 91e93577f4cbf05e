//! A connection to a URL of a runtime's, upgraded.

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

const LONGEST_HEAD: u64 = 16 << 10;
const LONGEST_REFUSAL: u64 = 4 << 10;
const PROTOCOL: &str = "v4.channel.k8s.io";

/// The host with its port, and the path: of `http://HOST:PORT/PATH`.
fn parts(url: &str) -> Result<(&str, &str), String> {
    let rest = url.strip_prefix("http://").ok_or("the runtime serves streams in another way than HTTP")?;
    let at = rest.find('/').unwrap_or(rest.len());
    let (host, path) = rest.split_at_checked(at).unwrap_or((rest, ""));
    let is_plain = url.bytes().all(|byte| byte.is_ascii_graphic());
    if host.is_empty() || !is_plain {
        return Err("this is no URL".to_owned());
    }
    Ok((host, if path.is_empty() { "/" } else { path }))
}

pub(super) async fn upgraded(url: &str) -> Result<BufReader<TcpStream>, String> {
    let (host, path) = parts(url)?;
    let address = if host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok()) {
        host.to_owned()
    } else {
        format!("{host}:80")
    };
    let mut stream = TcpStream::connect(address).await.map_err(|e| e.to_string())?;
    // Keys are pressed one at a time.
    stream.set_nodelay(true).map_err(|e| e.to_string())?;
    let request = format!(
        "POST {path} HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\
         X-Stream-Protocol-Version: {PROTOCOL}\r\nContent-Length: 0\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.map_err(|e| e.to_string())?;
    let mut stream = BufReader::new(stream);
    let head = head(&mut stream).await?;
    let status = head.first().and_then(|line| line.split(' ').nth(1)).unwrap_or_default().to_owned();
    if status == "101" {
        return Ok(stream);
    }
    let mut body = String::new();
    let _ = (&mut stream).take(LONGEST_REFUSAL).read_to_string(&mut body).await;
    Err(format!("the runtime answers {status}: {}", body.trim()))
}

/// The lines of the answer's head.
async fn head(stream: &mut BufReader<TcpStream>) -> Result<Vec<String>, String> {
    let mut limited = stream.take(LONGEST_HEAD);
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        let read = limited.read_line(&mut line).await.map_err(|e| e.to_string())?;
        match line.trim_end() {
            _ if read == 0 => return Err("the runtime's answer is no HTTP".to_owned()),
            "" => return Ok(lines),
            line => lines.push(line.to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_a_host_and_a_path() {
        assert_eq!(parts("http://127.0.0.1:80/exec/x"), Ok(("127.0.0.1:80", "/exec/x")));
        assert_eq!(parts("http://[::1]:80"), Ok(("[::1]:80", "/")));
        assert!(parts("https://127.0.0.1/exec").is_err() && parts("http:///x").is_err());
        assert!(parts("http://a/x\r\nHost: b").is_err());
    }
}

//! As much of HTTP/1.1 as a token server and a proxy on loopback need: one exchange per connection.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};

/// A request or an answer up to the empty line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Head {
    /// The request or status line.
    pub(super) first: String,
    /// In their order.
    pub(super) fields: Vec<(String, String)>,
}

/// Request heads are short; a client that sends more is not a registry's client.
const LONGEST: u64 = 64 * 1024;

impl Head {
    pub(super) fn read(from: &mut impl BufRead) -> io::Result<Self> {
        let mut limited = from.take(LONGEST);
        let mut first = String::new();
        limited.read_line(&mut first)?;
        if first.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut fields = Vec::new();
        loop {
            let mut line = String::new();
            if limited.read_line(&mut line)? == 0 || line.trim().is_empty() {
                break;
            }
            if let Some((name, value)) = line.split_once(':') {
                fields.push((name.trim().to_owned(), value.trim().to_owned()));
            }
        }
        Ok(Self { first: first.trim().to_owned(), fields })
    }

    pub(super) fn field(&self, name: &str) -> Option<&str> {
        let found = self.fields.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    pub(super) fn set(&mut self, name: &str, value: &str) {
        self.remove(name);
        self.fields.push((name.to_owned(), value.to_owned()));
    }

    pub(super) fn remove(&mut self, name: &str) {
        self.fields.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
    }

    /// The second word: a request's target, an answer's status.
    pub(super) fn target(&self) -> &str {
        self.first.split(' ').nth(1).unwrap_or_default()
    }

    pub(super) fn method(&self) -> &str {
        self.first.split(' ').next().unwrap_or_default()
    }

    pub(super) fn length(&self) -> u64 {
        self.field("content-length").and_then(|value| value.parse().ok()).unwrap_or(0)
    }

    pub(super) fn write(&self, to: &mut impl Write) -> io::Result<()> {
        let mut text = format!("{}\r\n", self.first);
        for (name, value) in &self.fields {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text.push_str("\r\n");
        to.write_all(text.as_bytes())
    }
}

/// A whole answer with a JSON body.
pub(super) fn answer(
    to: &mut impl Write,
    status: &str,
    fields: &[(&str, &str)],
    body: &str,
) -> io::Result<()> {
    let mut head = Head { first: format!("HTTP/1.1 {status}"), fields: Vec::new() };
    for (name, value) in fields {
        head.set(name, value);
    }
    head.set("Content-Type", "application/json");
    head.set("Content-Length", &body.len().to_string());
    head.set("Connection", "close");
    head.write(to)?;
    to.write_all(body.as_bytes())
}

/// Serves connections for ever, each in a thread of its own.
pub(super) fn serve(
    address: &str,
    handle: impl Fn(BufReader<TcpStream>) -> io::Result<()> + Send + Sync + 'static,
) -> io::Result<()> {
    let listener = TcpListener::bind(address)?;
    let handle = std::sync::Arc::new(handle);
    for stream in listener.incoming().flatten() {
        let handle = handle.clone();
        // A connection that breaks is the client's to notice.
        std::thread::spawn(move || handle(BufReader::new(stream)));
    }
    Ok(())
}

/// The values of one parameter in a target's query, percent-decoded.
pub(super) fn parameters(target: &str, name: &str) -> Vec<String> {
    let query = target.split_once('?').map_or("", |(_, query)| query);
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs.filter(|(known, _)| *known == name).map(|(_, value)| decode(value)).collect()
}

fn decode(text: &str) -> String {
    let mut bytes = text.bytes();
    let mut out = Vec::new();
    while let Some(byte) = bytes.next() {
        let plain = match byte {
            b'+' => b' ',
            b'%' => {
                let digits: Vec<u8> = bytes.by_ref().take(2).collect();
                let digits = String::from_utf8_lossy(&digits).into_owned();
                u8::from_str_radix(&digits, 16).unwrap_or(b'?')
            }
            other => other,
        };
        out.push(plain);
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_read_to_its_empty_line_and_no_further() {
        let mut text: &[u8] = b"GET /v2/a?x=1 HTTP/1.1\r\nHost: h\r\nRange: bytes=1-\r\n\r\nbody";
        let head = Head::read(&mut text).expect("a head");
        assert_eq!((head.method(), head.target()), ("GET", "/v2/a?x=1"));
        assert_eq!(head.field("range"), Some("bytes=1-"));
        assert_eq!(text, b"body");
    }

    #[test]
    fn scopes_are_decoded() {
        let scopes = parameters("/token?scope=repository%3Aa%2Fb%3Apull&service=x", "scope");
        assert_eq!(scopes, ["repository:a/b:pull"]);
    }
}

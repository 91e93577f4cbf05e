//! A client of streams, of another make than the server, in the server's network.

use std::fs::File;
use std::net::TcpStream as Blocking;
use std::os::fd::AsFd;

use futures_util::{SinkExt, StreamExt};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::Role;

use super::House;

pub const STDIN: u8 = 0;
pub const STDOUT: u8 = 1;
pub const STDERR: u8 = 2;
const ERROR: u8 = 3;
const RESIZE: u8 = 4;
const CLOSE: u8 = 255;

/// A session over WebSocket in the protocol that can close the input.
pub struct Session(WebSocketStream<BufReader<TcpStream>>);

impl Session {
    /// For exec and attach.
    pub async fn open(house: &House, url: &str) -> Self {
        Self::speaking(house, url, "v5.channel.k8s.io").await
    }

    pub async fn speaking(house: &House, url: &str, protocol: &str) -> Self {
        let (address, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
        let mut io = BufReader::new(connect(house, address));
        let request = format!(
            "GET /{path} HTTP/1.1\r\nHost: {address}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
             Sec-WebSocket-Protocol: {protocol}\r\n\r\n"
        );
        io.write_all(request.as_bytes()).await.unwrap();
        let mut line = String::new();
        io.read_line(&mut line).await.unwrap();
        assert!(line.contains(" 101 "), "{line}");
        while !line.trim_end().is_empty() {
            line.clear();
            io.read_line(&mut line).await.unwrap();
        }
        Self(WebSocketStream::from_raw_socket(io, Role::Client, None).await)
    }

    pub async fn send(&mut self, channel: u8, bytes: &[u8]) {
        self.0.send(Message::Binary([&[channel], bytes].concat().into())).await.unwrap();
    }

    pub async fn close_input(&mut self) {
        self.send(CLOSE, &[STDIN]).await;
    }

    pub async fn resize(&mut self, columns: u16, rows: u16) {
        self.send(RESIZE, format!(r#"{{"Width":{columns},"Height":{rows}}}"#).as_bytes()).await;
    }

    /// The next bytes and the channel that they came on; `None` once the server has closed.
    pub async fn next(&mut self) -> Option<(u8, Vec<u8>)> {
        loop {
            match tokio::time::timeout(super::PATIENCE, self.0.next()).await.expect("nothing comes")? {
                Ok(Message::Binary(bytes)) => return Some((bytes[0], bytes[1..].to_vec())),
                Ok(Message::Close(_)) | Err(_) => return None,
                Ok(_) => {}
            }
        }
    }

    /// Until this text has come on the channel.
    pub async fn wait_for(&mut self, channel: u8, text: &str) -> String {
        let mut seen = String::new();
        while !seen.contains(text) {
            let Some((from, bytes)) = self.next().await else { panic!("{text:?} never came after {seen:?}") };
            if from == channel {
                seen.push_str(&String::from_utf8_lossy(&bytes));
            }
        }
        seen
    }

    /// Everything until the server closes.
    pub async fn rest(mut self) -> Rest {
        let mut rest = Rest::default();
        while let Some((channel, bytes)) = self.next().await {
            match channel {
                STDOUT => rest.stdout.extend(bytes),
                STDERR => rest.stderr.extend(bytes),
                ERROR => rest.error.extend(bytes),
                other => panic!("channel {other}"),
            }
        }
        rest
    }
}

/// What came in the end.
#[derive(Debug, Default)]
pub struct Rest {
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    error: Vec<u8>,
}

impl Rest {
    pub fn status(&self) -> Value {
        serde_json::from_slice(&self.error).unwrap_or_default()
    }

    /// 0 if it succeeded.
    pub fn code(&self) -> i32 {
        let status = self.status();
        if status["status"] == "Success" {
            return 0;
        }
        let code = status["details"]["causes"][0]["message"].as_str().unwrap_or_default();
        code.parse().unwrap_or_else(|_| panic!("{status}"))
    }
}

/// A connection made in the house, by a thread that ends with it.
fn connect(house: &House, address: &str) -> TcpStream {
    let (path, address) = (format!("/proc/{}/ns/net", house.holder()), address.to_owned());
    let connecting = std::thread::spawn(move || {
        let namespace = File::open(path).unwrap();
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
        Blocking::connect(address).unwrap()
    });
    let stream = connecting.join().unwrap();
    stream.set_nonblocking(true).unwrap();
    TcpStream::from_std(stream).unwrap()
}

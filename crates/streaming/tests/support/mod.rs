//! A runtime whose containers are plain processes of this host, and clients of a few lines.

#![allow(
    dead_code,
    unreachable_pub,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "each test uses a part, and fails where it cannot go on"
)]

use std::collections::HashMap;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use streaming::{
    Answer, AttachRequest, Connection, Ended, ExecRequest, Handler, PortForwardRequest, Server, Streams,
};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::Command;
use tokio::sync::mpsc;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::Role;

/// What handlers have seen, in its order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// A session began.
    Began(&'static str),
    /// A session learnt that its client has gone.
    ClientGone,
    /// A session ended.
    Ended(&'static str),
}

/// Runs commands on this host, attaches to an echo, forwards to ports of this host.
pub struct Host {
    seen: mpsc::UnboundedSender<Seen>,
}

impl Host {
    pub fn new(seen: mpsc::UnboundedSender<Seen>) -> Self {
        Self { seen }
    }
}

impl Handler for Host {
    fn exec(&self, request: ExecRequest, streams: Streams) -> Answer<'_, Ended> {
        let seen = self.seen.clone();
        Box::pin(async move {
            let _ = seen.send(Seen::Began("exec"));
            let command: Vec<_> = request.command.iter().map(String::as_str).collect();
            let ended = match command[..] {
                ["sizes", count] => sizes(streams, count.parse().unwrap()).await,
                ["wait"] => wait(streams, &seen).await,
                ["flood"] => flood(streams, &seen).await,
                ["leak"] => leak(streams).await,
                _ => run(&request.command, streams, &seen).await,
            };
            let _ = seen.send(Seen::Ended("exec"));
            ended
        })
    }

    fn attach(&self, request: AttachRequest, streams: Streams) -> Answer<'_, ()> {
        let seen = self.seen.clone();
        Box::pin(async move {
            if request.container == "missing" {
                return Err("no such container".to_owned());
            }
            let (Some(mut stdin), Some(mut stdout)) = (streams.stdin, streams.stdout) else {
                return Err("an echo needs both".to_owned());
            };
            let _ = tokio::io::copy(&mut stdin, &mut stdout).await;
            let _ = seen.send(Seen::Ended("attach"));
            Ok(())
        })
    }

    fn port_forward(&self, _sandbox: String, port: u16, mut connection: Connection) -> Answer<'_, ()> {
        let seen = self.seen.clone();
        Box::pin(async move {
            let mut inside = TcpStream::connect(("127.0.0.1", port)).await.map_err(|e| e.to_string())?;
            let _ = seen.send(Seen::Began("port_forward"));
            let _ended = EndedPort(seen);
            let _ = tokio::io::copy_bidirectional(&mut connection, &mut inside).await;
            Ok(())
        })
    }
}

/// Tells of the end of a connection to a port, also if it is given up.
struct EndedPort(mpsc::UnboundedSender<Seen>);

impl Drop for EndedPort {
    fn drop(&mut self) {
        let _ = self.0.send(Seen::Ended("port_forward"));
    }
}

/// Prints the sizes that come.
async fn sizes(streams: Streams, count: usize) -> Result<Ended, String> {
    let (mut stdout, mut resize) = (streams.stdout.unwrap(), streams.resize);
    for _ in 0..count {
        let size = resize.recv().await.ok_or("the client has gone")?;
        let line = format!("{}x{}\n", size.columns, size.rows);
        stdout.write_all(line.as_bytes()).await.map_err(|e| e.to_string())?;
    }
    Ok(Ended::Code(0))
}

/// Neither reads nor writes: only the client's going ends it.
async fn wait(mut streams: Streams, seen: &mpsc::UnboundedSender<Seen>) -> Result<Ended, String> {
    while streams.resize.recv().await.is_some() {}
    let _ = seen.send(Seen::ClientGone);
    Ok(Ended::Code(0))
}

/// Writes until it cannot.
async fn flood(streams: Streams, seen: &mpsc::UnboundedSender<Seen>) -> Result<Ended, String> {
    let mut stdout = streams.stdout.unwrap();
    while stdout.write_all(&[7; 10_000]).await.is_ok() {}
    let _ = seen.send(Seen::ClientGone);
    Ok(Ended::Code(0))
}

/// Answers while somebody else still holds its output.
async fn leak(streams: Streams) -> Result<Ended, String> {
    let mut stdout = streams.stdout.unwrap();
    stdout.write_all(b"before").await.map_err(|e| e.to_string())?;
    tokio::spawn(async move {
        std::future::pending::<()>().await;
        drop(stdout);
    });
    Ok(Ended::Signal(9))
}

/// Runs a process and kills it when the client goes.
async fn run(
    command: &[String],
    streams: Streams,
    seen: &mpsc::UnboundedSender<Seen>,
) -> Result<Ended, String> {
    let pipe = |wanted| if wanted { Stdio::piped() } else { Stdio::null() };
    let mut child = Command::new(&command[0])
        .args(&command[1..])
        .stdin(pipe(streams.stdin.is_some()))
        .stdout(pipe(streams.stdout.is_some()))
        .stderr(pipe(streams.stderr.is_some()))
        .kill_on_drop(true)
        .spawn()
        .map_err(|e| e.to_string())?;
    let feeding = streams.stdin.zip(child.stdin.take()).map(|(mut from, mut to)| {
        tokio::spawn(async move {
            let _ = tokio::io::copy(&mut from, &mut to).await;
        })
    });
    let out = streams.stdout.zip(child.stdout.take()).map(|(mut to, mut from)| async move {
        let _ = tokio::io::copy(&mut from, &mut to).await;
    });
    let err = streams.stderr.zip(child.stderr.take()).map(|(mut to, mut from)| async move {
        let _ = tokio::io::copy(&mut from, &mut to).await;
    });
    let mut resize = streams.resize;
    let gone = async move { while resize.recv().await.is_some() {} };
    let outputs = async {
        tokio::join!(
            async {
                if let Some(out) = out {
                    out.await
                }
            },
            async {
                if let Some(err) = err {
                    err.await
                }
            }
        )
    };
    tokio::select! {
        _ = outputs => {}
        () = gone => {
            let _ = seen.send(Seen::ClientGone);
            child.kill().await.map_err(|e| e.to_string())?;
        }
    }
    let status = child.wait().await.map_err(|e| e.to_string())?;
    if let Some(feeding) = feeding {
        feeding.abort();
    }
    use std::os::unix::process::ExitStatusExt;
    Ok(match (status.code(), status.signal()) {
        (Some(code), _) => Ended::Code(code),
        (None, signal) => Ended::Signal(signal.unwrap_or_default()),
    })
}

/// A server on this host, and what its handler sees.
pub async fn serve() -> (Server, mpsc::UnboundedReceiver<Seen>) {
    let (sender, seen) = mpsc::unbounded_channel();
    let server = Server::bind("127.0.0.1:0".parse().unwrap(), Arc::new(Host { seen: sender })).await.unwrap();
    (server, seen)
}

/// Waits for something to be seen; a test that waits for ever says for what.
pub async fn see(seen: &mut mpsc::UnboundedReceiver<Seen>, wanted: &Seen) {
    let wait = async {
        while let Some(next) = seen.recv().await {
            if next == *wanted {
                return;
            }
        }
        panic!("{wanted:?} was not seen before the server ended");
    };
    tokio::time::timeout(Duration::from_secs(60), wait)
        .await
        .unwrap_or_else(|_| panic!("{wanted:?} was not seen"));
}

/// A command with all three streams.
pub fn exec(command: &[&str]) -> ExecRequest {
    ExecRequest {
        container: "c".into(),
        command: command.iter().map(|&arg| arg.into()).collect(),
        tty: false,
        stdin: true,
        stdout: true,
        stderr: true,
    }
}

/// A command with a terminal.
pub fn exec_tty(command: &[&str]) -> ExecRequest {
    ExecRequest { tty: true, stderr: false, ..exec(command) }
}

/// A container with input and output.
pub fn attach(container: &str) -> AttachRequest {
    AttachRequest { container: container.into(), tty: false, stdin: true, stdout: true, stderr: false }
}

/// A sandbox with these ports.
pub fn ports(ports: &[u16]) -> PortForwardRequest {
    PortForwardRequest { sandbox: "s".into(), ports: ports.to_vec() }
}

/// A server that sends back what it gets, until the end.
pub async fn echo() -> u16 {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut reader, mut writer) = stream.split();
                let _ = tokio::io::copy(&mut reader, &mut writer).await;
                let _ = writer.shutdown().await;
            });
        }
    });
    port
}

/// The answer to a request for an upgrade: its status, its headers, and the connection behind it.
pub struct Upgraded {
    pub status: u16,
    pub headers: HashMap<String, String>,
    pub io: BufReader<TcpStream>,
}

/// Asks for an upgrade in plain HTTP.
pub async fn upgrade(url: &str, method: &str, headers: &[(&str, &str)]) -> Upgraded {
    let (address, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let mut io = BufReader::new(TcpStream::connect(address).await.unwrap());
    let mut request = format!("{method} /{path} HTTP/1.1\r\nHost: {address}\r\nConnection: Upgrade\r\n");
    for (name, value) in headers {
        request += &format!("{name}: {value}\r\n");
    }
    io.write_all((request + "\r\n").as_bytes()).await.unwrap();
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        io.read_line(&mut line).await.unwrap();
        if line.trim_end().is_empty() {
            break;
        }
        lines.push(line.trim_end().to_owned());
    }
    let status = lines[0].split(' ').nth(1).unwrap().parse().unwrap();
    let headers = lines[1..].iter().filter_map(|line| line.split_once(": "));
    let headers = headers.map(|(name, value)| (name.to_lowercase(), value.to_owned())).collect();
    Upgraded { status, headers, io }
}

/// Asks for an upgrade to WebSocket.
pub async fn upgrade_websocket(url: &str, protocol: &str) -> Upgraded {
    let headers = [
        ("Upgrade", "websocket"),
        ("Sec-WebSocket-Version", "13"),
        ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ("Sec-WebSocket-Protocol", protocol),
    ];
    upgrade(url, "GET", &headers).await
}

/// A WebSocket client of another make.
pub async fn websocket(url: &str, protocol: &str) -> WebSocketStream<BufReader<TcpStream>> {
    let upgraded = upgrade_websocket(url, protocol).await;
    assert_eq!(upgraded.status, 101);
    assert_eq!(upgraded.headers["sec-websocket-accept"], "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    assert_eq!(upgraded.headers["sec-websocket-protocol"], protocol);
    assert_eq!(upgraded.headers["connection"].to_lowercase(), "upgrade");
    WebSocketStream::from_raw_socket(upgraded.io, Role::Client, None).await
}

/// What is left of a refusal.
pub async fn body(mut upgraded: Upgraded) -> String {
    let mut body = String::new();
    upgraded.io.read_to_string(&mut body).await.unwrap();
    body
}

/// Opens a command's streams over SPDY: 1 for errors, 3, 5 and 7 for input, output and error output.
pub async fn spdy_command(url: &str) -> BufReader<TcpStream> {
    let headers = [("Upgrade", "SPDY/3.1"), ("X-Stream-Protocol-Version", "v4.channel.k8s.io")];
    let mut upgraded = upgrade(url, "POST", &headers).await;
    assert_eq!(upgraded.status, 101);
    let mut zlib = vec![0x78, 0xbb, 0xe3, 0xc6, 0xa7, 0xc2];
    for (id, role) in [(1_u8, "error"), (3, "stdin"), (5, "stdout"), (7, "stderr")] {
        // One header, stored as it is.
        let length = u8::try_from(role.len()).unwrap();
        let block =
            [&[0, 0, 0, 1, 0, 0, 0, 10][..], b"streamtype", &[0, 0, 0, length], role.as_bytes()].concat();
        let size = u8::try_from(block.len()).unwrap();
        zlib.extend([0, size, 0, !size, 0xff]);
        zlib.extend(block);
        let size = u8::try_from(zlib.len() + 10).unwrap();
        upgraded.io.write_all(&[0x80, 3, 0, 1, 0, 0, 0, size, 0, 0, 0, id, 0, 0, 0, 0, 0, 0]).await.unwrap();
        upgraded.io.write_all(&zlib).await.unwrap();
        zlib.clear();
    }
    upgraded.io
}

//! WebSockets that no runtime but ours speaks, with a client of another make and a runtime that is our streaming server.

use std::sync::Arc;

use agent::InstanceView;
use futures_util::{SinkExt as _, StreamExt as _};
use kubelet_api::{Call, RunOutput, Session, StreamError, Streams};
use streaming::{Answer, AttachRequest, Connection, Ended, ExecRequest, Handler, PortForwardRequest, Size};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::Role;

use crate::support::{Identity, OnePod, config, connect, get, nowhere, running, start_with};

const OPEN: &str = "authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}\nauthorization: {mode: AlwaysAllow}\n";

/// Commands that repeat their input in upper case, and say the size of their terminal first if they have one.
struct Echo;

impl Handler for Echo {
    fn exec(&self, request: ExecRequest, mut streams: streaming::Streams) -> Answer<'_, Ended> {
        Box::pin(async move {
            let mut stdout = streams.stdout.take().unwrap();
            if request.tty {
                let Size { rows, columns } = streams.resize.recv().await.unwrap();
                stdout.write_all(format!("{columns}x{rows} ").as_bytes()).await.unwrap();
            }
            let mut input = String::new();
            if let Some(mut stdin) = streams.stdin.take() {
                stdin.read_to_string(&mut input).await.unwrap();
            }
            stdout.write_all(input.to_uppercase().as_bytes()).await.unwrap();
            Ok(Ended::Code(7))
        })
    }

    fn attach(&self, _: AttachRequest, _: streaming::Streams) -> Answer<'_, ()> {
        Box::pin(async { Err("there is nothing to join".to_owned()) })
    }

    fn port_forward(&self, _: String, _: u16, mut connection: Connection) -> Answer<'_, ()> {
        Box::pin(async move {
            let mut byte = [0];
            while let Ok(1) = connection.read(&mut byte).await {
                connection
                    .write_all(&byte.map(|byte| byte.to_ascii_uppercase()))
                    .await
                    .map_err(|e| e.to_string())?;
            }
            Ok(())
        })
    }
}

struct Runtime(streaming::Server);

impl Streams for Runtime {
    fn url(&self, session: Session) -> Call<'_, String> {
        let url = match session {
            Session::Exec { container, command, wanted } => self.0.exec(ExecRequest {
                container,
                command,
                tty: wanted.tty,
                stdin: wanted.stdin,
                stdout: wanted.stdout,
                stderr: wanted.stderr,
            }),
            Session::Attach { container, wanted } => self.0.attach(AttachRequest {
                container,
                tty: wanted.tty,
                stdin: wanted.stdin,
                stdout: wanted.stdout,
                stderr: wanted.stderr,
            }),
            Session::PortForward { uid, ports } => {
                self.0.port_forward(PortForwardRequest { sandbox: uid, ports })
            }
        };
        Box::pin(async move { url.map_err(|error| StreamError::Failed(error.to_string())) })
    }

    fn run(&self, _: String, _: Vec<String>) -> Call<'_, RunOutput> {
        Box::pin(async { Err(StreamError::Failed("not here".to_owned())) })
    }
}

async fn serve(fields: &str) -> (tempfile::TempDir, kubelet_api::Server) {
    let dir = tempfile::tempdir().unwrap();
    let runtime = streaming::Server::bind("127.0.0.1:0".parse().unwrap(), Arc::new(Echo)).await.unwrap();
    let pod = OnePod::new(dir.path());
    let id = InstanceView { id: "c-1".into(), image: "i".into(), image_id: "i@1".into(), user: None };
    pod.set_instance(running(), id);
    let config = config(dir.path(), &format!("{OPEN}{fields}"));
    let server = start_with(&config, dir.path(), nowhere(), pod, Arc::new(Runtime(runtime))).await;
    (dir, server)
}

/// A WebSocket at this path, with the head of the answer in lower case.
async fn websocket(
    server: &kubelet_api::Server,
    path: &str,
    protocols: &str,
) -> (String, WebSocketStream<TlsStream<TcpStream>>) {
    let mut stream = connect(server.address.unwrap(), &Identity::default()).await;
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: node0\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: {protocols}\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    let head = String::from_utf8(head).unwrap().to_lowercase();
    (head, WebSocketStream::from_raw_socket(stream, Role::Client, None).await)
}

fn message(channel: u8, text: &[u8]) -> Message {
    Message::Binary([&[channel], text].concat().into())
}

/// What comes on the channels 1 and 3 until the server closes.
async fn read_all(client: &mut WebSocketStream<TlsStream<TcpStream>>) -> [String; 2] {
    let [mut out, mut status] = [const { String::new() }; 2];
    loop {
        match client.next().await.unwrap().unwrap() {
            Message::Binary(bytes) => {
                let to = if bytes[0] == 3 { &mut status } else { &mut out };
                to.push_str(std::str::from_utf8(&bytes[1..]).unwrap());
            }
            Message::Close(_) => return [out, status],
            _ => {}
        }
    }
}

#[tokio::test]
async fn the_newest_protocol_of_commands_reaches_a_runtime_that_speaks_spdy() {
    let (_dir, server) = serve("").await;
    let path = "/exec/shop/web/app?command=x&input=1&output=1&tty=1";
    let protocols = "v5.channel.k8s.io, v4.channel.k8s.io, base64url.bearer.authorization.k8s.io.c2VjcmV0";
    let (head, mut client) = websocket(&server, path, protocols).await;
    assert!(head.starts_with("http/1.1 101 "), "{head}");
    assert!(head.contains("sec-websocket-protocol: v5.channel.k8s.io\r"), "{head}");
    assert!(head.contains("sec-websocket-accept: s3pplmbitxaq9kygzzhzrbk+xoo=\r"), "{head}");
    client.send(message(4, br#"{"Width":80,"Height":24}"#)).await.unwrap();
    client.send(message(0, b"in and ")).await.unwrap();
    client.send(message(0, b"out")).await.unwrap();
    client.send(message(255, &[0])).await.unwrap();
    let [out, status] = read_all(&mut client).await;
    assert_eq!(out, "80x24 IN AND OUT");
    assert!(status.contains("NonZeroExitCode") && status.contains("\"7\""), "{status}");
    let (head, mut attached) = websocket(&server, "/attach/shop/web/app?output=1", "v5.channel.k8s.io").await;
    assert!(head.starts_with("http/1.1 101 "), "{head}");
    assert!(read_all(&mut attached).await[1].contains("there is nothing to join"));
    let counted = "kubelet_websocket_streaming_requests_total{subresource=\"exec\"} 1\n";
    assert!(get(server.address.unwrap(), "/metrics").await.body.contains(counted));
}

#[tokio::test]
async fn ports_inside_of_a_websocket_reach_a_runtime_that_speaks_spdy() {
    let (_dir, server) = serve("").await;
    let (head, mut client) = websocket(&server, "/portForward/shop/web", "SPDY/3.1+portforward.k8s.io").await;
    assert!(head.starts_with("http/1.1 101 "), "{head}");
    assert!(head.contains("sec-websocket-protocol: spdy/3.1+portforward.k8s.io\r"), "{head}");
    // The first ping of a client of SPDY is answered: what is inside reaches the server.
    let ping = vec![0x80, 3, 0, 6, 0, 0, 0, 4, 0, 0, 0, 1];
    client.send(Message::Binary(ping.clone().into())).await.unwrap();
    loop {
        match client.next().await.unwrap().unwrap() {
            Message::Binary(bytes) => {
                assert_eq!(bytes[..], ping[..]);
                return;
            }
            Message::Ping(_) => {}
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn other_protocols_and_a_closed_gate_leave_it_to_the_runtime() {
    let (_dir, server) = serve("").await;
    let path = "/exec/shop/web/app?command=x&output=1";
    let (head, mut client) = websocket(&server, path, "v4.channel.k8s.io").await;
    assert!(head.contains("sec-websocket-protocol: v4.channel.k8s.io\r"), "{head}");
    assert!(read_all(&mut client).await[1].contains("NonZeroExitCode"));
    assert!(!get(server.address.unwrap(), "/metrics").await.body.contains("websocket_streaming"));
    let (_dir, server) = serve("featureGates: {ExtendWebSocketsToKubelet: false}\n").await;
    // Our own runtime speaks it.
    let (head, _) = websocket(&server, path, "v5.channel.k8s.io").await;
    assert!(head.starts_with("http/1.1 101 "), "{head}");
    assert!(!get(server.address.unwrap(), "/metrics").await.body.contains("websocket_streaming"));
}

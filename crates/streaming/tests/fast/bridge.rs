//! A WebSocket client of another make, bridged to a server that speaks SPDY.

use crate::support;

use futures_util::{SinkExt, StreamExt};
use hyper::Method;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;
use streaming::bridge::{Bridge, Purpose, Wanted};
use streaming::{ExecRequest, Server};
use support::{Seen, exec, exec_tty, see, serve, upgrade};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::Role;

type Client = WebSocketStream<DuplexStream>;

fn bridge(protocol: &'static str, purpose: Purpose) -> Bridge {
    let headers: HeaderMap = [
        ("connection", "Upgrade"),
        ("upgrade", "websocket"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ("sec-websocket-protocol", protocol),
    ]
    .into_iter()
    .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
    .collect();
    let bridge = Bridge::of(&Method::GET, &headers, purpose).unwrap().unwrap();
    assert_eq!(bridge.answer()["sec-websocket-protocol"], protocol);
    assert_eq!(bridge.answer()["sec-websocket-accept"], "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    bridge
}

/// A client whose other end is this runtime.
async fn bridged(bridge: Bridge, runtime: impl AsyncRead + AsyncWrite + Send + 'static) -> Client {
    let (client, ours) = tokio::io::duplex(4096);
    tokio::spawn(bridge.run(ours, runtime));
    WebSocketStream::from_raw_socket(client, Role::Client, None).await
}

/// A client that runs this command.
async fn command(server: &Server, request: ExecRequest) -> Client {
    let ExecRequest { tty, stdin, stdout, stderr, .. } = request;
    let url = server.exec(request).unwrap();
    let bridge = bridge("v5.channel.k8s.io", Purpose::Command(Wanted { stdin, stdout, stderr, tty }));
    let headers = bridge.request();
    let headers: Vec<_> =
        headers.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
    // The helper asks for the upgrade itself.
    let headers: Vec<_> = headers.into_iter().filter(|(name, _)| *name != "connection").collect();
    let upgraded = upgrade(&url, "POST", &headers).await;
    assert_eq!(upgraded.status, 101);
    bridged(bridge, upgraded.io).await
}

fn message(channel: u8, text: &[u8]) -> Message {
    Message::Binary([&[channel], text].concat().into())
}

/// All that comes on each channel until the server closes; the channels in the order of their first messages.
async fn read_all(client: &mut Client) -> ([Vec<u8>; 5], Vec<u8>) {
    let (mut channels, mut order): ([Vec<u8>; 5], Vec<u8>) = Default::default();
    loop {
        match client.next().await.unwrap().unwrap() {
            Message::Binary(bytes) => {
                channels[usize::from(bytes[0])].extend_from_slice(&bytes[1..]);
                if !order.contains(&bytes[0]) {
                    order.push(bytes[0]);
                }
            }
            Message::Ping(_) | Message::Pong(_) => {}
            Message::Close(frame) => {
                assert_eq!(u16::from(frame.unwrap().code), 1000);
                return (channels, order);
            }
            other => panic!("{other:?}"),
        }
    }
}

fn status(channels: &[Vec<u8>; 5]) -> Value {
    serde_json::from_slice(&channels[3]).unwrap()
}

#[tokio::test]
async fn a_command_has_its_outputs_apart_and_the_verdict_comes_last() {
    let (server, _) = serve().await;
    let mut client = command(
        &server,
        ExecRequest { stdin: false, ..exec(&["sh", "-c", "echo out; echo err >&2; exit 3"]) },
    )
    .await;
    let (channels, order) = read_all(&mut client).await;
    assert_eq!((channels[1].as_slice(), channels[2].as_slice()), (&b"out\n"[..], &b"err\n"[..]));
    assert_eq!((order.first(), order.last()), (Some(&1), Some(&3)), "{order:?}");
    assert_eq!(status(&channels)["details"]["causes"][0]["message"], "3");
}

#[tokio::test]
async fn input_can_be_closed_while_output_goes_on() {
    let (server, _) = serve().await;
    let mut client = command(&server, exec(&["sh", "-c", "wc -c; echo end"])).await;
    let piece = vec![7; 50_000];
    for _ in 0..20 {
        client.send(message(0, &piece)).await.unwrap();
    }
    client.send(message(255, &[0])).await.unwrap();
    client.send(message(0, b"too late")).await.unwrap();
    let (channels, _) = read_all(&mut client).await;
    assert_eq!(channels[1], b"1000000\nend\n");
    assert_eq!(status(&channels)["status"], "Success");
}

#[tokio::test]
async fn a_terminals_sizes_arrive_and_a_failure_has_its_words() {
    let (server, _) = serve().await;
    let mut client = command(&server, exec_tty(&["sizes", "2"])).await;
    client.send(message(4, br#"{"Width":80,"Height":24}"#)).await.unwrap();
    let first = async {
        loop {
            if client.next().await.unwrap().unwrap() == message(1, b"80x24\n") {
                return;
            }
        }
    };
    first.await;
    client.send(message(4, br#"{"Width":90,"Height":50}"#)).await.unwrap();
    let (channels, _) = read_all(&mut client).await;
    assert_eq!(
        (channels[1].as_slice(), status(&channels)["status"].as_str()),
        (&b"90x50\n"[..], Some("Success"))
    );
    let mut failing = command(&server, exec(&["/does/not/exist"])).await;
    let status = status(&read_all(&mut failing).await.0);
    assert!(status["message"].as_str().unwrap().contains("No such file"), "{status}");
}

#[tokio::test]
async fn the_command_ends_when_its_client_goes() {
    let (server, mut seen) = serve().await;
    let client = command(&server, exec(&["wait"])).await;
    see(&mut seen, &Seen::Began("exec")).await;
    drop(client);
    see(&mut seen, &Seen::ClientGone).await;
}

/// A client that does not read makes the runtime wait.
#[tokio::test]
async fn a_slow_client_bounds_what_is_kept() {
    let (mut runtime, theirs) = tokio::io::duplex(1024);
    let wanted = Wanted { stdin: false, stdout: true, stderr: false, tty: false };
    let _client = bridged(bridge("v5.channel.k8s.io", Purpose::Command(wanted)), theirs).await;
    // A frame of SPDY with 8 MiB for the output.
    runtime.write_all(&[0, 0, 0, 5, 0, 0x80, 0, 0]).await.unwrap();
    let mut taken = 0_usize;
    let piece = [0; 1024];
    let write = async {
        loop {
            taken += runtime.write(&piece).await.unwrap();
        }
    };
    let _ = tokio::time::timeout(std::time::Duration::from_secs(1), write).await;
    assert!((1024..1 << 20).contains(&taken), "{taken}");
}

#[tokio::test]
async fn a_runtime_that_breaks_off_is_an_internal_error() {
    let (runtime, theirs) = tokio::io::duplex(1024);
    let wanted = Wanted { stdin: false, stdout: true, stderr: true, tty: false };
    let mut client = bridged(bridge("v5.channel.k8s.io", Purpose::Command(wanted)), theirs).await;
    drop(runtime);
    let status = status(&read_all(&mut client).await.0);
    assert_eq!((status["status"].as_str(), status["code"].as_u64()), (Some("Failure"), Some(500)));
}

#[tokio::test]
async fn ports_are_bytes_both_ways_until_one_side_ends() {
    let (mut runtime, theirs) = tokio::io::duplex(1024);
    let mut client = bridged(bridge("SPDY/3.1+portforward.k8s.io", Purpose::Ports), theirs).await;
    client.send(Message::Binary(b"there"[..].into())).await.unwrap();
    let mut there = [0; 5];
    runtime.read_exact(&mut there).await.unwrap();
    assert_eq!(&there, b"there");
    runtime.write_all(b"and back").await.unwrap();
    assert_eq!(client.next().await.unwrap().unwrap(), Message::Binary(b"and back"[..].into()));
    drop(runtime);
    assert!(matches!(client.next().await.unwrap().unwrap(), Message::Close(_)));
}

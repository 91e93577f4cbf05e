//! Exec, attach and port-forward over WebSocket, with a client of another make.

use crate::support;

use futures_util::{SinkExt, StreamExt};
use serde_json::Value;
use support::{Seen, attach, echo, exec, exec_tty, ports, see, serve, websocket};
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::{Bytes, Message};

type Client = WebSocketStream<BufReader<TcpStream>>;

const V5: &str = "v5.channel.k8s.io";
const V4: &str = "v4.channel.k8s.io";

fn message(channel: u8, text: &[u8]) -> Message {
    Message::Binary([&[channel], text].concat().into())
}

/// All that comes on each channel until the server closes.
async fn read_all(client: &mut Client) -> [Vec<u8>; 5] {
    let mut channels: [Vec<u8>; 5] = Default::default();
    loop {
        match client.next().await.unwrap().unwrap() {
            Message::Binary(bytes) => channels[usize::from(bytes[0])].extend_from_slice(&bytes[1..]),
            Message::Ping(_) | Message::Pong(_) => {}
            Message::Close(frame) => {
                assert_eq!(u16::from(frame.unwrap().code), 1000);
                return channels;
            }
            other => panic!("{other:?}"),
        }
    }
}

fn status(channels: &[Vec<u8>; 5]) -> Value {
    serde_json::from_slice(&channels[3]).unwrap()
}

#[tokio::test]
async fn a_command_has_output_error_output_and_an_exit_code() {
    let (server, _) = serve().await;
    let url = server.exec(exec(&["sh", "-c", "echo out; echo err >&2; exit 3"])).unwrap();
    let channels = read_all(&mut websocket(&url, V4).await).await;
    assert_eq!(channels[1], b"out\n");
    assert_eq!(channels[2], b"err\n");
    assert_eq!(status(&channels)["reason"], "NonZeroExitCode");
    assert_eq!(status(&channels)["details"]["causes"][0]["message"], "3");
}

#[tokio::test]
async fn the_first_message_is_empty_and_says_that_the_client_is_connected() {
    let (server, _) = serve().await;
    let url = server.exec(exec(&["wait"])).unwrap();
    let mut client = websocket(&url, V4).await;
    assert_eq!(client.next().await.unwrap().unwrap(), message(1, b""));
}

#[tokio::test]
async fn older_protocols_get_words_and_only_on_failure() {
    let (server, _) = serve().await;
    for protocol in ["v3.channel.k8s.io", "v2.channel.k8s.io", "channel.k8s.io"] {
        let failing = server.exec(exec(&["false"])).unwrap();
        let channels = read_all(&mut websocket(&failing, protocol).await).await;
        assert_eq!(channels[3], b"command terminated with exit code 1", "{protocol}");
        let good = server.exec(exec(&["true"])).unwrap();
        assert_eq!(read_all(&mut websocket(&good, protocol).await).await[3], b"", "{protocol}");
    }
}

#[tokio::test]
async fn clients_that_only_do_text_get_base64() {
    let (server, _) = serve().await;
    let url = server.exec(exec(&["head", "-c", "5"])).unwrap();
    let mut client = websocket(&url, "v4.base64.channel.k8s.io").await;
    client.send(Message::text("0not base64!")).await.unwrap();
    client.send(Message::text("0aGVs")).await.unwrap();
    client.send(Message::text("0bG8=")).await.unwrap();
    let mut said = Vec::new();
    while let Message::Text(text) = client.next().await.unwrap().unwrap() {
        said.push(text.to_string());
    }
    assert_eq!(said[..2], ["1", "1aGVsbG8="]);
    assert!(said[2].starts_with('3'), "{said:?}");
}

#[tokio::test]
async fn a_command_that_cannot_be_run_is_an_internal_error() {
    let (server, _) = serve().await;
    let url = server.exec(exec(&["/does/not/exist"])).unwrap();
    let status = status(&read_all(&mut websocket(&url, V5).await).await);
    assert_eq!(status["reason"], "InternalError");
    assert!(status["message"].as_str().unwrap().contains("No such file"), "{status}");
}

#[tokio::test]
async fn v5_closes_the_input_and_the_output_still_comes() {
    let (server, _) = serve().await;
    let url = server.exec(exec(&["sh", "-c", "cat; echo end"])).unwrap();
    let mut client = websocket(&url, V5).await;
    client.send(message(0, b"in ")).await.unwrap();
    client.send(message(255, &[0])).await.unwrap();
    client.send(message(0, b"too late")).await.unwrap();
    let channels = read_all(&mut client).await;
    assert_eq!(channels[1], b"in end\n");
    assert_eq!(status(&channels)["status"], "Success");
}

#[tokio::test]
async fn before_v5_there_is_no_way_to_close_the_input() {
    let (server, _) = serve().await;
    let url = server.exec(exec(&["head", "-c", "4"])).unwrap();
    let mut client = websocket(&url, V4).await;
    client.send(message(255, &[0])).await.unwrap();
    client.send(message(0, b"four")).await.unwrap();
    assert_eq!(read_all(&mut client).await[1], b"four");
}

#[tokio::test]
async fn a_message_in_pieces_of_any_length_is_one_stream() {
    use tokio_tungstenite::tungstenite::protocol::frame::Frame;
    use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};
    let (server, _) = serve().await;
    let url = server.exec(exec(&["cat"])).unwrap();
    let mut client = websocket(&url, V5).await;
    for (text, kind, last) in [
        (&[0][..], Data::Binary, false),
        (b"abc", Data::Continue, false),
        (b"", Data::Continue, false),
        (b"d", Data::Continue, true),
    ] {
        let frame = Frame::message(Bytes::copy_from_slice(text), OpCode::Data(kind), last);
        client.send(Message::Frame(frame)).await.unwrap();
        client.send(Message::Ping(Bytes::from_static(b"between"))).await.unwrap();
    }
    client.send(message(255, &[0])).await.unwrap();
    assert_eq!(read_all(&mut client).await[1], b"abcd");
}

#[tokio::test]
async fn a_message_longer_than_any_buffer_passes() {
    let (server, _) = serve().await;
    let url = server.exec(exec(&["sh", "-c", "cat | wc -c"])).unwrap();
    let mut client = websocket(&url, V5).await;
    client.send(message(0, &vec![b'x'; 9 << 20])).await.unwrap();
    client.send(message(255, &[0])).await.unwrap();
    assert_eq!(String::from_utf8_lossy(&read_all(&mut client).await[1]).trim(), (9 << 20).to_string());
}

#[tokio::test]
async fn pings_are_answered_with_what_was_in_them() {
    let (server, _) = serve().await;
    let url = server.exec(exec(&["wait"])).unwrap();
    let mut client = websocket(&url, V5).await;
    client.send(Message::Ping(Bytes::from_static(b"there?"))).await.unwrap();
    while let Some(next) = client.next().await {
        if let Message::Pong(payload) = next.unwrap() {
            assert_eq!(payload.as_ref(), b"there?");
            return;
        }
    }
    panic!("no pong");
}

#[tokio::test]
async fn a_terminals_sizes_come_in_order() {
    let (server, _) = serve().await;
    let url = server.exec(exec_tty(&["sizes", "2"])).unwrap();
    let mut client = websocket(&url, V5).await;
    client.next().await.unwrap().unwrap();
    for text in [r#"{"Width":80,"Height":24}"#, r#"{"Width":132,"Height":43}"#] {
        client.send(message(4, text.as_bytes())).await.unwrap();
        let Message::Binary(said) = client.next().await.unwrap().unwrap() else { panic!() };
        assert!([&b"\x0180x24\n"[..], b"\x01132x43\n"].contains(&said.as_ref()));
    }
}

#[tokio::test]
async fn attaching_carries_both_ways_and_says_what_failed() {
    let (server, _) = serve().await;
    let url = server.attach(attach("echo")).unwrap();
    let mut client = websocket(&url, V5).await;
    client.send(message(0, b"hello")).await.unwrap();
    client.send(message(255, &[0])).await.unwrap();
    let channels = read_all(&mut client).await;
    assert_eq!(channels[1], b"hello");
    assert_eq!(status(&channels)["status"], "Success");
    let url = server.attach(attach("missing")).unwrap();
    let failed = status(&read_all(&mut websocket(&url, V5).await).await);
    assert!(failed["message"].as_str().unwrap().ends_with("no such container"), "{failed}");
}

#[tokio::test]
async fn a_handler_learns_that_its_client_has_gone() {
    let (server, mut seen) = serve().await;
    for command in ["wait", "flood"] {
        let url = server.exec(exec(&[command])).unwrap();
        let client = websocket(&url, V4).await;
        see(&mut seen, &Seen::Began("exec")).await;
        drop(client);
        see(&mut seen, &Seen::ClientGone).await;
    }
    let url = server.exec(exec(&["wait"])).unwrap();
    let mut client = websocket(&url, V4).await;
    client.close(None).await.unwrap();
    see(&mut seen, &Seen::ClientGone).await;
    while let Some(Ok(next)) = client.next().await {
        assert!(matches!(next, Message::Binary(_) | Message::Close(_)), "{next:?}");
    }
}

#[tokio::test]
async fn a_session_ends_with_the_handlers_answer_whoever_holds_its_streams() {
    let (server, _) = serve().await;
    let url = server.exec(exec(&["leak"])).unwrap();
    let channels = read_all(&mut websocket(&url, V4).await).await;
    assert_eq!(channels[1], b"before");
    assert_eq!(status(&channels)["details"]["causes"][0]["message"], "137");
}

#[tokio::test]
async fn a_client_that_violates_the_protocol_is_told_so() {
    let (server, mut seen) = serve().await;
    let url = server.exec(exec(&["wait"])).unwrap();
    let mut raw = support::upgrade_websocket(&url, V4).await;
    raw.io.write_all(&[0x82, 0x01, 0]).await.unwrap();
    see(&mut seen, &Seen::ClientGone).await;
    let mut answer = Vec::new();
    tokio::io::AsyncReadExt::read_to_end(&mut raw.io, &mut answer).await.unwrap();
    assert!(answer.ends_with(&[0x88, 2, 0x03, 0xea]), "{answer:?}");
}

#[tokio::test]
async fn output_waits_for_a_slow_client_and_is_not_kept() {
    let (server, mut seen) = serve().await;
    let url = server.exec(exec(&["sh", "-c", "yes | head -c 20000000; echo done >&2"])).unwrap();
    let mut client = websocket(&url, V4).await;
    see(&mut seen, &Seen::Began("exec")).await;
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    assert!(seen.try_recv().is_err(), "20 MB went somewhere although nobody reads");
    let channels = read_all(&mut client).await;
    assert_eq!(channels[1].len(), 20_000_000);
}

#[tokio::test]
async fn ports_have_two_channels_that_begin_with_the_port() {
    let (server, _) = serve().await;
    let port = echo().await;
    let url = server.port_forward(ports(&[port, 1])).unwrap();
    let mut client = websocket(&url, V4).await;
    client.send(message(0, b"ping")).await.unwrap();
    let mut channels: [Vec<u8>; 4] = Default::default();
    while channels[0].len() < 6 || channels[3].len() < 3 {
        let Message::Binary(bytes) = client.next().await.unwrap().unwrap() else { continue };
        channels[usize::from(bytes[0])].extend_from_slice(&bytes[1..]);
    }
    assert_eq!(channels[0], [&port.to_le_bytes()[..], b"ping"].concat());
    assert_eq!(channels[1], port.to_le_bytes());
    assert_eq!(channels[2], [1, 0]);
    assert!(String::from_utf8_lossy(&channels[3][2..]).contains("error forwarding port 1"));
}

/// Each connection would take a descriptor and a task for as long as the pod runs.
#[tokio::test]
async fn a_pod_that_never_closes_its_side_keeps_no_connection_of_a_client_that_has_gone() {
    let (server, mut seen) = serve().await;
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = silent.local_addr().unwrap().port();
    let url = server.port_forward(ports(&[port])).unwrap();
    let client = websocket(&url, V4).await;
    see(&mut seen, &Seen::Began("port_forward")).await;
    let (_held, _) = silent.accept().await.unwrap();
    drop(client);
    see(&mut seen, &Seen::Ended("port_forward")).await;
}

#[tokio::test]
async fn ports_of_the_url_count_when_the_request_names_none() {
    let (server, _) = serve().await;
    let port = echo().await;
    let url = format!("{}?port={port}", server.port_forward(ports(&[])).unwrap());
    let mut client = websocket(&url, V4).await;
    assert_eq!(client.next().await.unwrap().unwrap(), message(0, &port.to_le_bytes()));
    for query in ["", "?port=", "?port=0", "?port=65536", "?port=80,x"] {
        let url = format!("{}{query}", server.port_forward(ports(&[])).unwrap());
        assert_eq!(support::upgrade_websocket(&url, V4).await.status, 400, "{query}");
    }
}

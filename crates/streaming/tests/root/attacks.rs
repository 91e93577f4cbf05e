//! A user of the host opens connections to the streaming port and asks for nothing. There were 128 slots for
//! connections without a request, and the oldest made way for the newest: a kubelet that had connected and was about
//! to send its token was sent away by connections that had none, so that `kubectl exec` failed for as long as the
//! user liked.

use crate::support;

use std::net::TcpStream as Blocking;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use support::{exec, serve, upgrade_websocket};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const PATIENCE: Duration = Duration::from_secs(30);
/// As many connections at least, several times as many as there are slots.
const FLOOD: usize = 1500;

/// A client that has connected and has not been served by a processor since.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_is_slow_to_send_its_token_is_not_crowded_out() {
    let (server, _) = serve().await;
    for sent in [&b""[..], b"GET /exec/0123 HTTP", b"GET /exec/0123 HTTP/1.1\r\nHost: h\r\n"] {
        let url = server.exec(exec(&["true"])).unwrap();
        let path = url.split_once("//").unwrap().1.split_once('/').unwrap().1;
        let mut client = TcpStream::connect(server.address()).await.unwrap();
        let mut flood = Vec::new();
        for _ in 0..250 {
            let mut stream = TcpStream::connect(server.address()).await.unwrap();
            stream.write_all(sent).await.unwrap();
            flood.push(stream);
        }
        let request = format!(
            "GET /{path} HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: v4.channel.k8s.io\r\n\r\n"
        );
        client.write_all(request.as_bytes()).await.unwrap();
        let mut head = [0; 12];
        let answered = tokio::time::timeout(PATIENCE, client.read_exact(&mut head)).await;
        answered.unwrap().unwrap_or_else(|e| panic!("sent away while others sent {sent:?}: {e}"));
        assert_eq!(&head, b"HTTP/1.1 101");
    }
}

/// Many connections a second, for as long as the test runs.
#[tokio::test(flavor = "multi_thread")]
async fn clients_with_a_token_are_served_through_a_flood_of_others() {
    let (server, _) = serve().await;
    let (address, over, made) =
        (server.address(), Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let flood = |_| {
        let (over, made) = (Arc::clone(&over), Arc::clone(&made));
        std::thread::spawn(move || {
            let mut held = std::collections::VecDeque::new();
            while !over.load(Ordering::Relaxed) {
                held.extend(Blocking::connect_timeout(&address, Duration::from_secs(1)).ok());
                made.fetch_add(1, Ordering::Relaxed);
                if held.len() > 400 {
                    held.pop_front();
                }
            }
        })
    };
    let floods: Vec<_> = (0..2).map(flood).collect();
    let (mut served, mut asked) = (0, 0);
    while asked < 20 || made.load(Ordering::Relaxed) < FLOOD {
        let url = server.exec(exec(&["true"])).unwrap();
        let answer = tokio::time::timeout(PATIENCE, upgrade_websocket(&url, "v4.channel.k8s.io")).await;
        served += usize::from(answer.is_ok_and(|answer| answer.status == 101));
        asked += 1;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    over.store(true, Ordering::Relaxed);
    floods.into_iter().for_each(|flood| flood.join().unwrap());
    let made = made.load(Ordering::Relaxed);
    println!("{served} of {asked} were served through {made} others");
    assert_eq!(served, asked, "through {made} others");
}

/// A token that is not waited for is worth nothing.
#[tokio::test(flavor = "multi_thread")]
async fn connections_with_tokens_of_their_own_making_still_make_way() {
    let (server, _) = serve().await;
    let mut idle = Vec::new();
    for _ in 0..300 {
        let mut stream = TcpStream::connect(server.address()).await.unwrap();
        stream.write_all(b"GET /exec/00000000000000000000000000000000 HTTP/1.1\r\n").await.unwrap();
        idle.push(stream);
    }
    let url = server.exec(exec(&["true"])).unwrap();
    let served = tokio::time::timeout(PATIENCE, upgrade_websocket(&url, "v4.channel.k8s.io")).await;
    assert_eq!(served.unwrap().status, 101);
    let gone = tokio::time::timeout(Duration::from_secs(3), idle[0].read(&mut [0; 64])).await;
    assert_eq!(gone.unwrap().unwrap_or_default(), 0);
}

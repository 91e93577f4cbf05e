//! What a client can take from others, and from the server's memory.

use crate::support;

use std::time::Duration;

use support::{Seen, exec, serve, upgrade_websocket};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

#[tokio::test]
async fn clients_that_never_finish_their_request_do_not_keep_others_out() {
    let (server, _) = serve().await;
    let mut idle = Vec::new();
    for _ in 0..200 {
        let mut stream = tokio::net::TcpStream::connect(server.address()).await.unwrap();
        stream.write_all(b"GET /exec/").await.unwrap();
        idle.push(stream);
    }
    let url = server.exec(exec(&["true"])).unwrap();
    let served =
        tokio::time::timeout(Duration::from_secs(50), upgrade_websocket(&url, "v4.channel.k8s.io")).await;
    assert_eq!(served.unwrap().status, 101);
    assert_eq!(idle[0].read(&mut [0; 64]).await.unwrap_or_default(), 0);
}

/// Resident memory of this process, clients included.
fn resident() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

/// A data frame of SPDY or a WebSocket message, each with a payload that has hardly begun.
fn begun(transport: &str) -> Vec<u8> {
    match transport {
        "websocket" => [&[0x82, 0xff, 0, 0, 0x7f, 0, 0, 0, 0, 0][..], &[0; 4], &[0]].concat(),
        _ => vec![0, 0, 0, 3, 0, 0xff, 0xff, 0xff],
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_that_send_to_commands_that_do_not_read_take_a_bounded_memory() {
    const SESSIONS: usize = 100;
    /// Two pipes, a queue and what is read at once, with room to spare.
    const EACH: usize = 1 << 20;
    let (server, mut seen) = serve().await;
    let before = resident();
    let mut clients = Vec::new();
    for session in 0..SESSIONS {
        let url = server.exec(exec(&["wait"])).unwrap();
        let transport = ["websocket", "spdy"][session % 2];
        let mut client = match transport {
            "websocket" => upgrade_websocket(&url, "v4.channel.k8s.io").await.io,
            _ => support::spdy_command(&url).await,
        };
        support::see(&mut seen, &Seen::Began("exec")).await;
        client.write_all(&begun(transport)).await.unwrap();
        clients.push(client);
    }
    let mut sent = 0_usize;
    let piece = vec![0; 64 << 10];
    for client in &mut clients {
        let filling = async {
            loop {
                client.write_all(&piece).await.unwrap();
                sent += piece.len();
            }
        };
        let _ = tokio::time::timeout(Duration::from_millis(100), filling).await;
    }
    let grown = resident().saturating_sub(before);
    println!("{SESSIONS} clients sent {} MiB; {} MiB more are resident", sent >> 20, grown >> 20);
    assert!(grown < SESSIONS * EACH, "{grown} bytes for {SESSIONS} clients that sent {sent}");
    drop(clients);
    for _ in 0..SESSIONS {
        support::see(&mut seen, &Seen::ClientGone).await;
    }
}

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::super::frame::Head;
use super::super::headers::Headers;
use super::super::{Admission, Opened, frame, open};
use super::{Client, Storing, control};
use crate::link::Link;

fn connect() -> (Client, Link, tokio::sync::mpsc::Receiver<Opened>) {
    let (io, server) = tokio::io::duplex(1 << 16);
    let admits = |headers: &Headers| headers.get("streamtype").is_some();
    let (link, opened) = open(server, Admission { admits, most: 3 });
    (Client { io, storing: Storing::default() }, link, opened)
}

const PLAIN: &[(&str, &str)] = &[("streamtype", "data")];

#[tokio::test]
async fn a_stream_carries_both_ways_and_each_way_ends_by_itself() {
    let (mut client, _link, mut opened) = connect();
    client.open(1, PLAIN).await;
    let (kind, payload) = client.kind().await;
    assert_eq!((kind, &payload[..4]), (2, &[0, 0, 0, 1][..]));
    let mut stream = opened.recv().await.unwrap().stream.io;
    client.send(&frame::data(1, b"there")).await;
    client.send(&frame::end(1)).await;
    let mut read = String::new();
    stream.read_to_string(&mut read).await.unwrap();
    assert_eq!(read, "there");
    stream.write_all(b"back").await.unwrap();
    assert_eq!(client.next().await, (Head::Data { stream: 1, fin: false, length: 4 }, b"back".to_vec()));
    drop(stream);
    assert_eq!(client.next().await, (Head::Data { stream: 1, fin: true, length: 0 }, vec![]));
}

#[tokio::test]
async fn a_reset_stream_ends_both_ways() {
    let (mut client, _link, mut opened) = connect();
    client.open(1, PLAIN).await;
    client.kind().await;
    let mut stream = opened.recv().await.unwrap().stream;
    client.send(&frame::reset(1, 5)).await;
    assert_eq!(stream.io.read(&mut [0; 1]).await.unwrap(), 0);
    stream.drained.wait().await;
    assert!(stream.io.write_all(&[0; 10]).await.is_err());
}

#[tokio::test]
async fn streams_that_are_not_admitted_are_refused() {
    let (mut client, _link, mut opened) = connect();
    client.open(1, &[("other", "data")]).await;
    assert_eq!(client.kind().await, (3, [1_u32.to_be_bytes(), 3_u32.to_be_bytes()].concat()));
    let mut taken = Vec::new();
    for id in [3, 5, 7] {
        client.open(id, PLAIN).await;
        assert_eq!(client.kind().await.0, 2);
        taken.push(opened.recv().await.unwrap());
    }
    client.open(9, PLAIN).await;
    assert_eq!(client.kind().await.0, 3);
    client.send(&frame::reset(3, 5)).await;
    client.open(11, PLAIN).await;
    assert_eq!(client.kind().await.0, 2);
}

#[tokio::test]
async fn numbers_of_streams_are_odd_and_only_grow() {
    let (mut client, _link, mut opened) = connect();
    client.open(5, PLAIN).await;
    client.kind().await;
    opened.recv().await.unwrap();
    for id in [5, 3, 8] {
        client.open(id, PLAIN).await;
        loop {
            match client.next().await {
                (Head::Control { kind, .. }, payload) => {
                    assert_eq!((kind, payload), (3, [id.to_be_bytes(), 1_u32.to_be_bytes()].concat()));
                    break;
                }
                (Head::Data { .. }, _) => {}
            }
        }
    }
}

#[tokio::test]
async fn after_go_away_no_stream_is_taken() {
    let (mut client, _link, _opened) = connect();
    client.send(&frame::go_away()).await;
    client.open(1, PLAIN).await;
    assert_eq!(client.kind().await.0, 3);
}

#[tokio::test]
async fn pings_of_the_client_are_answered_and_answers_are_not() {
    let (mut client, _link, _opened) = connect();
    client.send(&frame::ping(2)).await;
    client.send(&control(4, 0, &[0, 0, 0, 0])).await;
    client.send(&frame::ping(7)).await;
    assert_eq!(client.kind().await, (6, 7_u32.to_be_bytes().to_vec()));
}

#[tokio::test]
async fn windows_are_opened_for_what_was_taken() {
    let (mut client, _link, mut opened) = connect();
    client.open(1, PLAIN).await;
    client.kind().await;
    let _stream = opened.recv().await.unwrap();
    client.send(&frame::data(1, &[0; 40_000])).await;
    let mut frames = [0; 32];
    client.io.read_exact(&mut frames).await.unwrap();
    let more = |stream: u32, at: usize| {
        let sum = u32::from_be_bytes(frames[at + 12..at + 16].try_into().unwrap());
        assert!((32_768..=40_000).contains(&sum));
        assert_eq!(frames[at..at + 16], frame::window_update(stream, sum));
    };
    more(0, 0);
    more(1, 16);
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_is_not_read_makes_the_client_wait() {
    let (mut client, _link, mut opened) = connect();
    client.open(1, PLAIN).await;
    client.kind().await;
    let mut stream = opened.recv().await.unwrap().stream.io;
    let (mut reader, mut writer) = tokio::io::split(client.io);
    let reading = tokio::spawn(async move { tokio::io::copy(&mut reader, &mut tokio::io::sink()).await });
    let mut sent = 0_usize;
    let piece = frame::data(1, &[7; 10_000]);
    while tokio::time::timeout(Duration::from_secs(60), writer.write_all(&piece)).await.is_ok() {
        sent += 1;
        assert!(sent < 30, "300 kB were taken without a reader");
    }
    let mut bytes = vec![0; 10_000 * sent];
    stream.read_exact(&mut bytes).await.unwrap();
    assert!(bytes.iter().all(|byte| *byte == 7));
    reading.abort();
}

#[tokio::test]
async fn a_client_that_violates_the_protocol_is_gone() {
    let (mut client, link, mut opened) = connect();
    client.open(1, PLAIN).await;
    client.kind().await;
    let mut stream = opened.recv().await.unwrap().stream.io;
    client.send(&[0xff; 8]).await;
    assert_eq!(stream.read(&mut [0; 1]).await.unwrap(), 0);
    assert!(link.gone().wait_for(|gone| *gone).await.is_ok());
    assert!(opened.recv().await.is_none());
}

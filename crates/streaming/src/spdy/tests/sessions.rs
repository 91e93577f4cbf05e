use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::AsyncWriteExt;

use super::super::frame::Head;
use super::super::{frame, sessions};
use super::{Client, Storing};
use crate::command::{Asked, Verdict};
use crate::handler::{Answer, AttachRequest, Connection, Ended, ExecRequest, Handler, Streams};

/// Answers at once.
struct Prompt;

impl Handler for Prompt {
    fn exec(&self, request: ExecRequest, mut streams: Streams) -> Answer<'_, Ended> {
        Box::pin(async move {
            let stdout = streams.stdout.as_mut().ok_or("no output")?;
            stdout.write_all(request.container.as_bytes()).await.map_err(|e| e.to_string())?;
            Ok(Ended::Code(9))
        })
    }

    fn attach(&self, _: AttachRequest, _: Streams) -> Answer<'_, ()> {
        Box::pin(async { Err("nothing to attach to".to_owned()) })
    }

    fn port_forward(&self, _: String, port: u16, _: Connection) -> Answer<'_, ()> {
        Box::pin(async move { Err(format!("no listener at {port}")) })
    }
}

fn prompt() -> Arc<dyn Handler> {
    Arc::new(Prompt)
}

#[tokio::test]
async fn a_command_begins_when_all_its_streams_are_there() {
    let (io, server) = tokio::io::duplex(1 << 16);
    let asked = ExecRequest {
        container: "c".into(),
        command: vec!["x".into()],
        tty: true,
        stdin: false,
        stdout: true,
        stderr: false,
    };
    let session = tokio::spawn(async move {
        let (asked, resizing) = (Asked::Exec(asked), sessions::Resizing::Possible);
        sessions::command(server, &prompt(), asked, resizing, Verdict::Json).await;
    });
    let mut client = Client { io, storing: Storing::default() };
    for (id, role) in [(1, "error"), (3, "stdout"), (5, "resize")] {
        client.open(id, &[("streamtype", role)]).await;
        assert_eq!(client.kind().await.0, 2);
    }
    let mut said: [Vec<u8>; 6] = Default::default();
    while let (Head::Data { stream, .. }, payload) = client.next().await {
        said[usize::try_from(stream).unwrap()].extend(payload);
    }
    assert_eq!(said[3], b"c");
    assert!(String::from_utf8_lossy(&said[1]).contains("\"ExitCode\",\"message\":\"9\""));
    drop(client);
    session.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_command_whose_streams_do_not_come_is_given_up() {
    let (io, server) = tokio::io::duplex(1 << 16);
    let asked = AttachRequest { container: "c".into(), tty: false, stdin: true, stdout: true, stderr: true };
    let session = tokio::spawn(async move {
        let (asked, resizing) = (Asked::Attach(asked), sessions::Resizing::Possible);
        sessions::command(server, &prompt(), asked, resizing, Verdict::Json).await;
    });
    let mut client = Client { io, storing: Storing::default() };
    client.open(1, &[("streamtype", "error")]).await;
    while client.kind_or_data().await != Some(7) {}
    session.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn half_a_connection_is_given_up_with_words() {
    let (io, server) = tokio::io::duplex(1 << 16);
    let session = tokio::spawn(async move { sessions::forward(server, &prompt(), "s".into()).await });
    let mut client = Client { io, storing: Storing::default() };
    let headers = |purpose| [("streamtype", purpose), ("port", "80"), ("requestid", "4")];
    client.open(1, &headers("error")).await;
    let mut said = Vec::new();
    loop {
        match client.next().await {
            (Head::Data { stream: 1, fin: true, .. }, _) => break,
            (Head::Data { stream: 1, .. }, payload) => said.extend(payload),
            _ => {}
        }
    }
    assert_eq!(String::from_utf8(said).unwrap(), "the second stream did not come");
    client.open(3, &headers("error")).await;
    client.open(5, &headers("data")).await;
    let mut said = Vec::new();
    let mut open = 2;
    while open > 0 {
        match client.next().await {
            (Head::Data { fin: true, .. }, _) => open -= 1,
            (Head::Data { stream: 3, .. }, payload) => said.extend(payload),
            _ => {}
        }
    }
    assert_eq!(String::from_utf8(said).unwrap(), "error forwarding port 80 to pod s: no listener at 80");
    for (id, wrong) in [(7, "0"), (9, "65536"), (11, "")] {
        client.open(id, &[("streamtype", "data"), ("port", wrong)]).await;
        while client.kind_or_data().await != Some(3) {}
    }
    drop(client);
    session.await.unwrap();
}

/// Holds every connection for ever, and counts them.
#[derive(Default)]
struct Holding(AtomicUsize);

impl Handler for Holding {
    fn exec(&self, _: ExecRequest, _: Streams) -> Answer<'_, Ended> {
        Box::pin(std::future::pending())
    }

    fn attach(&self, _: AttachRequest, _: Streams) -> Answer<'_, ()> {
        Box::pin(std::future::pending())
    }

    fn port_forward(&self, _: String, _: u16, _: Connection) -> Answer<'_, ()> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Box::pin(std::future::pending())
    }
}

#[tokio::test]
async fn a_client_that_resets_what_it_opens_gets_no_more_connections_than_others() {
    let (io, server) = tokio::io::duplex(1 << 16);
    let holding = Arc::new(Holding::default());
    let handler: Arc<dyn Handler> = holding.clone();
    let session = tokio::spawn(async move { sessions::forward(server, &handler, "s".into()).await });
    let (reader, writer) = tokio::io::split(io);
    let mut answers = Client { io: reader, storing: Storing::default() };
    let pong = (Head::Control { kind: 6, flags: 0, length: 4 }, vec![0, 0, 0, 1]);
    let reading = tokio::spawn(async move { while answers.next().await != pong {} });
    let mut client = Client { io: writer, storing: Storing::default() };
    for request in 0..1000_u32 {
        let name = request.to_string();
        for (id, purpose) in [(4 * request + 1, "error"), (4 * request + 3, "data")] {
            client.open(id, &[("streamtype", purpose), ("port", "80"), ("requestid", &name)]).await;
        }
        for id in [4 * request + 1, 4 * request + 3] {
            client.send(&frame::reset(id, 5)).await;
        }
    }
    client.send(&frame::ping(1)).await;
    reading.await.unwrap();
    assert_eq!(holding.0.load(Ordering::Relaxed), 256);
    session.abort();
}

//! What a client gets over SPDY.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use super::headers::Headers;
use super::{Admission, Opened, frame, open};
use crate::command::{self, Asked, Channels, Role, Verdict};
use crate::handler::Handler;
use crate::link::Stream;
use crate::ports;

/// How long a client may take to open the streams that belong together.
const PATIENCE: Duration = Duration::from_secs(30);

/// As many connections can one client have at a time, complete or not.
const MOST_CONNECTIONS: usize = 256;

/// Whether terminals can be resized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resizing {
    Possible,
    Impossible,
}

/// A command or an attachment.
pub(crate) async fn command<T>(
    io: T,
    handler: &Arc<dyn Handler>,
    asked: Asked,
    resizing: Resizing,
    verdict: Verdict,
) where
    T: AsyncRead + AsyncWrite + Send + 'static,
{
    let admits = |headers: &Headers| role(headers).is_some();
    let (link, mut opened) = open(io, Admission { admits, most: 8 });
    let mut roles = asked.roles();
    if asked.tty() && resizing == Resizing::Possible {
        roles.push(Role::Resize);
    }
    let channels = timeout(PATIENCE, gather(&roles, &mut opened)).await;
    drop(opened);
    if let Ok(Some(channels)) = channels {
        command::run(handler, asked, channels, verdict, link.gone()).await;
    }
    link.close(frame::go_away()).await;
}

fn role(headers: &Headers) -> Option<Role> {
    headers.get("streamtype").and_then(Role::named)
}

/// All that are wanted; `None` if the client has gone before. What was not asked for is closed.
async fn gather(wanted: &[Role], opened: &mut mpsc::Receiver<Opened>) -> Option<Channels> {
    let mut channels = Channels::default();
    while !wanted.iter().all(|role| channels.has(*role)) {
        let Opened { headers, stream, .. } = opened.recv().await?;
        if let Some(role) = role(&headers).filter(|role| wanted.contains(role)) {
            channels.add(role, stream);
        }
    }
    Some(channels)
}

/// Connections to ports: each has two streams, one for data and one for errors, with the same request's number.
pub(crate) async fn forward<T>(io: T, handler: &Arc<dyn Handler>, sandbox: String)
where
    T: AsyncRead + AsyncWrite + Send + 'static,
{
    let admits = |headers: &Headers| port(headers).is_some() && purpose(headers).is_some();
    let (link, mut opened) = open(io, Admission { admits, most: 2 * MOST_CONNECTIONS });
    let mut running = JoinSet::new();
    let mut pairs = Pairs::default();
    loop {
        tokio::select! {
            next = timeout(PATIENCE, opened.recv()) => match next {
                Ok(Some(next)) => if let Some(pair) = pairs.add(next, running.len()).await {
                    let (handler, sandbox) = (Arc::clone(handler), sandbox.clone());
                    let Pair { port, data, error } = pair;
                    running.spawn(async move { ports::connect(&handler, sandbox, port, data, error).await });
                },
                Ok(None) => break,
                Err(_) => {}
            },
            Some(_) = running.join_next() => {}
        }
        pairs.forget_overdue().await;
    }
    // The client has gone: a pod that never closes its side would keep the connections for ever.
    running.shutdown().await;
    link.close(frame::go_away()).await;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    Data,
    Error,
}

fn port(headers: &Headers) -> Option<u16> {
    headers.get("port")?.parse().ok().filter(|port| *port != 0)
}

fn purpose(headers: &Headers) -> Option<Purpose> {
    match headers.get("streamtype")? {
        "data" => Some(Purpose::Data),
        "error" => Some(Purpose::Error),
        _ => None,
    }
}

/// The number of the request that a stream belongs to. Old clients give none: they open a pair at a time, the errors
/// first, and streams have odd numbers.
fn request(id: u32, headers: &Headers, purpose: Purpose) -> String {
    match (headers.get("requestid"), purpose) {
        (Some(request), _) if !request.is_empty() => request.to_owned(),
        (_, Purpose::Error) => id.to_string(),
        (_, Purpose::Data) => id.saturating_sub(2).to_string(),
    }
}

/// Streams whose other half has not come yet.
#[derive(Default)]
struct Pairs {
    waiting: HashMap<String, Half>,
}

struct Half {
    purpose: Purpose,
    stream: Stream,
    since: Instant,
}

/// The two streams of one connection to a port.
struct Pair {
    port: u16,
    data: Stream,
    error: Stream,
}

impl Pairs {
    /// The pair that this stream completes.
    async fn add(&mut self, opened: Opened, running: usize) -> Option<Pair> {
        let Opened { id, headers, stream } = opened;
        let (port, purpose) = (port(&headers)?, purpose(&headers)?);
        let request = request(id, &headers, purpose);
        let Some(first) = self.waiting.remove(&request) else {
            let half = Half { purpose, stream, since: Instant::now() };
            if self.waiting.len() + running < MOST_CONNECTIONS {
                self.waiting.insert(request, half);
            } else {
                half.refuse("too many connections at a time").await;
            }
            return None;
        };
        match (first.purpose, purpose) {
            (Purpose::Error, Purpose::Data) => Some(Pair { port, data: stream, error: first.stream }),
            (Purpose::Data, Purpose::Error) => Some(Pair { port, data: first.stream, error: stream }),
            _ => {
                first.refuse("two streams for one purpose").await;
                None
            }
        }
    }

    async fn forget_overdue(&mut self) {
        let overdue: Vec<_> = self.waiting.extract_if(|_, half| half.since.elapsed() >= PATIENCE).collect();
        for (_, half) in overdue {
            half.refuse("the second stream did not come").await;
        }
    }
}

impl Half {
    /// Says why, where errors are said, and closes the stream.
    async fn refuse(mut self, cause: &str) {
        if self.purpose == Purpose::Error {
            // The stream is empty, so this does not wait.
            let _ = self.stream.io.write_all(cause.as_bytes()).await;
        }
    }
}

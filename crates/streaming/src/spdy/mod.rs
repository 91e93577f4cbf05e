//! SPDY/3.1, as far as Kubernetes' clients speak it: a client opens streams, each with headers that say what it is
//! for.
//!
//! Those clients know no windows: they send without looking at ours and never open theirs. So we do not wait for a
//! client's windows, and what bounds the memory here is that a connection is not read while one of its streams is
//! full. Windows are still opened, for a client that does look.

pub(crate) mod client;
mod dictionary;
pub(crate) mod frame;
pub(crate) mod headers;
mod inbound;
pub(crate) mod sessions;
#[cfg(test)]
mod tests;

use tokio::io::{AsyncRead, AsyncWrite, BufReader};
use tokio::sync::mpsc;

use crate::link::{self, CHUNK, Carrier, Link, Stream};
use headers::Headers;
use inbound::Inbound;

/// A stream that a client has opened.
pub(crate) struct Opened {
    pub(crate) id: u32,
    pub(crate) headers: Headers,
    pub(crate) stream: Stream,
}

/// Which streams are taken.
#[derive(Clone, Copy)]
pub(crate) struct Admission {
    /// Whether one with these headers is.
    pub(crate) admits: fn(&Headers) -> bool,
    /// How many can be open at a time.
    pub(crate) most: usize,
}

/// A connection after its upgrade. Streams come out of the queue until it is dropped; later ones are refused.
pub(crate) fn open<T>(io: T, admission: Admission) -> (Link, mpsc::Receiver<Opened>)
where
    T: AsyncRead + AsyncWrite + Send + 'static,
{
    let (sender, opened) = mpsc::channel(1);
    (Link::start(|carrier| carry(io, carrier, admission, sender)), opened)
}

async fn carry<T>(io: T, carrier: Carrier, admission: Admission, opened: mpsc::Sender<Opened>)
where
    T: AsyncRead + AsyncWrite,
{
    let Carrier { mut frames, outlet, gone } = carrier;
    let (reader, writer) = tokio::io::split(io);
    let mut reader = BufReader::with_capacity(CHUNK, reader);
    let inbound = Inbound::new(admission, opened, outlet);
    let heartbeat = frame::ping(2);
    let closed = tokio::select! {
        _ = inbound.run(&mut reader) => false,
        written = link::write(writer, &mut frames, &heartbeat) => written.is_ok(),
    };
    drop(gone);
    if closed {
        link::linger(&mut reader).await;
    }
}

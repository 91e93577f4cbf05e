//! WebSocket: messages of a client go into channels, piece by piece, so that a message of any length takes no more
//! memory than a short one.

mod coding;
pub(crate) mod frame;
mod inbound;
pub(crate) mod sessions;

use tokio::io::{AsyncRead, AsyncWrite, BufReader};

use crate::link::{self, CHUNK, Carrier, Link, Stream};
pub(crate) use coding::Coding;
use inbound::Inbound;

/// What is in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// A channel's number, then what goes there.
    Channels(Coding, Closing),
    /// Bytes of one stream.
    Tunnel,
}

/// Whether a client can close a channel: by a message of two bytes, 255 and the channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Closing {
    Possible,
    Impossible,
}

/// A WebSocket after its handshake, and its streams in the order of `channels`.
pub(crate) fn open<T>(io: T, layout: Layout, channels: &[u8]) -> (Link, Vec<Stream>)
where
    T: AsyncRead + AsyncWrite + Send + 'static,
{
    let (streams, ends): (Vec<_>, Vec<_>) = channels
        .iter()
        .map(|channel| {
            let (stream, ends) = link::stream();
            (stream, (*channel, ends))
        })
        .unzip();
    let link = Link::start(|carrier| carry(io, carrier, layout, ends));
    (link, streams)
}

async fn carry<T>(io: T, carrier: Carrier, layout: Layout, ends: Vec<(u8, link::Ends)>)
where
    T: AsyncRead + AsyncWrite,
{
    let Carrier { mut frames, outlet, gone } = carrier;
    let (reader, writer) = tokio::io::split(io);
    let mut reader = BufReader::with_capacity(CHUNK, reader);
    let inbound = Inbound::new(layout, ends, outlet, gone);
    let closed = tokio::select! {
        _ = inbound.run(&mut reader) => false,
        written = link::write(writer, &mut frames, &frame::PING) => written.is_ok(),
    };
    if closed {
        link::linger(&mut reader).await;
    }
}

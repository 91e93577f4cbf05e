//! What comes from a client.

use std::collections::HashMap;
use std::io;

use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, DuplexStream, WriteHalf};
use tokio::task::JoinSet;

use super::coding::{Coding, Decoder};
use super::frame::{self, Head, Kind, LONGEST_HEAD, NORMAL, PROTOCOL_ERROR};
use super::{Closing, Layout};
use crate::link::{CHUNK, Ends, Frame, Gone, Outlet};

/// Where the rest of a message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rest {
    /// Its first byte says so.
    Unknown,
    Channel(u8),
    /// Its next byte names the channel that is closed.
    Closing,
    Nowhere,
}

/// Takes a client's frames in.
pub(super) struct Inbound {
    layout: Layout,
    rest: Rest,
    decoder: Decoder,
    inlets: HashMap<u8, WriteHalf<DuplexStream>>,
    pumps: JoinSet<()>,
    outlet: Outlet,
    gone: Gone,
}

impl Inbound {
    pub(super) fn new(layout: Layout, ends: Vec<(u8, Ends)>, outlet: Outlet, gone: Gone) -> Self {
        let mut pumps = JoinSet::new();
        let mut inlets = HashMap::new();
        for (channel, Ends { inlet, source }) in ends {
            let wrap = move |piece: &[u8]| match layout {
                Layout::Channels(coding, _) => coding.message(channel, piece),
                Layout::Tunnel => frame::binary(&[], piece),
            };
            pumps.spawn(source.pump(outlet.clone(), wrap, None));
            inlets.insert(channel, inlet);
        }
        Self { layout, rest: start(layout), decoder: Decoder::default(), inlets, pumps, outlet, gone }
    }

    /// Until the client has gone.
    pub(super) async fn run<R: AsyncBufRead + Unpin>(mut self, reader: &mut R) -> io::Result<()> {
        loop {
            let Some(head) = read_head(reader).await? else {
                return self.end(PROTOCOL_ERROR).await;
            };
            match head.kind {
                Kind::Close => return self.end(NORMAL).await,
                Kind::Ping | Kind::Pong => self.control(&head, reader).await?,
                Kind::Continuation | Kind::Text | Kind::Binary => self.data(&head, reader).await?,
            }
        }
    }

    async fn control<R: AsyncBufRead + Unpin>(&mut self, head: &Head, reader: &mut R) -> io::Result<()> {
        let mut payload = Vec::new();
        reader.take(head.length).read_to_end(&mut payload).await?;
        head.unmask(&mut payload, 0);
        if head.kind == Kind::Ping {
            let _ = self.outlet.send(Frame::More(frame::pong(&payload))).await;
        }
        Ok(())
    }

    async fn data<R: AsyncBufRead + Unpin>(&mut self, head: &Head, reader: &mut R) -> io::Result<()> {
        let mut piece = Vec::new();
        let mut at = 0;
        while at < head.length {
            let there = reader.fill_buf().await?;
            let left = usize::try_from(head.length - at).unwrap_or(usize::MAX);
            let Some(taken) = there.get(..there.len().min(left).min(CHUNK)).filter(|taken| !taken.is_empty())
            else {
                return Err(io::ErrorKind::UnexpectedEof.into());
            };
            piece.clear();
            piece.extend_from_slice(taken);
            reader.consume(piece.len());
            head.unmask(&mut piece, at);
            at += u64::try_from(piece.len()).unwrap_or_default();
            self.take(&piece).await;
        }
        if head.fin {
            self.rest = start(self.layout);
            self.decoder = Decoder::default();
        }
        Ok(())
    }

    /// A piece of a message. It waits while its channel is full: then the client has to.
    async fn take(&mut self, piece: &[u8]) {
        let mut piece = piece;
        while let Some((&first, rest)) = piece.split_first() {
            match self.rest {
                Rest::Unknown => {
                    self.rest = self.destination(first);
                    piece = rest;
                }
                Rest::Closing => {
                    if let Some(mut inlet) = self.inlets.remove(&first) {
                        let _ = inlet.shutdown().await;
                    }
                    self.rest = Rest::Nowhere;
                    piece = rest;
                }
                Rest::Channel(channel) => return self.deliver(channel, piece).await,
                Rest::Nowhere => return,
            }
        }
    }

    fn destination(&self, first: u8) -> Rest {
        let Layout::Channels(coding, closing) = self.layout else { return Rest::Nowhere };
        let channel = coding.channel(first);
        match (first, closing) {
            (255, Closing::Possible) => Rest::Closing,
            _ if self.inlets.contains_key(&channel) => Rest::Channel(channel),
            _ => Rest::Nowhere,
        }
    }

    async fn deliver(&mut self, channel: u8, piece: &[u8]) {
        let decoded;
        let piece = if let Layout::Channels(Coding::Base64, _) = self.layout {
            let Some(bytes) = self.decoder.take(piece) else {
                self.rest = Rest::Nowhere;
                return;
            };
            decoded = bytes;
            &decoded
        } else {
            piece
        };
        let Some(inlet) = self.inlets.get_mut(&channel) else { return };
        if inlet.write_all(piece).await.is_err() {
            // The reader is gone; the client may not know yet.
            self.inlets.remove(&channel);
        }
    }

    /// Tells the session first and the client then: the writer ends the connection when that is written.
    async fn end(&mut self, status: u16) -> io::Result<()> {
        self.inlets.clear();
        self.pumps.shutdown().await;
        self.gone.tell();
        let _ = self.outlet.send(Frame::Last(frame::close(status))).await;
        std::future::pending().await
    }
}

fn start(layout: Layout) -> Rest {
    match layout {
        Layout::Channels(..) => Rest::Unknown,
        Layout::Tunnel => Rest::Channel(0),
    }
}

/// The next frame's head; `None` if the client violates the protocol.
async fn read_head<R: AsyncBufRead + Unpin>(reader: &mut R) -> io::Result<Option<Head>> {
    let mut first = [0; 2];
    reader.read_exact(&mut first).await?;
    let mut bytes = [0; LONGEST_HEAD];
    let Some(head) = bytes.get_mut(..Head::size(first)) else { return Ok(None) };
    let Some((start, rest)) = head.split_at_mut_checked(first.len()) else { return Ok(None) };
    start.copy_from_slice(&first);
    reader.read_exact(rest).await?;
    Ok(Head::parse(head).unwrap_or(None))
}

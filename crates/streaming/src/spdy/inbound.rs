//! What comes from a client.

use std::collections::HashMap;
use std::io;

use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, DuplexStream, WriteHalf};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};

use super::frame::{self, Control, Head, Violation};
use super::headers::{Deflater, Headers, Inflater};
use super::{Admission, Opened};
use crate::link::{self, CHUNK, Ends, Frame, Outlet};

/// The server takes so many bytes before it sends a WINDOW_UPDATE for as many: half of a window's first size.
const WINDOW_STEP: u32 = 32 << 10;

/// A stream that is not over yet.
struct Open {
    /// None when the client has closed its side, or the reader is gone.
    inlet: Option<WriteHalf<DuplexStream>>,
    pump: AbortHandle,
    taken: u32,
}

/// Takes a client's frames in.
pub(super) struct Inbound {
    admission: Admission,
    opened: mpsc::Sender<Opened>,
    outlet: Outlet,
    inflater: Inflater,
    deflater: Deflater,
    streams: HashMap<u32, Open>,
    pumps: JoinSet<()>,
    /// The highest stream so far. Numbers only grow.
    last: u32,
    leaving: bool,
    taken: u32,
}

impl Inbound {
    pub(super) fn new(admission: Admission, opened: mpsc::Sender<Opened>, outlet: Outlet) -> Self {
        Self {
            admission,
            opened,
            outlet,
            inflater: Inflater::default(),
            deflater: Deflater::default(),
            streams: HashMap::new(),
            pumps: JoinSet::new(),
            last: 0,
            leaving: false,
            taken: 0,
        }
    }

    /// Until the client has gone, or has violated the protocol.
    pub(super) async fn run<R: AsyncBufRead + Unpin>(mut self, reader: &mut R) -> io::Result<()> {
        loop {
            let mut head = [0; 8];
            reader.read_exact(&mut head).await?;
            match Head::parse(head).map_err(violated)? {
                Head::Data { stream, fin, length } => {
                    self.data(stream, length, reader).await?;
                    if fin {
                        self.close(stream).await;
                    }
                }
                Head::Control { kind, flags, length } => {
                    let mut payload = vec![0; length];
                    reader.read_exact(&mut payload).await?;
                    let control =
                        Control::parse(kind, flags, &payload, &mut self.inflater).map_err(violated)?;
                    self.control(control).await;
                }
            }
        }
    }

    async fn control(&mut self, control: Control) {
        match control {
            Control::Open { stream, fin, headers } => {
                self.open(stream, headers).await;
                if fin {
                    self.close(stream).await;
                }
            }
            Control::Reset { stream } => self.reset(stream).await,
            Control::Ping { id } if id % 2 == 1 => self.send(frame::ping(id)).await,
            Control::GoAway => self.leaving = true,
            Control::Ping { .. } | Control::Other => {}
        }
    }

    async fn open(&mut self, id: u32, headers: Headers) {
        if id.is_multiple_of(2) || id <= self.last {
            return self.send(frame::reset(id, frame::PROTOCOL_ERROR)).await;
        }
        self.last = id;
        self.forget_ended();
        let room = !self.leaving && self.streams.len() < self.admission.most && !self.opened.is_closed();
        if !room || !(self.admission.admits)(&headers) {
            return self.send(frame::reset(id, frame::REFUSED)).await;
        }
        // Before anything can be sent on it.
        let reply = frame::reply(id, &self.deflater.none());
        self.send(reply).await;
        let (stream, Ends { inlet, source }) = link::stream();
        let pump =
            source.pump(self.outlet.clone(), move |piece| frame::data(id, piece), Some(frame::end(id)));
        let pump = self.pumps.spawn(pump);
        self.streams.insert(id, Open { inlet: Some(inlet), pump, taken: 0 });
        // If the receiver is gone, the session has ended already, and the pump says so.
        let _ = self.opened.send(Opened { id, headers, stream }).await;
    }

    fn forget_ended(&mut self) {
        while self.pumps.try_join_next().is_some() {}
        self.streams.retain(|_, open| open.inlet.is_some() || !open.pump.is_finished());
    }

    /// Passes data on piece by piece. It waits while the stream is full: then the client has to.
    async fn data<R: AsyncBufRead + Unpin>(
        &mut self,
        id: u32,
        length: usize,
        reader: &mut R,
    ) -> io::Result<()> {
        let mut left = length;
        while left > 0 {
            let there = reader.fill_buf().await?;
            let Some(piece) = there.get(..there.len().min(left).min(CHUNK)).filter(|piece| !piece.is_empty())
            else {
                return Err(io::ErrorKind::UnexpectedEof.into());
            };
            let taken = piece.len();
            if let Some(open) = self.streams.get_mut(&id) {
                open.take(piece).await;
            }
            reader.consume(taken);
            left -= taken;
            self.widen(id, u32::try_from(taken).unwrap_or_default());
        }
        Ok(())
    }

    /// Lets the client send on. What the queue has no room for is made up for with the next piece.
    fn widen(&mut self, id: u32, taken: u32) {
        widen(&self.outlet, 0, &mut self.taken, taken);
        if let Some(open) = self.streams.get_mut(&id) {
            widen(&self.outlet, id, &mut open.taken, taken);
        }
    }

    /// The client sends no more on this stream.
    async fn close(&mut self, id: u32) {
        if let Some(mut inlet) = self.streams.get_mut(&id).and_then(|open| open.inlet.take()) {
            let _ = inlet.shutdown().await;
        }
    }

    /// Neither side sends any more on this stream.
    async fn reset(&mut self, id: u32) {
        self.close(id).await;
        if let Some(open) = self.streams.remove(&id) {
            open.pump.abort();
        }
    }

    async fn send(&self, frame: Vec<u8>) {
        let _ = self.outlet.send(Frame::More(frame)).await;
    }
}

impl Open {
    async fn take(&mut self, piece: &[u8]) {
        if let Some(inlet) = &mut self.inlet
            && inlet.write_all(piece).await.is_err()
        {
            self.inlet = None;
        }
    }
}

fn widen(outlet: &Outlet, stream: u32, sum: &mut u32, taken: u32) {
    *sum = sum.saturating_add(taken);
    if *sum >= WINDOW_STEP && outlet.try_send(Frame::More(frame::window_update(stream, *sum))).is_ok() {
        *sum = 0;
    }
}

fn violated(violation: Violation) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, violation)
}

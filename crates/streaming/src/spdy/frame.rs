//! SPDY/3.1's frames.

use super::headers::{Headers, Inflater};

/// The longest control frame that is taken. Data can be of any length: it is not kept.
pub(crate) const LONGEST_CONTROL: usize = 16 << 10;

/// Why a stream ends before its time.
pub(crate) const PROTOCOL_ERROR: u32 = 1;
/// It was not begun.
pub(crate) const REFUSED: u32 = 3;

const VERSION: u16 = 3;
/// Streams have 31 bits.
const HIGHEST: u32 = 0x7fff_ffff;
const FIN: u8 = 1;

const SYN_STREAM: u16 = 1;
const SYN_REPLY: u16 = 2;
const RST_STREAM: u16 = 3;
const PING: u16 = 6;
const GOAWAY: u16 = 7;
const HEADERS: u16 = 8;
const WINDOW_UPDATE: u16 = 9;

/// What no client may send. There is no going on behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Violation {
    #[error("another version than 3")]
    Version,
    #[error("a control frame of {0} bytes")]
    Length(usize),
    #[error("a control frame that is not well formed")]
    Control,
    #[error("headers that are not well formed, too many or too long")]
    Headers,
}

/// The first eight bytes of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Head {
    Data { stream: u32, fin: bool, length: usize },
    Control { kind: u16, flags: u8, length: usize },
}

impl Head {
    pub(crate) fn parse(bytes: [u8; 8]) -> Result<Self, Violation> {
        let [a, b, c, d, flags, e, f, g] = bytes;
        let length = usize::try_from(u32::from_be_bytes([0, e, f, g])).unwrap_or(usize::MAX);
        if a & 0x80 == 0 {
            return Ok(Self::Data {
                stream: u32::from_be_bytes([a, b, c, d]),
                fin: flags & FIN != 0,
                length,
            });
        }
        if u16::from_be_bytes([a & 0x7f, b]) != VERSION {
            return Err(Violation::Version);
        }
        if length > LONGEST_CONTROL {
            return Err(Violation::Length(length));
        }
        Ok(Self::Control { kind: u16::from_be_bytes([c, d]), flags, length })
    }
}

/// What a client controls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Control {
    /// A new stream; `fin` if the client sends nothing on it.
    Open {
        stream: u32,
        fin: bool,
        headers: Headers,
    },
    /// A stream ends at once, both ways.
    Reset {
        stream: u32,
    },
    Ping {
        id: u32,
    },
    /// No more streams will be opened.
    GoAway,
    /// What has no meaning for us: settings, windows, and headers that come later.
    Other,
}

impl Control {
    /// Reads the rest of a control frame. Headers pass through the inflater whatever they are for: those behind them
    /// depend on it.
    pub(crate) fn parse(
        kind: u16,
        flags: u8,
        payload: &[u8],
        inflater: &mut Inflater,
    ) -> Result<Self, Violation> {
        match kind {
            SYN_STREAM => {
                let (stream, rest) = number(payload)?;
                let (_associated, rest) = number(rest)?;
                let (_priority, rest) = rest.split_first_chunk::<2>().ok_or(Violation::Control)?;
                let headers = inflater.headers(rest)?;
                Ok(Self::Open { stream: stream & HIGHEST, fin: flags & FIN != 0, headers })
            }
            SYN_REPLY | HEADERS => {
                let (_, rest) = number(payload)?;
                inflater.headers(rest)?;
                Ok(Self::Other)
            }
            RST_STREAM => {
                let (stream, rest) = number(payload)?;
                number(rest)?;
                Ok(Self::Reset { stream: stream & HIGHEST })
            }
            PING => Ok(Self::Ping { id: number(payload)?.0 }),
            GOAWAY => Ok(Self::GoAway),
            _ => Ok(Self::Other),
        }
    }
}

fn number(bytes: &[u8]) -> Result<(u32, &[u8]), Violation> {
    let (number, rest) = bytes.split_first_chunk().ok_or(Violation::Control)?;
    Ok((u32::from_be_bytes(*number), rest))
}

fn frame(start: [u8; 4], flags: u8, payload: &[u8]) -> Vec<u8> {
    let [_, a, b, c] = u32::try_from(payload.len()).unwrap_or_default().to_be_bytes();
    let mut frame = Vec::with_capacity(8 + payload.len());
    frame.extend_from_slice(&start);
    frame.extend_from_slice(&[flags, a, b, c]);
    frame.extend_from_slice(payload);
    frame
}

fn control(kind: u16, payload: &[u8]) -> Vec<u8> {
    let [a, b] = (0x8000 | VERSION).to_be_bytes();
    let [c, d] = kind.to_be_bytes();
    frame([a, b, c, d], 0, payload)
}

fn numbers(kind: u16, first: u32, second: u32) -> Vec<u8> {
    control(kind, &[first.to_be_bytes(), second.to_be_bytes()].concat())
}

/// A piece of a stream, shorter than 16 MiB.
pub(crate) fn data(stream: u32, piece: &[u8]) -> Vec<u8> {
    frame(stream.to_be_bytes(), 0, piece)
}

/// The end of a stream.
pub(crate) fn end(stream: u32) -> Vec<u8> {
    frame(stream.to_be_bytes(), FIN, &[])
}

/// A client's new stream. `headers` is what a [`super::headers::Deflater`] made.
pub(crate) fn open(stream: u32, headers: &[u8]) -> Vec<u8> {
    control(SYN_STREAM, &[stream.to_be_bytes().as_slice(), &[0; 6], headers].concat())
}

/// A stream is taken. `headers` is what a [`super::headers::Deflater`] made.
pub(crate) fn reply(stream: u32, headers: &[u8]) -> Vec<u8> {
    control(SYN_REPLY, &[&stream.to_be_bytes(), headers].concat())
}

/// A stream is over, for this reason.
pub(crate) fn reset(stream: u32, status: u32) -> Vec<u8> {
    numbers(RST_STREAM, stream, status)
}

/// A ping, or its answer. Those of a server have even numbers.
pub(crate) fn ping(id: u32) -> Vec<u8> {
    control(PING, &id.to_be_bytes())
}

/// The connection ends, well. All streams of the client were seen: it need not try again.
pub(crate) fn go_away() -> Vec<u8> {
    numbers(GOAWAY, HIGHEST, 0)
}

/// The client may send so much more, on a stream or (0) on all.
pub(crate) fn window_update(stream: u32, more: u32) -> Vec<u8> {
    numbers(WINDOW_UPDATE, stream, more)
}

//! The client's end of a session over SPDY: the streams that it opens, and what the server sends on them.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt};

use super::frame::{self, Head};
use super::headers::Deflater;
use crate::command::Role;

/// What is read of a piece of data at once.
const PIECE: usize = 32 << 10;
const PING: u16 = 6;
const RESET: u16 = 3;

/// The number of a stream. A client's are odd, and grow in the order in which it opens them.
pub(crate) fn stream_of(role: Role) -> u32 {
    match role {
        Role::Error => 1,
        Role::Stdin => 3,
        Role::Stdout => 5,
        Role::Stderr => 7,
        Role::Resize => 9,
    }
}

/// Opens these streams, in whatever order they are given.
pub(crate) fn opening(roles: &[Role]) -> Vec<u8> {
    let mut deflater = Deflater::default();
    let mut roles = roles.to_vec();
    roles.sort_by_key(|role| stream_of(*role));
    let open = |role: Role| frame::open(stream_of(role), &deflater.block(&[("streamtype", role.name())]));
    roles.into_iter().flat_map(open).collect()
}

/// What a server sends.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Event<'a> {
    /// A piece of a stream.
    Data { stream: u32, piece: &'a [u8] },
    /// The server sends no more on this stream.
    Ended(u32),
    /// A ping of the server, which wants this frame for an answer.
    Ping(Vec<u8>),
    /// What has no meaning for us.
    Other,
}

/// Reads what a server sends, in pieces of bounded size.
pub(crate) struct Events<R> {
    reader: R,
    buffer: Vec<u8>,
    /// The data frame whose payload is being read.
    begun: Option<Begun>,
}

#[derive(Debug, Clone, Copy)]
struct Begun {
    stream: u32,
    left: usize,
    is_last: bool,
}

impl<R: AsyncRead + Unpin> Events<R> {
    pub(crate) fn new(reader: R) -> Self {
        Self { reader, buffer: vec![0; PIECE], begun: None }
    }

    /// The next one; `None` at the end of the connection.
    pub(crate) async fn next(&mut self) -> io::Result<Option<Event<'_>>> {
        if let Some(begun) = self.begun.take() {
            return self.piece(begun).await.map(Some);
        }
        let mut head = [0; 8];
        match self.reader.read_exact(&mut head).await {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            read => read.map(drop)?,
        }
        match Head::parse(head).map_err(io::Error::other)? {
            Head::Data { stream, fin, length } => {
                self.piece(Begun { stream, left: length, is_last: fin }).await.map(Some)
            }
            Head::Control { kind, length, .. } => {
                let mut payload = vec![0; length];
                self.reader.read_exact(&mut payload).await?;
                let number = payload.first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes));
                Ok(Some(match kind {
                    // A server's have even numbers.
                    PING if number.is_multiple_of(2) => Event::Ping(frame::ping(number)),
                    RESET => Event::Ended(number),
                    _ => Event::Other,
                }))
            }
        }
    }

    async fn piece(&mut self, begun: Begun) -> io::Result<Event<'_>> {
        let Begun { stream, left, is_last } = begun;
        if left == 0 {
            return Ok(if is_last { Event::Ended(stream) } else { Event::Other });
        }
        let most = left.min(self.buffer.len());
        let read = self.reader.read(self.buffer.get_mut(..most).unwrap_or_default()).await?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let left = left.saturating_sub(read);
        self.begun = (left > 0 || is_last).then_some(Begun { stream, left, is_last });
        Ok(Event::Data { stream, piece: self.buffer.get(..read).unwrap_or_default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn data_comes_in_pieces_and_then_its_end() {
        let mut sent = frame::data(5, &vec![7; PIECE + 10]);
        sent.extend(frame::ping(2));
        sent.extend(frame::ping(3));
        sent.extend(frame::end(5));
        sent.extend(frame::reset(7, 5));
        let mut last = frame::data(1, b"no");
        last[4] = 1;
        sent.extend(last);
        let mut events = Events::new(&sent[..]);
        let mut lengths = Vec::new();
        while let Some(Event::Data { stream: 5, piece }) = events.next().await.unwrap() {
            lengths.push(piece.len());
            if lengths.iter().sum::<usize>() == PIECE + 10 {
                break;
            }
        }
        assert_eq!(lengths, [PIECE, 10]);
        assert_eq!(events.next().await.unwrap(), Some(Event::Ping(frame::ping(2))));
        assert_eq!(events.next().await.unwrap(), Some(Event::Other));
        for ended in [5, 7] {
            assert_eq!(events.next().await.unwrap(), Some(Event::Ended(ended)));
        }
        assert_eq!(events.next().await.unwrap(), Some(Event::Data { stream: 1, piece: b"no" }));
        assert_eq!(events.next().await.unwrap(), Some(Event::Ended(1)));
        assert_eq!(events.next().await.unwrap(), None);
    }

    #[tokio::test]
    async fn a_frame_that_breaks_off_is_an_error() {
        let whole = frame::data(5, b"four");
        let mut events = Events::new(&whole[..10]);
        assert_eq!(events.next().await.unwrap(), Some(Event::Data { stream: 5, piece: b"fo" }));
        assert!(events.next().await.is_err());
    }
}

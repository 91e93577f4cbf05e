mod connection;
mod parse;
mod sessions;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream};

use super::frame::Head;

/// A block of headers as it is before compression.
fn block(headers: &[(&str, &str)]) -> Vec<u8> {
    let number = |length: usize| u32::try_from(length).unwrap().to_be_bytes();
    let mut block = number(headers.len()).to_vec();
    for (name, value) in headers {
        for text in [name, value] {
            block.extend(number(text.len()));
            block.extend(text.bytes());
        }
    }
    block
}

/// A client's compression: stored blocks.
#[derive(Default)]
struct Storing(bool);

impl Storing {
    fn store(&mut self, block: &[u8]) -> Vec<u8> {
        let mut stored = if self.0 { vec![] } else { vec![0x78, 0xbb, 0xe3, 0xc6, 0xa7, 0xc2] };
        self.0 = true;
        let length = u16::try_from(block.len()).unwrap();
        stored.push(0);
        stored.extend(length.to_le_bytes());
        stored.extend((!length).to_le_bytes());
        stored.extend_from_slice(block);
        stored
    }
}

fn control(kind: u16, flags: u8, payload: &[u8]) -> Vec<u8> {
    let [_, length @ ..] = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&[0x80, 3][..], &kind.to_be_bytes(), &[flags], &length, payload].concat()
}

/// A client of a few lines.
struct Client<T = DuplexStream> {
    io: T,
    storing: Storing,
}

impl<T: AsyncWrite + Unpin> Client<T> {
    async fn send(&mut self, frame: &[u8]) {
        self.io.write_all(frame).await.unwrap();
    }

    async fn open(&mut self, id: u32, headers: &[(&str, &str)]) {
        let headers = self.storing.store(&block(headers));
        let payload = [&id.to_be_bytes()[..], &[0; 6], &headers].concat();
        self.send(&control(1, 0, &payload)).await;
    }
}

impl<T: AsyncRead + Unpin> Client<T> {
    /// The next frame that is no window's, by its first eight bytes, and its payload.
    async fn next(&mut self) -> (Head, Vec<u8>) {
        loop {
            let mut head = [0; 8];
            self.io.read_exact(&mut head).await.unwrap();
            let head = Head::parse(head).unwrap();
            let (Head::Control { length, .. } | Head::Data { length, .. }) = head;
            let mut payload = vec![0; length];
            self.io.read_exact(&mut payload).await.unwrap();
            if !matches!(head, Head::Control { kind: 9, .. }) {
                return (head, payload);
            }
        }
    }

    async fn kind(&mut self) -> (u16, Vec<u8>) {
        match self.next().await {
            (Head::Control { kind, .. }, payload) => (kind, payload),
            (data, _) => panic!("{data:?}"),
        }
    }

    async fn kind_or_data(&mut self) -> Option<u16> {
        match self.next().await.0 {
            Head::Control { kind, .. } => Some(kind),
            Head::Data { .. } => None,
        }
    }
}

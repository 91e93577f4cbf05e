//! What WebSocket and SPDY have in common: a connection carries streams, each a pipe of bounded size, and all frames
//! to the client go through one short queue. A slow peer makes the other side wait; no queue grows.

use std::future::Future;
use std::io;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// What a stream holds in each direction before its writer waits.
const PIPE: usize = 64 << 10;

/// The longest payload of a frame of ours, and what is read from a client at once.
pub(crate) const CHUNK: usize = 32 << 10;

/// How many frames wait to be written.
const QUEUE: usize = 4;

/// A client that is gone is noticed by writing to it, also while the server does not read from it because a command
/// does not take its input. This is the longest time between two frames; the kernel reports on the second that the
/// first had no receiver.
const HEARTBEAT: Duration = Duration::from_secs(5);

/// How long a client may go on sending after it got the end of the session. Closing at once would make the kernel
/// discard what the client has not read yet.
const LINGER: Duration = Duration::from_secs(5);

/// A frame, ready for the wire.
pub(crate) enum Frame {
    /// More may follow.
    More(Vec<u8>),
    /// Nothing follows: the connection is closed behind it.
    Last(Vec<u8>),
}

/// Where frames to the client go.
pub(crate) type Outlet = mpsc::Sender<Frame>;

/// One stream of a connection, as a session sees it. Dropping `io` tells the client that no more comes.
pub(crate) struct Stream {
    pub(crate) io: DuplexStream,
    pub(crate) drained: Drained,
}

/// Resolves when all that was written into a stream is on its way, or cannot be.
pub(crate) struct Drained(oneshot::Receiver<()>);

impl Drained {
    pub(crate) async fn wait(self) {
        let _ = self.0.await;
    }
}

/// A stream, as its connection sees it.
pub(crate) struct Ends {
    /// Where bytes from the client go.
    pub(crate) inlet: WriteHalf<DuplexStream>,
    /// Where bytes to the client come from.
    pub(crate) source: Source,
}

/// See [`Ends`]; dropped when it is at its end.
pub(crate) struct Source {
    bytes: ReadHalf<DuplexStream>,
    _drained: oneshot::Sender<()>,
}

/// A new stream.
pub(crate) fn stream() -> (Stream, Ends) {
    let (ours, theirs) = tokio::io::duplex(PIPE);
    let (sender, receiver) = oneshot::channel();
    let (bytes, inlet) = tokio::io::split(ours);
    let source = Source { bytes, _drained: sender };
    (Stream { io: theirs, drained: Drained(receiver) }, Ends { inlet, source })
}

impl Source {
    /// Sends what comes, each piece wrapped, until the stream is at its end or the client gone; then `end`, if any.
    pub(crate) async fn pump(
        mut self,
        outlet: Outlet,
        wrap: impl Fn(&[u8]) -> Vec<u8>,
        end: Option<Vec<u8>>,
    ) {
        let mut buffer = vec![0; CHUNK];
        while let Ok(length @ 1..) = self.bytes.read(&mut buffer).await {
            let frame = wrap(buffer.get(..length).unwrap_or_default());
            if outlet.send(Frame::More(frame)).await.is_err() {
                return;
            }
        }
        if let Some(end) = end {
            let _ = outlet.send(Frame::More(end)).await;
        }
    }
}

/// A connection at work.
pub(crate) struct Link {
    outlet: Outlet,
    gone: watch::Receiver<bool>,
    carrying: JoinHandle<()>,
}

/// The part of a link that carries it: the queue's other end, and how the session learns that the client has gone.
pub(crate) struct Carrier {
    pub(crate) frames: mpsc::Receiver<Frame>,
    pub(crate) outlet: Outlet,
    pub(crate) gone: Gone,
}

/// Says that the client has gone, at the latest when it is dropped.
pub(crate) struct Gone(watch::Sender<bool>);

impl Gone {
    pub(crate) fn tell(&self) {
        self.0.send_replace(true);
    }
}

impl Drop for Gone {
    fn drop(&mut self) {
        self.tell();
    }
}

impl Link {
    /// Starts what `carry` makes.
    pub(crate) fn start<F>(carry: impl FnOnce(Carrier) -> F) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (outlet, frames) = mpsc::channel(QUEUE);
        let (sender, gone) = watch::channel(false);
        let carrier = Carrier { frames, outlet: outlet.clone(), gone: Gone(sender) };
        Self { outlet, gone, carrying: tokio::spawn(carry(carrier)) }
    }

    /// Becomes true when the client has gone.
    pub(crate) fn gone(&self) -> watch::Receiver<bool> {
        self.gone.clone()
    }

    /// Sends one frame.
    pub(crate) async fn send(&self, frame: Vec<u8>) {
        let _ = self.outlet.send(Frame::More(frame)).await;
    }

    /// Closes the connection behind all that was sent, and waits until it is.
    pub(crate) async fn close(mut self, last: Vec<u8>) {
        let _ = self.outlet.send(Frame::Last(last)).await;
        let _ = (&mut self.carrying).await;
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.carrying.abort();
    }
}

/// Writes frames, and the heartbeat when there are none, until the last one.
pub(crate) async fn write<W>(
    mut io: W,
    frames: &mut mpsc::Receiver<Frame>,
    heartbeat: &[u8],
) -> io::Result<()>
where
    W: AsyncWrite + Unpin,
{
    loop {
        match timeout(HEARTBEAT, frames.recv()).await {
            Ok(Some(Frame::More(frame))) => io.write_all(&frame).await?,
            Ok(Some(Frame::Last(frame))) => {
                io.write_all(&frame).await?;
                return io.shutdown().await;
            }
            Ok(None) => return Ok(()),
            Err(_) => io.write_all(heartbeat).await?,
        }
        io.flush().await?;
    }
}

/// Reads from a client that got the end of the session until it closes.
pub(crate) async fn linger<R: AsyncRead + Unpin>(reader: &mut R) {
    let _ = timeout(LINGER, tokio::io::copy(reader, &mut tokio::io::sink())).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_client_that_hears_nothing_gets_a_heartbeat_every_five_seconds() {
        let (mut client, ours) = tokio::io::duplex(64);
        let (outlet, mut frames) = mpsc::channel(QUEUE);
        let began = tokio::time::Instant::now();
        let writing = tokio::spawn(async move { write(ours, &mut frames, b"beat").await });
        for beats in 1..=3 {
            let mut read = [0; 4];
            client.read_exact(&mut read).await.unwrap();
            assert_eq!(&read, b"beat");
            assert_eq!(began.elapsed().as_secs(), 5 * beats);
        }
        drop(client);
        assert!(writing.await.unwrap().is_err());
        drop(outlet);
    }

    #[tokio::test]
    async fn nothing_is_written_behind_the_last_frame() {
        let (mut client, ours) = tokio::io::duplex(64);
        let (outlet, mut frames) = mpsc::channel(QUEUE);
        for frame in [Frame::More(b"a".to_vec()), Frame::Last(b"b".to_vec()), Frame::More(b"c".to_vec())] {
            assert!(outlet.try_send(frame).is_ok());
        }
        write(ours, &mut frames, b"beat").await.unwrap();
        let mut read = String::new();
        client.read_to_string(&mut read).await.unwrap();
        assert_eq!(read, "ab");
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_never_finishes_is_not_waited_for() {
        let (client, mut ours) = tokio::io::duplex(64);
        linger(&mut ours).await;
        drop(client);
    }

    #[tokio::test]
    async fn what_a_session_writes_is_bounded_while_the_queue_is_full() {
        let (mut stream, ends) = stream();
        let (outlet, _frames) = mpsc::channel(QUEUE);
        let pump = tokio::spawn(ends.source.pump(outlet, <[u8]>::to_vec, None));
        let mut written = 0;
        while let Ok(now) = timeout(Duration::from_millis(50), stream.io.write(&[0; 1000])).await {
            written += now.unwrap();
        }
        assert!(written <= PIPE + (QUEUE + 1) * CHUNK, "{written}");
        pump.abort();
    }
}

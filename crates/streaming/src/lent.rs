//! A stream that is lent to a handler: it can be taken back, wherever the handler has moved it.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};

/// What borrower and lender share.
struct Place {
    stream: Option<DuplexStream>,
    /// The tasks that wait to read and to write: taking the stream back must wake them.
    waiting: [Option<Waker>; 2],
}

/// The operation that a task waits for.
#[derive(Clone, Copy)]
enum Way {
    In,
    Out,
}

/// The lender's side: dropping it takes the stream back, and with it tells the client that no more comes.
pub(crate) struct Lender(Arc<Mutex<Place>>);

/// The borrower's side: at its end, and closed for writing, when the stream was taken back.
pub(crate) struct Lent(Arc<Mutex<Place>>);

/// Lends a stream.
pub(crate) fn lend(stream: DuplexStream) -> (Lender, Lent) {
    let place = Arc::new(Mutex::new(Place { stream: Some(stream), waiting: [None, None] }));
    (Lender(Arc::clone(&place)), Lent(place))
}

fn lock(place: &Mutex<Place>) -> MutexGuard<'_, Place> {
    place.lock().unwrap_or_else(PoisonError::into_inner)
}

fn take_back(place: &Mutex<Place>) {
    let waiting = {
        let mut place = lock(place);
        place.stream = None;
        std::mem::take(&mut place.waiting)
    };
    waiting.into_iter().flatten().for_each(Waker::wake);
}

impl Drop for Lender {
    fn drop(&mut self) {
        take_back(&self.0);
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        take_back(&self.0);
    }
}

impl Lent {
    /// Nothing if the stream was taken back.
    fn poll<T>(
        &self,
        way: Way,
        context: &mut Context<'_>,
        poll: impl FnOnce(Pin<&mut DuplexStream>, &mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> Poll<Option<io::Result<T>>> {
        let mut place = lock(&self.0);
        let Place { stream: Some(stream), waiting: [reader, writer] } = &mut *place else {
            return Poll::Ready(None);
        };
        let polled = poll(Pin::new(stream), context);
        if polled.is_pending() {
            let waiter = match way {
                Way::In => reader,
                Way::Out => writer,
            };
            *waiter = Some(context.waker().clone());
        }
        polled.map(Some)
    }
}

impl AsyncRead for Lent {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.poll(Way::In, cx, |stream, cx| stream.poll_read(cx, buffer)).map(|read| read.unwrap_or(Ok(())))
    }
}

impl AsyncWrite for Lent {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll(Way::Out, cx, |stream, cx| stream.poll_write(cx, bytes))
            .map(|written| written.unwrap_or_else(|| Err(io::ErrorKind::BrokenPipe.into())))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll(Way::Out, cx, AsyncWrite::poll_flush).map(|flushed| flushed.unwrap_or(Ok(())))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll(Way::Out, cx, AsyncWrite::poll_shutdown).map(|shut| shut.unwrap_or(Ok(())))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn what_was_written_before_it_was_taken_back_is_still_read() {
        let (mut client, ours) = tokio::io::duplex(64);
        let (lender, mut lent) = lend(ours);
        lent.write_all(b"before").await.unwrap();
        drop(lender);
        let mut read = String::new();
        client.read_to_string(&mut read).await.unwrap();
        assert_eq!(read, "before");
        assert_eq!(lent.write(b"after").await.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }

    #[tokio::test]
    async fn those_who_wait_are_woken_when_it_is_taken_back() {
        let (_client, ours) = tokio::io::duplex(1);
        let (lender, lent) = lend(ours);
        let (mut reader, mut writer) = tokio::io::split(lent);
        let reading = tokio::spawn(async move { reader.read(&mut [0; 8]).await.unwrap() });
        let writing = tokio::spawn(async move { writer.write_all(b"too long").await.unwrap_err().kind() });
        tokio::task::yield_now().await;
        drop(lender);
        assert_eq!(reading.await.unwrap(), 0);
        assert_eq!(writing.await.unwrap(), io::ErrorKind::BrokenPipe);
    }
}

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

/// When a connection has carried something last. Clones are of the same connection.
#[derive(Debug, Clone)]
pub(super) struct Activity(Arc<Mutex<Instant>>);

impl Activity {
    pub(super) fn begin() -> Self {
        Self(Arc::new(Mutex::new(Instant::now())))
    }

    fn note(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// Waits until the connection has carried nothing for this time; without one, for ever.
    pub(super) async fn idle(&self, time: Option<Duration>) {
        let Some(time) = time else { return std::future::pending().await };
        loop {
            let last = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(end) = last.checked_add(time) else { return std::future::pending().await };
            if Instant::now() >= end {
                return;
            }
            tokio::time::sleep_until(end).await;
        }
    }
}

/// A connection that notes when it carries something.
pub(super) struct Noted<T> {
    pub(super) io: T,
    pub(super) activity: Activity,
}

impl<T: AsyncRead + Unpin> AsyncRead for Noted<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.io).poll_read(context, buffer);
        if read.is_ready() {
            self.activity.note();
        }
        read
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Noted<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write(context, bytes);
        if written.is_ready() {
            self.activity.note();
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_idle_so_long_after_its_last_byte() {
        let (mut one, other) = tokio::io::duplex(64);
        let activity = Activity::begin();
        let mut noted = Noted { io: other, activity: activity.clone() };
        let begun = Instant::now();
        let carrying = async {
            for _ in 0..3 {
                tokio::time::sleep(Duration::from_secs(8)).await;
                one.write_all(b"a").await.unwrap();
                noted.read_u8().await.unwrap();
            }
            noted.write_all(b"b").await.unwrap();
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = carrying => {}
            () = activity.idle(Some(Duration::from_secs(10))) => {}
        }
        assert_eq!(begun.elapsed().as_secs(), 34);
        let never = tokio::time::timeout(Duration::from_secs(1_000_000), activity.idle(None)).await;
        assert!(never.is_err());
    }
}

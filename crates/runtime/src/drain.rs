//! Reads the rest of a pipe after its writer has exited.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

/// How long output is waited for after its writer has ended: a grandchild may keep the pipe for ever.
pub(crate) const DRAIN: Duration = Duration::from_secs(2);
/// The most that one of our pipes holds.
pub(crate) const FULL_PIPE: usize = 64 << 10;

/// Output after the writer has exited. All of its own output is in the pipe by then; output of other processes that keep
/// the pipe open is copied for a limited time.
#[derive(Default)]
pub(crate) struct Last {
    until: Option<Instant>,
    bytes: usize,
}

impl Last {
    /// The next piece, if there is one.
    pub(crate) async fn read(
        &mut self,
        from: &mut (impl AsyncRead + Unpin),
        buffer: &mut [u8],
        over: &Notify,
    ) -> Option<usize> {
        let until = match self.until {
            Some(until) => until,
            None => tokio::select! {
                biased;
                () = over.notified() => *self.until.insert(Instant::now() + DRAIN),
                read = from.read(buffer) => return read.ok(),
            },
        };
        // The time counts for the writers alone: a client that is slow still gets what is there already.
        if Instant::now() > until && self.bytes >= FULL_PIPE {
            return None;
        }
        let read = timeout_at(until, from.read(buffer)).await.ok()?.ok()?;
        self.bytes = self.bytes.saturating_add(read);
        Some(read)
    }
}

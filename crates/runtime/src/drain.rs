//! What is left in a pipe when its writer has ended.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

/// How long output is waited for after its writer has ended: a grandchild may keep the pipe for ever.
pub(crate) const DRAIN: Duration = Duration::from_secs(2);
/// The most that one of our pipes holds.
pub(crate) const FULL_PIPE: usize = 64 << 10;

/// What comes after the writer has ended. All of its own is in the pipe by then; what others write who keep the
/// pipe is carried for a while, and may not go on for ever.
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

//! Bytes between a client and a descriptor of ours.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use streaming::Writer;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::unix::pipe;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::error::{Error, Result};

/// How long input that has come may still be written after its session has ended.
const LAST_INPUT: Duration = Duration::from_secs(10);

/// Carries a session's input to a process. What has come when this is dropped is still written, if the process reads it soon: one
/// that never does would keep the pipe and the task for as long as it lives.
pub(crate) struct Input(Option<JoinHandle<()>>);

impl Input {
    pub(crate) fn carry(from: impl AsyncRead + Send + Unpin + 'static, to: Writer) -> Self {
        Self(Some(pump(from, to)))
    }
}

impl Drop for Input {
    fn drop(&mut self) {
        if let Some(carrying) = self.0.take() {
            let abort = carrying.abort_handle();
            tokio::spawn(async move {
                let _ = timeout(LAST_INPUT, carrying).await;
                abort.abort();
            });
        }
    }
}

/// Carries bytes from one to the other until one of them ends, and ends the other's input.
pub(crate) fn pump(mut from: impl AsyncRead + Send + Unpin + 'static, mut to: Writer) -> JoinHandle<()> {
    tokio::spawn(async move {
        // An error means that one side has disconnected.
        let _ = tokio::io::copy(&mut from, &mut to).await;
        let _ = to.shutdown().await;
    })
}

/// A descriptor of ours to read from as it comes.
pub(crate) fn reader(from: impl AsFd) -> Result<pipe::Receiver> {
    let own = waitless(from)?;
    pipe::Receiver::from_owned_fd_unchecked(own).map_err(failed)
}

/// A descriptor of ours to write to as it goes.
pub(crate) fn writer(to: impl AsFd) -> Result<impl AsyncWrite + Send + Unpin + 'static> {
    let own = waitless(to)?;
    pipe::Sender::from_owned_fd_unchecked(own).map_err(failed)
}

fn waitless(descriptor: impl AsFd) -> Result<OwnedFd> {
    let own = descriptor.as_fd().try_clone_to_owned().map_err(failed)?;
    rustix::io::ioctl_fionbio(&own, true).map_err(|errno| failed(errno.into()))?;
    Ok(own)
}

fn failed(cause: std::io::Error) -> Error {
    Error::step("carry a stream", cause)
}

use crate::error::{Error, Result};

/// Runs `work`, which may block on disk I/O, on a thread of tokio's blocking pool.
///
/// # Errors
/// That of `work`, or [`Error::BrokeOff`] if `work` panicked.
pub(crate) async fn blocking<T: Send + 'static>(
    what: &'static str,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    tokio::task::spawn_blocking(work).await.unwrap_or(Err(Error::BrokeOff { what }))
}

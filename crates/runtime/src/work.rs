//! How the work of a call is run.

use std::future::Future;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::error::{Error, Result};

/// Runs a function that blocks on the kernel or the disk on a thread for blocking work.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(|cause| Error::step("finish", cause))?
}

/// Runs a call to its end, also if the client disconnects, so that no operation stays half done.
pub(crate) async fn to_the_end<T: Send + 'static>(
    work: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    tokio::spawn(work).await.map_err(|cause| Error::step("finish", cause))?
}

/// Nanoseconds since 1970.
pub(crate) fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

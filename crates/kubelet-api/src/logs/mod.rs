//! `/containerLogs/{namespace}/{pod}/{container}`.

mod choice;
mod format;
mod query;
mod stream;

pub(crate) use choice::{choose, is_running};
pub(crate) use query::{LogQuery, LogStream, QueryError};
pub(crate) use stream::{LogRequest, open};

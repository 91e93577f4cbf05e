//! The log: `tracing` events, filtered by level and crate, written as lines of text or JSON.
//!
//! A pod is a span ([`pod_span`]). Events name it as their parent, so that its namespace, name and UID are in each line:
//!
//! ```
//! use tracing::info;
//! let pod = telemetry::log::pod_span("shop", "web", "f7c0");
//! info!(parent: &pod, container = "app", "started app");
//! ```

mod field;
mod filter;
mod format;
mod json;
mod read;
mod record;
mod span;
mod subscriber;
mod text;

use tracing::Span;

pub use filter::Filter;
pub use format::Format;
pub use read::LoggedError;
pub use record::{Fields, Record, SpanRecord};
pub use subscriber::{AlreadyInstalled, Log, Sink};
pub use text::{Prefix, Text};

/// The name of a pod's span.
pub const POD: &str = "pod";

/// The span of a pod. It is enabled at every level, so that warnings have the pod's fields even where nothing else is
/// logged.
#[must_use]
pub fn pod_span(namespace: &str, name: &str, uid: &str) -> Span {
    tracing::error_span!(target: "telemetry", POD, namespace, name, uid)
}

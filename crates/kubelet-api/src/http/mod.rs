//! HTTP: connections and their limits, and what each path answers; ports of this node alone, without TLS.

mod answer;
mod connection;
mod document;
mod handler;
mod healthz;
mod local_page;
mod metrics;
mod path;
mod plain;
mod route;
mod sessions;
mod slots;

pub(crate) use connection::{Secure, serve};
pub(crate) use handler::{Handler, Paths, UsageTurns};
pub(crate) use healthz::serve_healthz;
pub(crate) use local_page::serve_local_page;
pub(crate) use metrics::RequestMetrics;
pub(crate) use path::form;
pub(crate) use slots::most_connections;

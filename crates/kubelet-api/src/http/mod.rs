//! HTTP: connections and their limits, and what each path answers.

mod answer;
mod connection;
mod handler;
mod healthz;
mod metrics;
mod path;
mod route;
mod sessions;
mod slots;

pub(crate) use connection::{Secure, serve};
pub(crate) use handler::{Handler, UsageTurns};
pub(crate) use healthz::serve_healthz;
pub(crate) use metrics::RequestMetrics;
pub(crate) use path::form;
pub(crate) use slots::most_connections;

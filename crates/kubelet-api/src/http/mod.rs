//! HTTP: what each path answers. Connections and their limits are in `secure_serving`.

mod handler;
mod healthz;
mod metrics;
mod route;
mod sessions;

use secure_serving::{answer, path, slots};

pub(crate) use handler::{Handler, UsageTurns};
pub(crate) use healthz::serve_healthz;
pub(crate) use metrics::RequestMetrics;
pub(crate) use path::form;
pub(crate) use slots::most_connections;

//! HTTP: connections and their limits, and what each path answers.

mod answer;
mod connection;
mod container_logs;
mod handler;
mod healthz;
mod kept;
mod metrics;
mod node_logs;
mod path;
mod places;
mod plain;
mod read_only;
mod route;
mod sessions;
mod shown;
mod slis;
mod slots;

pub(crate) use connection::{Secure, serve};
pub(crate) use handler::Handler;
pub(crate) use healthz::{Health, serve_healthz};
pub(crate) use metrics::RequestMetrics;
pub(crate) use path::form;
pub(crate) use places::{Place, Places};
pub(crate) use read_only::{ReadOnly, serve_read_only};
pub(crate) use shown::{Limits, Shown};
pub(crate) use slis::HealthMetrics;
pub(crate) use slots::most_connections;

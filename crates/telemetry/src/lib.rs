//! The log and the metrics of a process.
//!
//! | module | what it has |
//! |---|---|
//! | [`log`] | a subscriber for `tracing` events: a filter by crate, spans, the formats text and JSON |
//! | [`metrics`] | a registry of counters, gauges and histograms, and the Prometheus text format 0.0.4 |
//!
//! Libraries emit `tracing` events and take a [`metrics::Registry`] as an argument. Only a program installs a
//! subscriber ([`log::Log::install`]) and creates the registry; there is no global registry.

pub mod log;
pub mod metrics;

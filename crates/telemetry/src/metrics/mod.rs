//! Metrics: counters, gauges and histograms in a registry that is passed to where they are counted.
//!
//! Names are written exactly as they are given, because dashboards and alerts made for a kubelet must find them: a
//! counter gets no suffix, and a gauge may be called `…_total`. A metric that costs something to find out is computed
//! when it is read ([`Collector`]).
//!
//! ```
//! use telemetry::metrics::{Description, Registry};
//! let registry = Registry::default();
//! let started = registry.counter(
//!     Description::new("kubelet_started_containers_total", "Containers that were started"),
//!     ["container_type"],
//! )?;
//! started.with(["init_container"]).increment();
//! assert!(registry.text().contains("kubelet_started_containers_total{container_type=\"init_container\"} 1\n"));
//! # Ok::<(), telemetry::metrics::Error>(())
//! ```

mod buckets;
mod error;
mod exposition;
mod family;
mod number;
mod process;
mod registry;
mod text;
mod vectors;

pub use buckets::Buckets;
pub use error::Error;
pub use exposition::{Exposition, ForeignFamily};
pub use family::{Description, Family, Kind, Snapshot};
pub use number::to_f64;
pub use process::{ProcessMetrics, ProcessStart};
pub use registry::{Collector, Registry};
pub use text::CONTENT_TYPE;
pub use vectors::{Counter, CounterVec, Gauge, GaugeVec, Histogram, HistogramVec};

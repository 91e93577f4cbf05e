//! Metrics.
//!
//! - [`Counters`]: what the controller itself does.
//! - [`ConflictMetrics`]: upstream's metric of conflicts, bounded, and the conflicts in numbers.
//! - [`ObjectSeries`]: the series of the KEP's appendix, on request.

mod conflict;
mod counters;
mod series;

pub(crate) use conflict::ConflictMetrics;
pub(crate) use counters::{Counters, Outcome};
pub(crate) use series::ObjectSeries;

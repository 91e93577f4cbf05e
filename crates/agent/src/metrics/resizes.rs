//! Resizes of pods in place.

use std::time::{Duration, Instant};

use telemetry::metrics::{Buckets, Description, Error, Gauge, HistogramVec, Registry};

/// Histogram buckets in milliseconds.
const MILLISECONDS: [f64; 14] = [
    10.0, 50.0, 100.0, 500.0, 1000.0, 2000.0, 5000.0, 10_000.0, 20_000.0, 30_000.0, 60_000.0, 120_000.0,
    300_000.0, 600_000.0,
];

/// Times and counts resizes.
#[derive(Debug, Clone)]
pub(crate) struct ResizeMetrics {
    milliseconds: HistogramVec<1>,
    in_progress: Gauge,
}

/// A pod that is resized. It is counted until this is dropped.
#[derive(Debug)]
pub(crate) struct Counted(Gauge);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.add(-1.0);
    }
}

impl ResizeMetrics {
    pub(super) fn register(registry: &Registry) -> Result<Self, Error> {
        let in_progress = registry.gauge(
            Description::new(
                "kubelet_pod_in_progress_resizes",
                "Pods that do not have their allocated resources yet",
            ),
            [],
        )?;
        Ok(Self {
            milliseconds: registry.histogram(
                Description::new(
                    "kubelet_pod_resize_duration_milliseconds",
                    "Duration in milliseconds of a try to give a pod its allocated resources",
                ),
                ["success"],
                Buckets::new(&MILLISECONDS)?,
            )?,
            in_progress: in_progress.with([]),
        })
    }

    pub(crate) fn tried(&self, begun: Instant, is_done: bool) {
        let label = if is_done { "true" } else { "false" };
        self.milliseconds.with([label]).observe(milliseconds(begun.elapsed()));
    }

    pub(crate) fn count(&self) -> Counted {
        self.in_progress.add(1.0);
        Counted(self.in_progress.clone())
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_is_counted_while_it_is_resized() {
        let registry = Registry::default();
        let metrics = ResizeMetrics::register(&registry).unwrap();
        let [first, second] = [metrics.count(), metrics.count()];
        assert!(registry.text().contains("kubelet_pod_in_progress_resizes 2\n"), "{}", registry.text());
        drop((first, second));
        metrics.tried(Instant::now(), true);
        let text = registry.text();
        assert!(text.contains("kubelet_pod_in_progress_resizes 0\n"), "{text}");
        assert!(
            text.contains("kubelet_pod_resize_duration_milliseconds_count{success=\"true\"} 1\n"),
            "{text}"
        );
    }
}

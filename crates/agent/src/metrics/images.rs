//! Image pulls, credential providers, and the removal of images.

use std::time::{Duration, Instant};

use telemetry::metrics::{Buckets, CounterVec, Description, Error, HistogramVec, Registry};

/// Histogram buckets in seconds.
const PULL_BUCKETS: [f64; 18] = [
    1.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 180.0, 240.0, 300.0, 360.0, 480.0, 600.0, 900.0, 1200.0, 1800.0,
    2700.0, 3600.0,
];

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// The `image_size_in_bytes` label of images above so many bytes, the greatest first.
const SIZES: [(u64, &str); 12] = [
    (100 * GIB, "GT100GB"),
    (60 * GIB, "60GB-100GB"),
    (40 * GIB, "40GB-60GB"),
    (30 * GIB, "30GB-40GB"),
    (20 * GIB, "20GB-30GB"),
    (10 * GIB, "10GB-20GB"),
    (5 * GIB, "5GB-10GB"),
    (GIB, "1GB-5GB"),
    (500 * MIB, "500MB-1GB"),
    (100 * MIB, "100MB-500MB"),
    (10 * MIB, "10MB-100MB"),
    (0, "0-10MB"),
];

/// Counts image pulls, runs of credential providers and removed images.
#[derive(Debug, Clone)]
pub(crate) struct ImageMetrics {
    pull_seconds: HistogramVec<1>,
    provider_errors: CounterVec<1>,
    provider_seconds: HistogramVec<1>,
    collected: CounterVec<1>,
}

impl ImageMetrics {
    pub(super) fn register(registry: &Registry) -> Result<Self, Error> {
        Ok(Self {
            collected: registry.counter(
                Description::new(
                    "kubelet_image_garbage_collected_total",
                    "Images that were removed, because they were old or for their space",
                ),
                ["reason"],
            )?,
            pull_seconds: registry.histogram(
                Description::new(
                    "kubelet_image_pull_duration_seconds",
                    "Duration of image pulls that succeeded, with the wait for their turn, by the image's size",
                ),
                ["image_size_in_bytes"],
                Buckets::new(&PULL_BUCKETS)?,
            )?,
            provider_errors: registry.counter(
                Description::new(
                    "kubelet_credential_provider_plugin_errors_total",
                    "Runs of a credential provider that failed",
                ),
                ["plugin_name"],
            )?,
            provider_seconds: registry.histogram(
                Description::new(
                    "kubelet_credential_provider_plugin_duration",
                    "Duration of runs of a credential provider",
                ),
                ["plugin_name"],
                Buckets::new(&Buckets::DEFAULT)?,
            )?,
        })
    }

    /// Records how long the pull of an image of so many bytes took.
    pub(crate) fn pulled(&self, size: u64, after: Duration) {
        self.pull_seconds.with([size_label(size)]).observe_duration(after);
    }

    /// Counts an image that was removed: for its `age`, or for `space`.
    pub(crate) fn collected(&self, reason: &'static str) {
        self.collected.with([reason]).increment();
    }

    /// Counts a run of a credential provider.
    pub(crate) fn asked_provider<T, E>(&self, name: &str, begun: Instant, outcome: &Result<T, E>) {
        self.provider_seconds.with([name]).observe_duration(begun.elapsed());
        if outcome.is_err() {
            self.provider_errors.with([name]).increment();
        }
    }
}

/// Zero is the size of an image whose size the runtime does not tell.
fn size_label(size: u64) -> &'static str {
    SIZES.into_iter().find(|(above, _)| size > *above).map_or("N/A", |(_, label)| label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_in_the_ranges_that_a_kubelet_has() {
        let labels =
            [0, 1, 10 * MIB, 10 * MIB + 1, 500 * MIB + 1, 5 * GIB, 100 * GIB, u64::MAX].map(size_label);
        let expected =
            ["N/A", "0-10MB", "0-10MB", "10MB-100MB", "500MB-1GB", "1GB-5GB", "60GB-100GB", "GT100GB"];
        assert_eq!(labels, expected);
    }
}

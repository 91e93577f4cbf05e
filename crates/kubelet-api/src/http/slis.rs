use std::sync::Arc;

use telemetry::metrics::{CounterVec, Description, Error, GaugeVec, ProcessStart, Registry};

/// The `type` label: the path that runs all checks.
const HEALTHZ: &str = "healthz";

/// Results of health checks, `/metrics/slis`. Clones are the same.
#[derive(Debug, Clone)]
pub(crate) struct HealthMetrics {
    registry: Registry,
    last: GaugeVec<2>,
    results: CounterVec<3>,
}

impl HealthMetrics {
    /// In a registry of their own.
    ///
    /// # Errors
    /// Never: the registry is empty before.
    pub(crate) fn register() -> Result<Self, Error> {
        let registry = Registry::default();
        registry.collector(Arc::new(ProcessStart))?;
        let last =
            Description::new("kubernetes_healthcheck", "1 if a check succeeded the last time, otherwise 0");
        let results = Description::new("kubernetes_healthchecks_total", "Results of health checks");
        Ok(Self {
            last: registry.gauge(last, ["name", "type"])?,
            results: registry.counter(results, ["name", "type", "status"])?,
            registry,
        })
    }

    /// Counts the result of a check.
    pub(super) fn checked(&self, name: &str, is_healthy: bool) {
        let (value, status) = if is_healthy { (1.0, "success") } else { (0.0, "error") };
        self.last.with([name, HEALTHZ]).set(value);
        self.results.with([name, HEALTHZ, status]).increment();
    }

    /// Forgets all results.
    pub(super) fn reset(&self) {
        self.last.clear();
        self.results.clear();
    }

    /// All of it in the text format of Prometheus.
    pub(super) fn text(&self) -> String {
        self.registry.text()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_result_is_shown_and_all_are_counted_until_a_reset() {
        let metrics = HealthMetrics::register().unwrap();
        for is_healthy in [true, true, false] {
            metrics.checked("ping", is_healthy);
        }
        let text = metrics.text();
        for line in [
            "kubernetes_healthcheck{name=\"ping\",type=\"healthz\"} 0\n",
            "kubernetes_healthchecks_total{name=\"ping\",type=\"healthz\",status=\"error\"} 1\n",
            "kubernetes_healthchecks_total{name=\"ping\",type=\"healthz\",status=\"success\"} 2\n",
        ] {
            assert!(text.contains(line), "{line}{text}");
        }
        metrics.reset();
        let text = metrics.text();
        assert!(!text.contains("kubernetes_") && text.contains("process_start_time_seconds"), "{text}");
    }
}

//! A text of metrics that are read when they are asked for.

use super::family::{Description, Kind};
use super::text;

/// Writes metrics in the text format of Prometheus, family by family. For values that have no place in a registry, because there
/// are others each time.
///
/// ```
/// use telemetry::metrics::{Description, Exposition, Kind};
/// let mut all = Exposition::default();
/// all.family(Description::new("pod_memory_working_set_bytes", "Working set of a pod"), Kind::Gauge);
/// all.sample(&[("namespace", "shop"), ("pod", "web")], 4096.0, Some(1_700_000_000_000));
/// assert!(all.text().ends_with("{namespace=\"shop\",pod=\"web\"} 4096 1700000000000\n"));
/// ```
#[derive(Debug, Default)]
pub struct Exposition {
    out: String,
    /// The family whose samples are written.
    name: String,
}

impl Exposition {
    /// Begins a family; its samples come next.
    pub fn family(&mut self, description: Description, kind: Kind) {
        self.named_family(description.name, description.help, kind);
    }

    /// Begins a family whose name and help come from elsewhere.
    pub fn named_family(&mut self, name: &str, help: &str, kind: Kind) {
        name.clone_into(&mut self.name);
        text::head(&mut self.out, name, help, kind);
    }

    /// Writes a sample of the family, with its time in milliseconds since 1970 if it has one.
    pub fn sample(&mut self, labels: &[(&str, &str)], value: f64, at: Option<u64>) {
        text::sample(&mut self.out, &self.name, labels, value, at);
    }

    /// All that was written.
    #[must_use]
    pub fn text(self) -> String {
        self.out
    }
}

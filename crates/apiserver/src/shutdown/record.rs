//! When the last graceful shutdown began and ended: in a kubelet's file, and as metrics.

use std::path::{Path, PathBuf};

use k8s_openapi::jiff::Timestamp;
use serde::{Deserialize, Serialize};
use telemetry::metrics::{Description, Error, Gauge, Registry};
use tracing::warn;

const FILE: &str = "graceful_node_shutdown_state";
/// How Go writes a time that is none.
const NONE: &str = "0001-01-01T00:00:00Z";

/// The times of the last graceful shutdown.
#[derive(Debug)]
pub(crate) struct ShutdownRecord {
    path: PathBuf,
    began: Gauge,
    ended: Gauge,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Times {
    start_time: String,
    end_time: String,
}

impl ShutdownRecord {
    /// Registers the metrics, with what the file in the kubelet's root directory says of the last shutdown.
    ///
    /// # Errors
    /// If the registry has one of the names already.
    pub(crate) fn open(root: &Path, registry: &Registry) -> Result<Self, Error> {
        let gauge = |name, help| Ok::<_, Error>(registry.gauge(Description::new(name, help), [])?.with([]));
        let record = Self {
            path: root.join(FILE),
            began: gauge(
                "kubelet_graceful_shutdown_start_time_seconds",
                "When the last graceful shutdown of the node began, in seconds since 1970",
            )?,
            ended: gauge(
                "kubelet_graceful_shutdown_end_time_seconds",
                "When the last graceful shutdown of the node ended, in seconds since 1970",
            )?,
        };
        match durable::read_json::<Times>(&record.path) {
            Ok(Some(times)) => record.show(&times),
            Ok(None) => {}
            Err(error) => warn!("{error}; when the last shutdown was is not known"),
        }
        Ok(record)
    }

    fn show(&self, times: &Times) {
        let seconds = |text: &str| text.parse().map_or(0.0, |time: Timestamp| seconds(time).max(0.0));
        self.began.set(seconds(&times.start_time));
        self.ended.set(seconds(&times.end_time));
    }

    /// A shutdown has begun, and has ended if that is so. What cannot be written is logged.
    pub(crate) fn write(&self, began: Timestamp, ended: Option<Timestamp>) {
        let end_time = ended.map_or_else(|| NONE.to_owned(), |ended| ended.to_string());
        let times = Times { start_time: began.to_string(), end_time };
        self.show(&times);
        if let Err(error) = durable::write_json(&self.path, &times) {
            warn!("{error}; the next process does not know of this shutdown");
        }
    }
}

#[allow(clippy::cast_precision_loss, reason = "seconds since 1970 are exact in a float")]
fn seconds(time: Timestamp) -> f64 {
    time.as_second() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_process_shows_when_the_last_shutdown_was() {
        let dir = tempfile::tempdir().unwrap();
        let first = Registry::default();
        let record = ShutdownRecord::open(dir.path(), &first).unwrap();
        let at = |second: i64| Timestamp::from_second(second).unwrap();
        record.write(at(1_772_368_205), None);
        let line =
            |name: &str, value: &str| format!("kubelet_graceful_shutdown_{name}_time_seconds {value}\n");
        let text = first.text();
        assert!(
            text.contains(&line("start", "1.772368205e+09")) && text.contains(&line("end", "0")),
            "{text}"
        );
        record.write(at(1_772_368_205), Some(at(1_772_368_210)));
        let next = Registry::default();
        ShutdownRecord::open(dir.path(), &next).unwrap();
        let text = next.text();
        assert!(
            text.contains(&line("start", "1.772368205e+09")) && text.contains(&line("end", "1.77236821e+09")),
            "{text}"
        );
        let file = std::fs::read_to_string(dir.path().join(FILE)).unwrap();
        assert_eq!(file, r#"{"startTime":"2026-03-01T12:30:05Z","endTime":"2026-03-01T12:30:10Z"}"#);
    }
}

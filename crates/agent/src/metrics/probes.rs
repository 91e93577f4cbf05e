//! Runs of probes, for a registry of their own.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lifecycle::{ProbeKind, Verdict};
use telemetry::metrics::{Buckets, CounterVec, Description, Error, HistogramVec, ProcessStart, Registry};

use crate::ports::PodRef;

/// Counts runs of probes. The labels name pods: those of a pod are removed with it, so that there are no more of them than
/// the pods of a node have probes.
#[derive(Debug, Clone)]
pub(crate) struct ProbeMetrics {
    runs: CounterVec<6>,
    seconds: HistogramVec<4>,
    held: Arc<Mutex<Held>>,
}

/// How many pods count under the same label values: one that is gone may still run its probes while a pod of the same name
/// has taken its place.
#[derive(Debug, Default)]
struct Held {
    runs: BTreeMap<[String; 6], usize>,
    seconds: BTreeMap<[String; 4], usize>,
}

/// Forgets one that counts under these label values. Returns whether it was the last.
fn release<K: Ord>(held: &mut BTreeMap<K, usize>, key: &K) -> bool {
    match held.get_mut(key) {
        Some(count) if *count > 1 => {
            *count -= 1;
            false
        }
        _ => {
            held.remove(key);
            true
        }
    }
}

impl ProbeMetrics {
    pub(crate) fn register(registry: &Registry) -> Result<Self, Error> {
        registry.collector(Arc::new(ProcessStart))?;
        Ok(Self {
            runs: registry.counter(
                Description::new("prober_probe_total", "Runs of probes that had a result, by it"),
                ["probe_type", "result", "container", "pod", "namespace", "pod_uid"],
            )?,
            seconds: registry.histogram(
                Description::new(
                    "prober_probe_duration_seconds",
                    "Duration of runs of probes that succeeded",
                ),
                ["probe_type", "container", "pod", "namespace"],
                Buckets::new(&Buckets::DEFAULT)?,
            )?,
            held: Arc::default(),
        })
    }

    /// The metrics of a pod, which are written until the value is dropped.
    pub(crate) fn of_pod(&self, pod: PodRef) -> PodProbes {
        PodProbes { metrics: self.clone(), pod, counted: Mutex::default() }
    }
}

/// Label values of a run besides those of its pod.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Series {
    container: String,
    kind: &'static str,
    result: &'static str,
}

/// Counts runs of the probes of one pod.
#[derive(Debug)]
pub(crate) struct PodProbes {
    metrics: ProbeMetrics,
    pod: PodRef,
    counted: Mutex<BTreeSet<Series>>,
}

impl PodProbes {
    /// Counts a run. One without a result does not count, and only the duration of one that succeeded does.
    pub(crate) fn ran(&self, container: &str, kind: ProbeKind, verdict: Verdict, took: Duration) {
        let result = match verdict {
            Verdict::Success => "successful",
            Verdict::Failure => "failed",
            Verdict::Error => return,
        };
        let series = Series { container: container.to_owned(), kind: label(kind), result };
        self.hold(&series);
        self.metrics.runs.with(self.of_run(&series)).increment();
        if verdict == Verdict::Success {
            self.metrics.seconds.with(self.of_duration(&series)).observe_duration(took);
        }
    }

    /// Notes that this pod counts under these label values.
    fn hold(&self, series: &Series) {
        if self.counted.lock().unwrap_or_else(PoisonError::into_inner).insert(series.clone()) {
            let mut held = self.metrics.held.lock().unwrap_or_else(PoisonError::into_inner);
            *held.runs.entry(self.of_run(series).map(str::to_owned)).or_default() += 1;
            *held.seconds.entry(self.of_duration(series).map(str::to_owned)).or_default() += 1;
        }
    }

    fn of_run<'a>(&'a self, series: &'a Series) -> [&'a str; 6] {
        let PodRef { namespace, name, uid } = &self.pod;
        [series.kind, series.result, &series.container, name, namespace, uid.as_str()]
    }

    fn of_duration<'a>(&'a self, series: &'a Series) -> [&'a str; 4] {
        [series.kind, &series.container, &self.pod.name, &self.pod.namespace]
    }
}

impl Drop for PodProbes {
    fn drop(&mut self) {
        let mut held = self.metrics.held.lock().unwrap_or_else(PoisonError::into_inner);
        for series in self.counted.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            if release(&mut held.runs, &self.of_run(series).map(str::to_owned)) {
                self.metrics.runs.remove(self.of_run(series));
            }
            if release(&mut held.seconds, &self.of_duration(series).map(str::to_owned)) {
                self.metrics.seconds.remove(self.of_duration(series));
            }
        }
    }
}

fn label(kind: ProbeKind) -> &'static str {
    match kind {
        ProbeKind::Startup => "Startup",
        ProbeKind::Liveness => "Liveness",
        ProbeKind::Readiness => "Readiness",
    }
}

#[cfg(test)]
mod tests {
    use types::PodUid;

    use super::*;

    fn pod(name: &str) -> PodRef {
        PodRef {
            namespace: "shop".to_owned(),
            name: name.to_owned(),
            uid: PodUid::new(format!("u-{name}")).unwrap(),
        }
    }

    #[test]
    fn a_run_counts_by_its_result_until_its_pod_is_gone() {
        let registry = Registry::default();
        let metrics = ProbeMetrics::register(&registry).unwrap();
        let (web, other) = (metrics.of_pod(pod("web")), metrics.of_pod(pod("other")));
        let took = Duration::from_millis(200);
        web.ran("app", ProbeKind::Liveness, Verdict::Success, took);
        web.ran("app", ProbeKind::Liveness, Verdict::Success, took);
        web.ran("app", ProbeKind::Readiness, Verdict::Failure, took);
        web.ran("app", ProbeKind::Startup, Verdict::Error, took);
        other.ran("app", ProbeKind::Liveness, Verdict::Success, took);
        let text = registry.text();
        let pod = "container=\"app\",pod=\"web\",namespace=\"shop\"";
        for line in [
            format!(
                "prober_probe_total{{probe_type=\"Liveness\",result=\"successful\",{pod},pod_uid=\"u-web\"}} 2\n"
            ),
            format!(
                "prober_probe_total{{probe_type=\"Readiness\",result=\"failed\",{pod},pod_uid=\"u-web\"}} 1\n"
            ),
            format!("prober_probe_duration_seconds_count{{probe_type=\"Liveness\",{pod}}} 2\n"),
        ] {
            assert!(text.contains(&line), "{line}{text}");
        }
        assert!(!text.contains("Startup") && !text.contains("duration_seconds_count{probe_type=\"Readiness"));
        drop(web);
        let text = registry.text();
        assert!(!text.contains("pod=\"web\"") && text.contains("pod=\"other\""), "{text}");
    }

    /// The end of a pod removed the durations of the one that had come in its place under the same name.
    #[test]
    fn a_pod_of_the_same_name_keeps_what_it_counts() {
        let registry = Registry::default();
        let metrics = ProbeMetrics::register(&registry).unwrap();
        let uid = PodUid::new("u-next").unwrap();
        let (before, after) = (metrics.of_pod(pod("web")), metrics.of_pod(PodRef { uid, ..pod("web") }));
        for probes in [&before, &before, &after] {
            probes.ran("app", ProbeKind::Liveness, Verdict::Success, Duration::from_millis(200));
        }
        let durations =
            "prober_probe_duration_seconds_count{probe_type=\"Liveness\",container=\"app\",pod=\"web\"";
        drop(before);
        let text = registry.text();
        assert!(text.contains(durations) && !text.contains("u-web") && text.contains("u-next"), "{text}");
        drop(after);
        assert!(!registry.text().contains("pod=\"web\""));
        assert!(metrics.held.lock().unwrap().runs.is_empty());
    }
}

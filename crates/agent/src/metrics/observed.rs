//! What the workers of pods have last observed in the runtime, and how their relists go.
//!
//! A kubelet lists all pods at once, once a second, and pleg_last_seen_seconds is the time of that. Here each worker lists
//! its own pod, so that it is the time of the pod whose last relist is the longest ago: it stands still when one worker
//! hangs. A node without pods has nothing to list, and shows the time of the scrape.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use telemetry::metrics::{
    Buckets, Collector, Description, Error, Family, HistogramVec, Kind, Registry, to_f64,
};

/// The `container_state` label, in the order of [`Found::containers`].
const STATES: [&str; 4] = ["created", "running", "exited", "unknown"];

/// What the runtime has of a pod.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Found {
    /// Ready sandboxes.
    pub(crate) sandboxes: u64,
    /// Containers that are created, that run, that have ended, whose state is unknown.
    pub(crate) containers: [u64; 4],
}

#[derive(Debug, Clone, Copy)]
struct Observation {
    /// When the last relist that succeeded began; `None` once the worker has ended.
    seen: Option<SystemTime>,
    found: Found,
}

#[derive(Debug, Default)]
struct Table {
    next: u64,
    pods: HashMap<u64, Observation>,
}

/// The pods of all workers. Clones are the same.
#[derive(Debug, Clone)]
pub(crate) struct ObservedPods {
    relist_seconds: HistogramVec<0>,
    interval_seconds: HistogramVec<0>,
    table: Arc<Mutex<Table>>,
}

fn lock(table: &Mutex<Table>) -> MutexGuard<'_, Table> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ObservedPods {
    pub(super) fn register(registry: &Registry) -> Result<Self, Error> {
        let histogram = |name, help| {
            registry.histogram(Description::new(name, help), [], Buckets::new(&Buckets::DEFAULT)?)
        };
        let pods = Self {
            relist_seconds: histogram(
                "kubelet_pleg_relist_duration_seconds",
                "Duration of relists of one pod",
            )?,
            interval_seconds: histogram(
                "kubelet_pleg_relist_interval_seconds",
                "Time from the begin of a relist of a pod to that of its next one",
            )?,
            table: Arc::default(),
        };
        registry.collector(Arc::new(Counts(Arc::clone(&pods.table))))?;
        Ok(pods)
    }

    /// How many containers of the pods have ended.
    pub(crate) fn dead(&self) -> u64 {
        let dead = |one: &Observation| {
            let [_, _, dead, _] = one.found.containers;
            dead
        };
        lock(&self.table).pods.values().map(dead).fold(0, u64::saturating_add)
    }

    /// Begins to observe a pod.
    pub(crate) fn add(&self) -> ObservedPod {
        let mut table = lock(&self.table);
        let number = table.next;
        table.next += 1;
        let observation = Observation { seen: Some(SystemTime::now()), found: Found::default() };
        table.pods.insert(number, observation);
        drop(table);
        ObservedPod { pods: self.clone(), number, last: Mutex::default() }
    }
}

/// A pod while it is observed. It is forgotten when this is dropped.
#[derive(Debug)]
pub(crate) struct ObservedPod {
    pods: ObservedPods,
    number: u64,
    /// When the last relist began, whatever came of it.
    last: Mutex<Option<Instant>>,
}

impl ObservedPod {
    /// Records a relist; `found` is `None` if it failed.
    pub(crate) fn relisted(&self, begun: Instant, found: Option<Found>) {
        let took = begun.elapsed();
        self.pods.relist_seconds.with([]).observe_duration(took);
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner).replace(begun);
        if let Some(last) = last {
            self.pods.interval_seconds.with([]).observe_duration(begun.saturating_duration_since(last));
        }
        if let Some(found) = found {
            let seen = SystemTime::now().checked_sub(took);
            self.set(Observation { seen, found });
        }
    }

    /// The worker has ended: nothing is relisted any more.
    pub(crate) fn rests(&self) {
        if let Some(observation) = lock(&self.pods.table).pods.get_mut(&self.number) {
            observation.seen = None;
        }
    }

    /// Nothing of the pod is left in the runtime.
    pub(crate) fn is_removed(&self) {
        self.set(Observation { seen: None, found: Found::default() });
    }

    fn set(&self, observation: Observation) {
        lock(&self.pods.table).pods.insert(self.number, observation);
    }
}

impl Drop for ObservedPod {
    fn drop(&mut self) {
        lock(&self.pods.table).pods.remove(&self.number);
    }
}

/// Counts the pods when it is asked.
struct Counts(Arc<Mutex<Table>>);

impl Collector for Counts {
    fn families(&self) -> Result<Vec<Family>, Error> {
        let gauge = |name, help, labels: &[&'static str]| {
            Family::new(Description::new(name, help), Kind::Gauge, labels)
        };
        Ok(vec![
            gauge("kubelet_running_pods", "Pods with a ready sandbox", &[])?,
            gauge("kubelet_running_containers", "Containers in the runtime, by state", &["container_state"])?,
            gauge(
                "kubelet_pleg_last_seen_seconds",
                "When the pod whose last relist is the longest ago was relisted, in seconds since 1970",
                &[],
            )?,
        ])
    }

    fn collect(&self, families: &mut [Family]) {
        let [pods, containers, last_seen] = families else { return };
        let table = lock(&self.0);
        let all = || table.pods.values();
        let running = all().filter(|pod| pod.found.sandboxes > 0).fold(0, |count: u64, _| count + 1);
        pods.sample(&[], to_f64(running));
        for (index, state) in STATES.iter().enumerate() {
            let count = all().filter_map(|pod| pod.found.containers.get(index)).sum();
            containers.sample(&[*state], to_f64(count));
        }
        let oldest = all().filter_map(|pod| pod.seen).min().unwrap_or_else(SystemTime::now);
        let since = oldest.duration_since(UNIX_EPOCH).unwrap_or_default();
        last_seen.sample(&[], to_f64(since.as_secs()));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn value(registry: &Registry, series: &str) -> f64 {
        let text = registry.text();
        let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("{series}: {text}")).parse().unwrap()
    }

    fn now() -> f64 {
        to_f64(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs())
    }

    #[test]
    fn pods_are_counted_as_last_observed_and_forgotten_when_they_are_gone() {
        let registry = Registry::default();
        let pods = ObservedPods::register(&registry).unwrap();
        assert!(value(&registry, "kubelet_running_pods") == 0.0);
        let (one, other) = (pods.add(), pods.add());
        one.relisted(Instant::now(), Some(Found { sandboxes: 1, containers: [1, 2, 0, 0] }));
        other.relisted(Instant::now(), Some(Found { sandboxes: 2, containers: [0, 1, 3, 0] }));
        let running = "kubelet_running_containers{container_state=\"running\"}";
        let exited = "kubelet_running_containers{container_state=\"exited\"}";
        assert_eq!([value(&registry, "kubelet_running_pods"), value(&registry, running)], [2.0, 3.0]);
        // The runtime does not answer: what was seen last counts.
        one.relisted(Instant::now(), None);
        assert_eq!([value(&registry, running), value(&registry, exited)], [3.0, 3.0]);
        other.is_removed();
        assert_eq!([value(&registry, running), value(&registry, exited)], [2.0, 0.0]);
        drop((one, other));
        assert_eq!([value(&registry, "kubelet_running_pods"), value(&registry, running)], [0.0, 0.0]);
        assert!(value(&registry, "kubelet_pleg_relist_duration_seconds_count") == 3.0);
        assert!(value(&registry, "kubelet_pleg_relist_interval_seconds_count") == 1.0);
    }

    #[test]
    fn the_last_relist_is_that_of_the_pod_that_waits_longest() {
        let registry = Registry::default();
        let pods = ObservedPods::register(&registry).unwrap();
        let last_seen = || value(&registry, "kubelet_pleg_last_seen_seconds");
        assert!(now() - last_seen() < 10.0);
        let (one, other) = (pods.add(), pods.add());
        let seen = SystemTime::now().checked_sub(Duration::from_secs(100));
        one.set(Observation { seen, found: Found::default() });
        other.relisted(Instant::now(), Some(Found::default()));
        assert!((now() - last_seen() - 100.0).abs() < 10.0);
        // A relist that fails is none.
        one.relisted(Instant::now(), None);
        assert!((now() - last_seen() - 100.0).abs() < 10.0);
        one.rests();
        assert!(now() - last_seen() < 10.0);
    }
}

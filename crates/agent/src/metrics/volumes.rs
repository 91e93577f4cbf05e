//! Volumes of pods, their set-up and their tear-down.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use telemetry::metrics::{
    Buckets, Collector, Description, Error, Family, HistogramVec, Kind, Registry, to_f64,
};
use types::PodUid;
use volumes::Source;
use volumes::kinds::WrittenKind;

/// Histogram buckets in seconds.
const SECONDS: [f64; 13] = [0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 25.0, 50.0, 120.0, 300.0, 600.0];

/// The `plugin_name` of each volume that a pod has.
type Plugins = Vec<&'static str>;

#[derive(Debug, Clone, Default)]
struct OfPod {
    wanted: Plugins,
    set_up: Plugins,
}

type Pods = HashMap<PodUid, OfPod>;

/// Counts volumes and operations on them. Clones are the same.
#[derive(Debug, Clone)]
pub(crate) struct VolumeMetrics {
    seconds: HistogramVec<4>,
    pods: Arc<Mutex<Pods>>,
}

fn lock(pods: &Mutex<Pods>) -> MutexGuard<'_, Pods> {
    pods.lock().unwrap_or_else(PoisonError::into_inner)
}

impl VolumeMetrics {
    pub(super) fn register(registry: &Registry) -> Result<Self, Error> {
        let seconds = registry.histogram(
            Description::new("storage_operation_duration_seconds", "Duration of operations on volumes"),
            ["volume_plugin", "operation_name", "status", "migrated"],
            Buckets::new(&SECONDS)?,
        )?;
        let pods = Arc::default();
        registry.collector(Arc::new(Counts(Arc::clone(&pods))))?;
        Ok(Self { seconds, pods })
    }

    /// A pod wants volumes of these sources.
    pub(crate) fn wants<'a>(&self, pod: &PodUid, sources: impl Iterator<Item = &'a Source>) {
        lock(&self.pods).entry(pod.clone()).or_default().wanted = sources.map(plugin_name).collect();
    }

    /// Records the set-up of the volumes that a pod wants: all of them were set up, or none.
    pub(crate) fn set_up<T, E>(&self, pod: &PodUid, begun: Instant, outcome: &Result<T, E>) {
        let mut pods = lock(&self.pods);
        let Some(of_pod) = pods.get_mut(pod) else { return };
        if outcome.is_ok() {
            of_pod.set_up.clone_from(&of_pod.wanted);
        }
        let plugins = of_pod.wanted.clone();
        drop(pods);
        self.observe("volume_mount", &plugins, begun, outcome);
    }

    /// Records the tear-down of the volumes that a pod has. It is forgotten when they are gone.
    pub(crate) fn torn_down<T, E>(&self, pod: &PodUid, begun: Instant, outcome: &Result<T, E>) {
        let mut pods = lock(&self.pods);
        let plugins = pods.get(pod).map(|of_pod| of_pod.set_up.clone()).unwrap_or_default();
        if outcome.is_ok() {
            pods.remove(pod);
        }
        drop(pods);
        self.observe("volume_unmount", &plugins, begun, outcome);
    }

    fn observe<T, E>(&self, operation: &str, plugins: &Plugins, begun: Instant, outcome: &Result<T, E>) {
        let status = if outcome.is_ok() { "success" } else { "fail-unknown" };
        for plugin in plugins {
            // No volume of an in-tree driver is migrated here: such volumes are CSI drivers' from the start.
            self.seconds.with([*plugin, operation, status, "false"]).observe_duration(begun.elapsed());
        }
    }
}

/// The name of the kubelet's plugin for volumes of this source.
fn plugin_name(source: &Source) -> &'static str {
    match source {
        Source::EmptyDir(_) => "kubernetes.io/empty-dir",
        Source::HostPath(_) => "kubernetes.io/host-path",
        Source::Image(_) => "kubernetes.io/image",
        Source::Written(written) => match written.kind {
            WrittenKind::ConfigMap => "kubernetes.io/configmap",
            WrittenKind::Secret => "kubernetes.io/secret",
            WrittenKind::DownwardApi => "kubernetes.io/downward-api",
            WrittenKind::Projected => "kubernetes.io/projected",
        },
    }
}

/// Counts the volumes when it is asked.
struct Counts(Arc<Mutex<Pods>>);

impl Collector for Counts {
    fn families(&self) -> Result<Vec<Family>, Error> {
        let description =
            Description::new("volume_manager_total_volumes", "Volumes of pods, wanted and set up");
        Ok(vec![Family::new(description, Kind::Gauge, &["plugin_name", "state"])?])
    }

    fn collect(&self, families: &mut [Family]) {
        let [volumes] = families else { return };
        let mut counts: BTreeMap<(&str, &str), u64> = BTreeMap::new();
        for of_pod in lock(&self.0).values() {
            let wanted = of_pod.wanted.iter().map(|plugin| (*plugin, "desired_state_of_world"));
            let set_up = of_pod.set_up.iter().map(|plugin| (*plugin, "actual_state_of_world"));
            wanted.chain(set_up).for_each(|labels| *counts.entry(labels).or_default() += 1);
        }
        for ((plugin, state), count) in counts {
            volumes.sample(&[plugin, state], to_f64(count));
        }
    }
}

#[cfg(test)]
mod tests {
    use volumes::kinds::{EmptyDir, HostPath, HostPathType, Medium};

    use super::*;

    #[test]
    fn volumes_are_counted_as_wanted_and_as_set_up_until_they_are_torn_down() {
        let registry = Registry::default();
        let metrics = VolumeMetrics::register(&registry).unwrap();
        let scratch =
            Source::EmptyDir(EmptyDir { medium: Medium::parse("").unwrap(), size_limit: None, mode: None });
        let host = Source::HostPath(HostPath { path: "/srv".into(), kind: HostPathType::parse("").unwrap() });
        let pod = PodUid::new("u-1").unwrap();
        metrics.wants(&pod, [&scratch, &scratch, &host].into_iter());
        metrics.set_up(&pod, Instant::now(), &Err::<(), ()>(()));
        let line = |plugin: &str, state: &str, count: u32| {
            let labels = format!("plugin_name=\"kubernetes.io/{plugin}\",state=\"{state}_state_of_world\"");
            format!("volume_manager_total_volumes{{{labels}}} {count}\n")
        };
        let text = registry.text();
        assert!(text.contains(&line("empty-dir", "desired", 2)) && !text.contains("actual"), "{text}");
        metrics.set_up(&pod, Instant::now(), &Ok::<(), ()>(()));
        let text = registry.text();
        assert!(text.contains(&line("empty-dir", "actual", 2)), "{text}");
        assert!(text.contains(&line("host-path", "actual", 1)), "{text}");
        metrics.torn_down(&pod, Instant::now(), &Ok::<(), ()>(()));
        metrics.torn_down(&pod, Instant::now(), &Ok::<(), ()>(()));
        let text = registry.text();
        assert!(!text.contains("volume_manager_total_volumes{"), "{text}");
        for (operation, status, count) in [
            ("volume_mount", "fail-unknown", 2),
            ("volume_mount", "success", 2),
            ("volume_unmount", "success", 2),
        ] {
            let labels = format!(
                "volume_plugin=\"kubernetes.io/empty-dir\",operation_name=\"{operation}\",status=\"{status}\",migrated=\"false\""
            );
            let line = format!("storage_operation_duration_seconds_count{{{labels}}} {count}\n");
            assert!(text.contains(&line), "{line}{text}");
        }
    }
}

//! The pods of this node, counted for the metrics when they are asked for.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agent::PodOrigin;
use telemetry::metrics::{Collector, Description, Error, Family, Kind, to_f64};

use super::Stage;
use crate::pods::PodSet;

/// What is done about a pod: the `lifecycle` label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Lifecycle {
    /// It is started, or runs.
    Sync,
    /// It is being stopped.
    Terminating,
    /// No container of it runs, and none will.
    Terminated,
}

const LIFECYCLES: [(Lifecycle, &str); 3] = [
    (Lifecycle::Sync, "sync"),
    (Lifecycle::Terminating, "terminating"),
    (Lifecycle::Terminated, "terminated"),
];
/// The `config` label of pods that a source has, and of those that none has any more.
const CONFIGS: [(bool, &str); 2] = [(true, "desired"), (false, "orphan")];
/// The `static` label.
const STATIC: [(bool, &str); 2] = [(false, ""), (true, "true")];

impl Stage {
    /// `None` for a pod that was rejected: nothing is done about it.
    pub(super) fn lifecycle(&self) -> Option<Lifecycle> {
        match self {
            Self::Rejected => None,
            Self::Running { deletion: Some(_), .. } => Some(Lifecycle::Terminating),
            Self::Starting | Self::Preempting { .. } | Self::Waiting { .. } | Self::Running { .. } => {
                Some(Lifecycle::Sync)
            }
            Self::Releasing | Self::Ended(_) | Self::Removing | Self::Finished => Some(Lifecycle::Terminated),
        }
    }
}

/// A pod that something is done about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Working {
    lifecycle: Lifecycle,
    is_static: bool,
}

#[derive(Debug, Default)]
struct Table {
    api: Option<Arc<PodSet>>,
    files: Option<Arc<PodSet>>,
    /// By UID.
    working: HashMap<String, Working>,
}

/// What the reconciler knows of pods. Clones are the same.
#[derive(Debug, Clone, Default)]
pub(super) struct WorkingPods(Arc<Mutex<Table>>);

impl WorkingPods {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The API server has delivered a set.
    pub(super) fn of_api(&self, set: &Arc<PodSet>) {
        self.table().api = Some(Arc::clone(set));
    }

    /// The static pods have been read.
    pub(super) fn of_files(&self, set: &Arc<PodSet>) {
        self.table().files = Some(Arc::clone(set));
    }

    /// This is done about a pod; `None`: nothing.
    pub(super) fn set(&self, uid: &str, lifecycle: Option<Lifecycle>, origin: PodOrigin) {
        let mut table = self.table();
        let Some(lifecycle) = lifecycle else {
            table.working.remove(uid);
            return;
        };
        let working = Working { lifecycle, is_static: origin == PodOrigin::Static };
        match table.working.get_mut(uid) {
            Some(known) => *known = working,
            None => drop(table.working.insert(uid.to_owned(), working)),
        }
    }
}

impl Collector for WorkingPods {
    fn families(&self) -> Result<Vec<Family>, Error> {
        let gauge = |name, help, labels: &[&'static str]| {
            Family::new(Description::new(name, help), Kind::Gauge, labels)
        };
        Ok(vec![
            gauge("kubelet_desired_pods", "Pods that the sources have for this node", &["static"])?,
            gauge("kubelet_active_pods", "Pods that count when a new pod is admitted", &["static"])?,
            gauge("kubelet_mirror_pods", "Mirror pods of this node's static pods in the API", &[])?,
            gauge(
                "kubelet_working_pods",
                "Pods that this node works on, by what it does and whether a source still has them",
                &["lifecycle", "config", "static"],
            )?,
        ])
    }

    fn collect(&self, families: &mut [Family]) {
        let [desired, active, mirrors, working] = families else { return };
        let table = self.table();
        let of_api = || table.api.iter().flat_map(|set| &set.pods);
        let own = || of_api().filter(|pod| pod.mirror.is_none());
        let of_files = || table.files.iter().flat_map(|set| &set.pods);
        let uids: HashSet<&str> = own().chain(of_files()).map(|pod| pod.pod.uid.as_str()).collect();
        let mut counts: BTreeMap<(Lifecycle, bool, bool), u64> = BTreeMap::new();
        for (uid, pod) in &table.working {
            let key = (pod.lifecycle, uids.contains(uid.as_str()), pod.is_static);
            *counts.entry(key).or_default() += 1;
        }
        let count = |key: &(Lifecycle, bool, bool)| counts.get(key).copied().unwrap_or(0);
        for (is_static, label) in STATIC {
            let all = if is_static { of_files().count() } else { own().count() };
            desired.sample(&[label], to_f64(u64::try_from(all).unwrap_or(u64::MAX)));
            let running = [Lifecycle::Sync, Lifecycle::Terminating].map(|of| count(&(of, true, is_static)));
            active.sample(&[label], to_f64(running.iter().sum()));
            for (lifecycle, of) in LIFECYCLES {
                for (is_desired, config) in CONFIGS {
                    working.sample(&[of, config, label], to_f64(count(&(lifecycle, is_desired, is_static))));
                }
            }
        }
        let shown = of_api().filter(|pod| pod.mirror.is_some()).count();
        mirrors.sample(&[], to_f64(u64::try_from(shown).unwrap_or(u64::MAX)));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use telemetry::metrics::Registry;

    use super::*;
    use crate::pods::ApiPod;

    fn pod(name: &str, mirror: Option<&str>) -> Arc<ApiPod> {
        let annotations = mirror.map(|hash| json!({"kubernetes.io/config.mirror": hash}));
        let raw = json!({
            "metadata": {"name": name, "namespace": "shop", "uid": name, "annotations": annotations},
            "spec": {"containers": [{"name": "a", "image": "i"}]},
        });
        Arc::new(ApiPod::read(&serde_json::from_value(raw).unwrap()).unwrap())
    }

    #[test]
    fn pods_are_counted_by_what_is_done_and_by_who_wants_them() {
        let registry = Registry::default();
        let pods = WorkingPods::default();
        registry.collector(Arc::new(pods.clone())).unwrap();
        assert!(registry.text().contains("kubelet_desired_pods{static=\"true\"} 0\n"));
        let set = |pods: Vec<Arc<ApiPod>>| Arc::new(PodSet { pods, ..PodSet::default() });
        pods.of_api(&set(vec![pod("a", None), pod("b", None), pod("m", Some("hash"))]));
        pods.of_files(&set(vec![pod("hash", None)]));
        pods.set("a", Some(Lifecycle::Sync), PodOrigin::ApiServer);
        pods.set("b", Some(Lifecycle::Sync), PodOrigin::ApiServer);
        pods.set("b", Some(Lifecycle::Terminated), PodOrigin::ApiServer);
        pods.set("hash", Some(Lifecycle::Sync), PodOrigin::Static);
        pods.set("forced", Some(Lifecycle::Terminating), PodOrigin::ApiServer);
        pods.set("gone", Some(Lifecycle::Sync), PodOrigin::ApiServer);
        pods.set("gone", None, PodOrigin::ApiServer);
        let text = registry.text();
        for line in [
            "kubelet_desired_pods{static=\"\"} 2\n",
            "kubelet_desired_pods{static=\"true\"} 1\n",
            "kubelet_active_pods{static=\"\"} 1\n",
            "kubelet_active_pods{static=\"true\"} 1\n",
            "kubelet_mirror_pods 1\n",
            "kubelet_working_pods{lifecycle=\"sync\",config=\"desired\",static=\"\"} 1\n",
            "kubelet_working_pods{lifecycle=\"terminated\",config=\"desired\",static=\"\"} 1\n",
            "kubelet_working_pods{lifecycle=\"terminating\",config=\"orphan\",static=\"\"} 1\n",
            "kubelet_working_pods{lifecycle=\"sync\",config=\"desired\",static=\"true\"} 1\n",
            "kubelet_working_pods{lifecycle=\"sync\",config=\"orphan\",static=\"\"} 0\n",
        ] {
            assert!(text.contains(line), "{line}{text}");
        }
    }
}

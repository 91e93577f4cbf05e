//! Node-pressure eviction: when the node runs short of memory, disk space, inodes or process IDs, it takes no more pods, removes
//! what no pod uses, and ends one pod after the other. It also ends pods that use more local storage than their limits.
//!
//! | file | what |
//! |---|---|
//! | `signals` | what is observed |
//! | `layout` | on which disks pods write and images are |
//! | `thresholds` | which thresholds are met, for how long, and the conditions of the node |
//! | `consumers` | what each pod uses; [`admission::kubelet::evict`] ranks them |
//! | `ending` | the end of a pod |

mod consumers;
mod ending;
mod layout;
mod metrics;
mod signals;
mod thresholds;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use ::node::kubelet::{EvictionSignal, KubeletConfig};
use admission::kubelet::evict::{self, Candidate, PodUse, Starved};
use admission::kubelet::is_critical;
use agent::ports::{Clock, EventSink, EventType};
use manifest::k8s_openapi::api::core::v1::Pod;
use tokio::time::Instant;
use tracing::{info, warn};
use types::reason;

use crate::image_gc::ImageGc;
use crate::node::{NodeRecorder, PressureSetter};
use crate::pods::ApiPod;
use crate::reconcile::{PodEnds, pod_of};
use crate::usage::UsageReader;
use consumers::consumers;
use ending::{Ender, Ending, Evicted, IMMEDIATELY};
use layout::{DiskLayout, Removable};
use signals::{Observations, observe, starved};
use thresholds::{EvictionThreshold, ThresholdState, thresholds};

pub(crate) use metrics::EvictionMetrics;

/// How often the node is observed.
const PERIOD: Duration = Duration::from_secs(10);
/// How long the removal of containers of pods that are gone, and of images, may take each, before pods are ended instead.
const REMOVAL: Duration = Duration::from_secs(60);
/// How long it may take to read what pods have written, before their limits are enforced later.
const LIMITS: Duration = Duration::from_secs(60);
/// The same while the node runs short of memory or process IDs, which no disk must delay.
const LIMITS_IN_NEED: Duration = Duration::from_secs(5);
/// A pod's own grace period in seconds where it names none.
const GRACE: u64 = 30;

/// What eviction works with.
pub(crate) struct EvictionPorts {
    pub(crate) usage: Arc<UsageReader>,
    pub(crate) ends: PodEnds,
    pub(crate) images: ImageGc,
    pub(crate) pressure: PressureSetter,
    pub(crate) recorder: NodeRecorder,
    pub(crate) events: Arc<dyn EventSink>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) metrics: EvictionMetrics,
}

/// Observes the node and evicts pods. Does not end, unless the configuration leaves nothing to do.
pub(crate) async fn run(ports: EvictionPorts, config: &KubeletConfig) {
    let is_isolating = config.local_storage_capacity_isolation;
    if config.eviction_hard.is_empty() && config.eviction_soft.is_empty() && !is_isolating {
        return;
    }
    let layout = layout(&ports.usage).await;
    let state =
        ThresholdState::new(thresholds(config, layout), config.eviction_pressure_transition_period.to_std());
    let EvictionPorts { usage, ends, images, pressure, recorder, events, clock, metrics } = ports;
    let evictor = Evictor {
        ender: Ender { ends, events, clock },
        soft_grace: u64::try_from(config.eviction_max_pod_grace_period)
            .ok()
            .map(|grace| grace.max(IMMEDIATELY)),
        is_isolating,
        starved: None,
        problem: None,
        limits_problem: None,
        usage,
        images,
        pressure,
        recorder,
        metrics,
        layout,
        state,
    };
    evictor.run().await;
}

/// On which disks the node has what. It does not change.
async fn layout(usage: &UsageReader) -> DiskLayout {
    let mut is_logged = false;
    loop {
        match usage.devices().await {
            Ok(devices) => return DiskLayout::of(devices),
            Err(cause) if !is_logged => {
                warn!(
                    "pods are not evicted yet: it is not known on which disks images and pods are: {cause}"
                );
                is_logged = true;
            }
            Err(_) => {}
        }
        tokio::time::sleep(PERIOD).await;
    }
}

struct Evictor {
    usage: Arc<UsageReader>,
    ender: Ender,
    images: ImageGc,
    pressure: PressureSetter,
    recorder: NodeRecorder,
    metrics: EvictionMetrics,
    layout: DiskLayout,
    state: ThresholdState,
    /// The longest grace period of pods for soft thresholds, in seconds; `None`: the pod's own.
    soft_grace: Option<u64>,
    /// Whether limits of local storage are enforced.
    is_isolating: bool,
    /// What the node ran short of when it was last observed.
    starved: Option<Starved>,
    /// Why the node cannot be observed, as it was logged.
    problem: Option<String>,
    /// Why limits of local storage are not enforced, as it was logged.
    limits_problem: Option<String>,
}

impl Evictor {
    async fn run(mut self) {
        loop {
            let endings = match self.round().await {
                Ok(endings) => {
                    self.problem = None;
                    endings
                }
                Err(cause) => {
                    if self.problem.as_ref() != Some(&cause) {
                        warn!("whether the node runs short of something is not known: {cause}");
                    }
                    self.problem = Some(cause);
                    Vec::new()
                }
            };
            // After the end of a pod the node is observed again at once.
            if endings.is_empty() {
                tokio::time::sleep(PERIOD).await;
            }
            self.ender.wait(endings).await;
        }
    }

    /// Observes the node. Returns the pods whose end was ordered.
    async fn round(&mut self) -> Result<Vec<Ending>, String> {
        let observed_at = Instant::now();
        let observed = observe(&self.usage.node().await?);
        let assessment = self.state.assess(&observed, observed_at);
        self.pressure.set(&assessment.conditions);
        let first = assessment.due.first().copied();
        if first.is_none() {
            self.starved = None;
        }
        if first.is_none() && !self.is_isolating {
            return Ok(Vec::new());
        }
        let pods = self.ender.ends.candidates().await;
        let is_in_need =
            first.is_some_and(|first| matches!(starved(first.signal), Starved::Memory | Starved::Pids));
        let patience = if is_in_need { LIMITS_IN_NEED } else { LIMITS };
        let exceeding = self.enforce_limits(&pods, patience).await;
        let Some(threshold) = first.filter(|_| exceeding.is_empty()) else { return Ok(exceeding) };
        self.announce(threshold);
        if self.reclaim(threshold.signal).await {
            info!("the node has enough again: what no pod uses was removed");
            return Ok(Vec::new());
        }
        for due in &assessment.due {
            self.metrics.ranked(due.signal.name(), observed_at.elapsed());
        }
        let due = Due { threshold, observed: &observed };
        // The removal takes time: pods have ended and come since.
        let pods = self.ender.ends.candidates().await;
        Ok(self.evict_one(&pods, &due).await?.into_iter().collect())
    }

    /// Reports what the node runs short of.
    fn announce(&mut self, threshold: EvictionThreshold) {
        let starved = starved(threshold.signal);
        let message = format!("Attempting to reclaim {starved}");
        if self.starved.replace(starved) != Some(starved) {
            warn!("{message}: {} is below its threshold", threshold.signal.name());
        }
        self.recorder.record(EventType::Warning, reason::EVICTION_THRESHOLD_MET, message);
    }

    /// Removes what no pod uses. Returns whether the node has enough of everything then.
    async fn reclaim(&self, signal: EvictionSignal) -> bool {
        let removable = self.layout.removable(signal);
        for what in removable {
            match what {
                Removable::Containers => {
                    let removed = self.ender.ends.remove_unwanted();
                    if tokio::time::timeout(REMOVAL, removed).await.is_err() {
                        warn!("containers of pods that are gone are still being removed");
                    }
                }
                Removable::Images => match tokio::time::timeout(REMOVAL, self.images.remove_unused()).await {
                    Ok(Ok(())) => {}
                    Ok(Err(cause)) => warn!("not all images that no pod uses are removed: {cause}"),
                    Err(_) => warn!(
                        "not all images that no pod uses are removed: it takes longer than {} s",
                        REMOVAL.as_secs()
                    ),
                },
            }
        }
        if removable.is_empty() {
            return false;
        }
        match self.usage.node().await {
            Ok(node) => self.state.is_satisfied(&observe(&node)),
            Err(_) => false,
        }
    }

    /// Ends the pods that use more local storage than their limits. If it is not known in time what they use, that is logged, and
    /// they are ended later.
    async fn enforce_limits(&mut self, pods: &[Arc<ApiPod>], patience: Duration) -> Vec<Ending> {
        let limited: Vec<(&Arc<ApiPod>, &Pod)> = pods
            .iter()
            .filter_map(|api_pod| Some((api_pod, pod_of(api_pod)?)))
            .filter(|(_, pod)| evict::has_storage_limits(pod) && !is_critical(pod))
            .collect();
        if limited.is_empty() || !self.is_isolating {
            return Vec::new();
        }
        let read = tokio::time::timeout(patience, self.usage.at_least()).await;
        let late = |_| Err(format!("it takes longer than {} s to read what pods use", patience.as_secs()));
        let used = match read.unwrap_or_else(late) {
            Ok(used) => consumers(&used),
            Err(cause) => {
                if self.limits_problem.as_ref() != Some(&cause) {
                    warn!("limits of local storage are not enforced: {cause}");
                }
                self.limits_problem = Some(cause);
                return Vec::new();
            }
        };
        self.limits_problem = None;
        let mut endings = Vec::new();
        for (api_pod, pod) in limited {
            let Some(used) = used.get(api_pod.pod.uid.as_str()) else { continue };
            let Some(exceeded) = evict::exceeded_limit(pod, used, self.layout.on_node()) else { continue };
            let evicted = Evicted {
                pod: api_pod.pod.clone(),
                message: exceeded.message,
                annotations: BTreeMap::new(),
                grace: Some(IMMEDIATELY),
                own_grace: own_grace(pod),
                is_disruption: false,
            };
            if let Some(ending) = self.ender.evict(evicted).await {
                self.metrics.evicted(exceeded.signal);
                endings.push(ending);
            }
        }
        endings
    }

    /// Ends the pod that comes first.
    async fn evict_one(&self, pods: &[Arc<ApiPod>], due: &Due<'_>) -> Result<Option<Ending>, String> {
        let signal = due.threshold.signal;
        let used = consumers(&match starved(signal) {
            Starved::EphemeralStorage | Starved::Inodes => self.usage.all_measured().await?,
            Starved::Memory | Starved::Pids => self.usage.memory_and_processes().await?,
        });
        let Some(Victim { api_pod, candidate }) = victim(pods, &used, signal, self.layout) else {
            warn!("no pod can be evicted: none runs that is not critical");
            return Ok(None);
        };
        let starved = starved(signal);
        let why = evict::message(&candidate, starved, due.threshold.amounts(due.observed));
        let evicted = Evicted {
            pod: api_pod.pod.clone(),
            message: why.message,
            annotations: why.annotations,
            grace: if due.threshold.is_hard() { Some(IMMEDIATELY) } else { self.soft_grace },
            own_grace: own_grace(candidate.pod),
            is_disruption: true,
        };
        let ending = self.ender.evict(evicted).await;
        if ending.is_some() {
            self.metrics.evicted(signal.name());
        }
        Ok(ending)
    }
}

/// A threshold for which a pod is ended.
struct Due<'a> {
    threshold: EvictionThreshold,
    observed: &'a Observations,
}

/// The pod that is ended.
struct Victim<'a> {
    api_pod: &'a Arc<ApiPod>,
    candidate: Candidate<'a>,
}

/// The first pod by rank that is not critical.
fn victim<'a>(
    pods: &'a [Arc<ApiPod>],
    used: &'a HashMap<String, PodUse>,
    signal: EvictionSignal,
    layout: DiskLayout,
) -> Option<Victim<'a>> {
    let candidate = |api_pod: &'a Arc<ApiPod>| {
        let pod = pod_of(api_pod)?;
        let candidate = Candidate { pod, used: used.get(api_pod.pod.uid.as_str()) };
        (!is_critical(pod)).then_some(Victim { api_pod, candidate })
    };
    let mut victims: Vec<Victim<'a>> = pods.iter().filter_map(candidate).collect();
    let candidates: Vec<Candidate<'_>> = victims.iter().map(|victim| victim.candidate).collect();
    let order = evict::rank(&candidates, starved(signal), layout.parts(signal));
    let first = *order.first()?;
    (first < victims.len()).then(|| victims.swap_remove(first))
}

fn own_grace(pod: &Pod) -> u64 {
    let seconds = pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds);
    seconds.and_then(|seconds| u64::try_from(seconds).ok()).unwrap_or(GRACE)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(name: &str, spec: &Value) -> Arc<ApiPod> {
        let mut pod = json!({
            "metadata": {"name": name, "namespace": "shop", "uid": name},
            "spec": {"containers": [{"name": "a", "image": "i"}]},
        });
        for (key, value) in spec.as_object().unwrap() {
            pod["spec"][key] = value.clone();
        }
        Arc::new(ApiPod::read(&serde_json::from_value(pod).unwrap()).unwrap())
    }

    #[test]
    fn a_critical_pod_is_never_ended() {
        let critical = pod("critical", &json!({"priority": 2_000_000_000}));
        let modest = pod("modest", &json!({"priority": 1000}));
        let memory = |memory| PodUse { memory, ..PodUse::default() };
        let used: HashMap<String, PodUse> =
            [("critical".to_owned(), memory(1 << 40)), ("modest".to_owned(), memory(1))].into();
        let name = |pods: &[Arc<ApiPod>]| {
            let found = victim(pods, &used, EvictionSignal::MemoryAvailable, DiskLayout::Single);
            found.map(|found| found.api_pod.pod.name.clone())
        };
        assert_eq!(name(&[critical.clone(), modest]).as_deref(), Some("modest"));
        assert_eq!(name(&[critical]), None);
        assert_eq!(name(&[]), None);
    }
}

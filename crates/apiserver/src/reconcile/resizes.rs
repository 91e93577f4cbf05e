//! Pods whose spec asks for other resources than they were given: a resize is admitted as a new pod is, or waits.
//!
//! Upstream's order: what asks for no more comes first, then the higher priority, the higher QoS class, and what waits longest.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use admission::kubelet::{self, Infeasible, NodePod};
use agent::ports::{Event, EventObject, EventType, PodRef};
use agent::{PodAllocation, ResizeView, resize_message};
use lifecycle::Moment;
use manifest::k8s_openapi::api::core::v1::Pod;
use tokio::time::Instant;
use tracing::info;
use types::reason;

use super::admitted::pod_of;
use super::judge::Judged;
use super::resize_metrics::{Resolution, Trigger};
use super::{Reconciler, Stage};
use crate::pods::ApiPod;
use crate::status::resources::pending_of;

/// How often resizes that wait are judged if nothing happens.
const PERIOD: Duration = Duration::from_secs(180);
/// The reason of the condition of a resize that waits.
pub(super) const DEFERRED: &str = "Deferred";
/// That of one that this node can never do.
pub(super) const INFEASIBLE: &str = "Infeasible";

/// Resizes that are not admitted.
#[derive(Debug)]
pub(super) struct Resizes {
    /// By the UID of the pod.
    pending: HashMap<String, Pending>,
    /// Why they are to be judged; `None` if nothing has happened since the last time.
    trigger: Option<Trigger>,
    /// When they are judged at the latest.
    due: Instant,
}

#[derive(Debug)]
struct Pending {
    generation: Option<i64>,
    /// What the pod asks for.
    asked: PodAllocation,
    /// What its condition says; `None` until it is judged.
    view: Option<ResizeView>,
    priority: i32,
    /// The pods that are ended so that it fits.
    victims: BTreeSet<String>,
}

impl Default for Resizes {
    fn default() -> Self {
        Self { pending: HashMap::new(), trigger: None, due: Instant::now() + PERIOD }
    }
}

impl Resizes {
    /// Has the resizes that wait judged again.
    pub(super) fn trigger(&mut self, trigger: Trigger) {
        self.trigger.get_or_insert(trigger);
    }

    /// When they are judged at the latest; `None` if none waits.
    pub(super) fn due(&self) -> Option<Instant> {
        (!self.pending.is_empty()).then_some(self.due)
    }
}

impl Reconciler {
    /// Finds the pods that ask for other resources than they were given, and gives them to those that can have them now.
    pub(super) fn resize(&mut self) {
        let pods: Vec<Arc<ApiPod>> = self.wanted.pods().cloned().collect();
        for pod in &pods {
            // A manifest is what the node's administrator wants: nothing else is asked.
            match pod.is_static {
                true => self.allocations.follow(pod),
                false => self.note_resize(pod),
            }
        }
        let gone: Vec<String> =
            self.resizes.pending.keys().filter(|uid| !self.is_active(uid)).cloned().collect();
        for uid in gone {
            self.forget_resize(&uid, Resolution::Terminated);
        }
        // Before all pods are known, it is not known what remains for them.
        if self.wanted.is_complete() {
            self.judge_resizes();
        }
        self.metrics_of_resizes();
    }

    /// Whether a pod that asks for a resize can have one.
    fn is_active(&self, uid: &str) -> bool {
        let over = |stage: &Stage| {
            matches!(
                stage,
                Stage::Releasing | Stage::Ended(_) | Stage::Removing | Stage::Finished | Stage::Rejected
            )
        };
        let wanted = self.wanted.by_uid(uid).filter(|pod| pod.deletion.is_none() && !pod.is_terminal());
        wanted.is_some()
            && !self.ends.contains(uid)
            && !self.pods.get(uid).is_some_and(|managed| over(&managed.stage))
    }

    fn note_resize(&mut self, pod: &Arc<ApiPod>) {
        let uid = pod.pod.uid.as_str();
        let spec = pod_of(pod).and_then(|pod| pod.spec.as_ref());
        let (Some(given), Some(spec)) = (self.allocations.get(uid), spec) else { return };
        if given.is_of(spec) {
            if let Some(pending) = self.resizes.pending.get(uid) {
                self.ports.metrics.resizes.requested(&pending.asked, spec);
                self.forget_resize(uid, Resolution::Reverted);
            }
            return;
        }
        if !self.is_active(uid) {
            return;
        }
        let known = self.resizes.pending.get(uid);
        if known.is_some_and(|known| known.generation == pod.generation && known.asked.is_of(spec)) {
            return;
        }
        let is_known = self.pods.contains_key(uid);
        if is_known {
            let before = known.map_or(given, |known| &known.asked);
            self.ports.metrics.resizes.requested(before, spec);
        }
        // Until it is judged, its condition stays as it is.
        let view = known.map(|known| known.view.clone()).unwrap_or_else(|| pending_of(&pod.status));
        if known.is_none()
            && let Some(cluster) = &self.ports.cluster
        {
            cluster.statuses.set_pending_resize(&pod.pod, view.as_ref());
        }
        let pending = Pending {
            generation: pod.generation,
            asked: PodAllocation::of(spec),
            view: view.filter(|view| view.reason != INFEASIBLE),
            priority: spec.priority.unwrap_or(0),
            victims: BTreeSet::new(),
        };
        self.resizes.pending.insert(uid.to_owned(), pending);
        self.resizes.trigger(if is_known { Trigger::PodUpdated } else { Trigger::PodsAdded });
    }

    /// Forgets a resize that the pod asks for no more, or was given.
    fn forget_resize(&mut self, uid: &str, resolution: Resolution) {
        let Some(pending) = self.resizes.pending.remove(uid) else { return };
        self.allocations.unreserve(uid);
        let wanted = self.wanted.by_uid(uid).map(|pod| pod.pod.clone());
        let known = wanted.or_else(|| self.pods.get(uid).map(|managed| managed.pod.clone()));
        if let (Some(cluster), Some(pod)) = (&self.ports.cluster, known) {
            cluster.statuses.set_pending_resize(&pod, None);
        }
        if let Some(view) = pending.view.filter(|view| view.reason == DEFERRED) {
            let waited = self.ports.clock.now().since(Moment::from_millis(view.since));
            self.ports.metrics.resizes.resolved(resolution, pending.priority, waited);
        }
    }

    fn judge_resizes(&mut self) {
        let is_due = self.resizes.due <= Instant::now();
        let Some(trigger) = self.resizes.trigger.take().or(is_due.then_some(Trigger::Periodic)) else {
            return;
        };
        self.resizes.due = Instant::now() + PERIOD;
        for uid in self.in_order() {
            self.judge_resize(&uid, trigger);
        }
    }

    /// The pods whose resizes are judged, by UID.
    fn in_order(&self) -> Vec<String> {
        let judged = self.resizes.pending.iter().filter(|(_, pending)| {
            let is_infeasible = pending.view.as_ref().is_some_and(|view| view.reason == INFEASIBLE);
            !is_infeasible && self.have_ended(&pending.victims)
        });
        let mut all: Vec<_> = judged
            .filter_map(|(uid, pending)| {
                let spec = pod_of(self.wanted.by_uid(uid)?)?.spec.as_ref()?;
                let given = self.allocations.get(uid)?.applied_to(spec.clone());
                let asks_more = kubelet::asks_for_more(&given, spec);
                let since = pending.view.as_ref().map_or(u64::MAX, |view| view.since);
                let rank = (asks_more, Reverse(pending.priority), Reverse(kubelet::qos_rank(spec)), since);
                Some((rank, uid.clone()))
            })
            .collect();
        all.sort();
        all.into_iter().map(|(_, uid)| uid).collect()
    }

    fn judge_resize(&mut self, uid: &str, trigger: Trigger) {
        // Its victims have ended: what they leave is its own now, or not enough.
        self.allocations.unreserve(uid);
        if let Some(pending) = self.resizes.pending.get_mut(uid) {
            pending.victims.clear();
        }
        let Some(wanted) = self.wanted.by_uid(uid).cloned() else { return };
        let Some(pod) = pod_of(&wanted) else { return };
        if let Some(infeasible) = self.infeasible(&wanted, pod) {
            return self.refuse_resize(&wanted.pod, pod, &Refused::infeasible(&infeasible));
        }
        let facts = self.ports.node.facts();
        let refused = match self.judge(uid, NodePod { pod, phase: &wanted.phase }, facts) {
            Judged::Admitted => return self.give_resources(&wanted, pod, trigger),
            Judged::Rejected(rejection) => Refused::deferred(rejection.reason, rejection.message),
            Judged::Preempts { victims, required } => {
                self.end_victims(&wanted.pod, &required, &victims);
                if let Some(pending) = self.resizes.pending.get_mut(uid) {
                    pending.victims = victims;
                    self.allocations.reserve(uid);
                }
                let message = "pods of lower priority are ended so that it fits".to_owned();
                Refused::deferred(reason::PREEMPTING.to_owned(), message)
            }
        };
        self.refuse_resize(&wanted.pod, pod, &refused);
    }

    /// Why a pod that runs, or that an earlier process has started, can never have what it asks for.
    fn infeasible(&self, wanted: &ApiPod, asked: &Pod) -> Option<Infeasible> {
        let uid = wanted.pod.uid.as_str();
        let running = match self.pods.get(uid).map(|managed| &managed.stage) {
            Some(Stage::Running { updates, .. }) => pod_of(updates.newest()?)?,
            _ => self.admitted.recorded_pod(uid)?,
        };
        kubelet::infeasible_resize(running.spec.as_ref()?, asked.spec.as_ref()?)
    }

    /// Gives a pod what it asks for. Its worker gets it with the next step.
    fn give_resources(&mut self, wanted: &Arc<ApiPod>, pod: &Pod, trigger: Trigger) {
        let uid = wanted.pod.uid.as_str();
        let Some(spec) = &pod.spec else { return };
        info!("pod {}/{} is given the resources that it asks for", wanted.pod.namespace, wanted.pod.name);
        self.allocations.give(uid, spec);
        let was_deferred = self.resizes.pending.get(uid).is_some_and(|pending| pending.view.is_some());
        if was_deferred {
            self.ports.metrics.resizes.accepted(trigger);
        }
        self.forget_resize(uid, Resolution::Accepted);
    }

    /// Tells why a pod is not given what it asks for, if that is new.
    fn refuse_resize(&mut self, pod: &PodRef, asked: &Pod, refused: &Refused) {
        let now = self.ports.clock.now();
        let Some(pending) = self.resizes.pending.get_mut(pod.uid.as_str()) else { return };
        let known = pending.view.as_ref();
        let is_new = known
            .is_none_or(|known| known.reason != refused.condition || known.generation != pending.generation);
        let since = known.filter(|known| known.reason == refused.condition).map(|known| known.since);
        let view = ResizeView {
            generation: pending.generation,
            reason: refused.condition.to_owned(),
            message: refused.message.clone(),
            since: since.unwrap_or_else(|| now.millis()),
        };
        pending.view = Some(view.clone());
        let generation = pending.generation;
        if let Some(cluster) = &self.ports.cluster {
            cluster.statuses.set_pending_resize(pod, Some(&view));
        }
        if !is_new {
            return;
        }
        if let Some(detail) = refused.detail {
            self.ports.metrics.resizes.infeasible(detail);
        }
        info!(
            "pod {}/{} is not resized now: {}: {}",
            pod.namespace, pod.name, refused.reason, refused.message
        );
        let spec = asked.spec.clone().unwrap_or_default();
        let what = format!("Pod resize {}", refused.reason);
        self.ports.events.record(Event {
            message: resize_message(&what, &spec, generation, &refused.message),
            ..self.warning(pod, refused.event())
        });
    }

    fn warning(&self, pod: &PodRef, reason: &'static str) -> Event {
        Event {
            kind: EventType::Warning,
            reason,
            object: EventObject { pod: pod.clone(), field_path: None },
            image: None,
            message: String::new(),
            annotations: std::collections::BTreeMap::new(),
            log: None,
            time: self.ports.clock.now(),
        }
    }

    fn metrics_of_resizes(&self) {
        let views = self.resizes.pending.values().filter_map(|pending| {
            let view = pending.view.as_ref()?;
            Some((view.reason.as_str(), pending.priority))
        });
        self.ports.metrics.resizes.pending(views);
    }
}

/// Why a pod is not given the resources that it asks for.
struct Refused {
    /// The reason of the condition.
    condition: &'static str,
    /// The reason of the admission, for the event.
    reason: String,
    message: String,
    /// Why it can never be done, in a word for metrics.
    detail: Option<&'static str>,
}

impl Refused {
    fn infeasible(infeasible: &Infeasible) -> Self {
        Self {
            condition: INFEASIBLE,
            reason: INFEASIBLE.to_owned(),
            message: infeasible.message.to_owned(),
            detail: Some(infeasible.detail),
        }
    }

    /// It is tried again: also what is more than the node has, as upstream does.
    fn deferred(reason: String, message: String) -> Self {
        Self { condition: DEFERRED, reason, message, detail: None }
    }

    fn event(&self) -> &'static str {
        if self.condition == INFEASIBLE { reason::RESIZE_INFEASIBLE } else { reason::RESIZE_DEFERRED }
    }
}

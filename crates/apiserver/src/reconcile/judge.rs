//! Admission of new pods, as the kubelet's: rejected for good, admitted, or admitted once other pods are ended.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use admission::kubelet::{self, Admission as Outcome, NodeFacts, NodePod, Rejection, Requirement};
use agent::ports::{Event, EventObject, EventType, PodRef};
use devices::PodRequest;
use tracing::{info, warn};
use types::reason;

use super::admitted::pod_of;
use super::node_end::NodeEnd;
use super::{Reconciler, Stage, work};
use crate::pods::ApiPod;
use crate::status::EndedByNode;

/// Begins the message of a rejected pod.
const REJECTED: &str = "Pod was rejected: ";
/// The message of a pod that is ended for a critical one.
pub(super) const PREEMPTED: &str = "Preempted in order to admit critical pod";

/// What becomes of a pod.
pub(super) enum Judged {
    Admitted,
    Rejected(Rejection),
    /// It is admitted once these pods, by UID, are ended: so much must become free.
    Preempts {
        victims: BTreeSet<String>,
        required: Vec<Requirement>,
    },
}

impl Reconciler {
    /// Judges a pod that is new here, unless an earlier process has admitted it, and starts it if it is admitted. `node` is
    /// the node if it was just read from the API server.
    pub(super) fn admit(&mut self, wanted: &Arc<ApiPod>, node: Option<NodeFacts>) {
        let uid = wanted.pod.uid.as_str();
        let new = pod_of(wanted).filter(|_| !self.admitted.contains(uid));
        let request = new.map(|pod| agent::device_request(uid, pod));
        match request.filter(|request| self.ports.devices.is_needed(request)) {
            Some(request) => self.allocate(wanted, request, node),
            None => self.admit_with_devices(wanted, node),
        }
    }

    /// Has a new pod get its devices, unless it is rejected for what comes before them.
    fn allocate(&mut self, wanted: &Arc<ApiPod>, request: PodRequest, node: Option<NodeFacts>) {
        let facts = || node.clone().unwrap_or_else(|| self.ports.node.facts());
        match pod_of(wanted).and_then(|pod| kubelet::before_devices(pod, &facts())) {
            Some(rejection) => self.reject(wanted, &rejection),
            None => {
                let (ports, wanted) = (Arc::clone(&self.ports), Arc::clone(wanted));
                self.tasks.spawn(work::allocate(ports, wanted, request, node));
            }
        }
    }

    /// The same as [`Self::admit`], for a pod that has its devices.
    pub(super) fn admit_with_devices(&mut self, wanted: &Arc<ApiPod>, node: Option<NodeFacts>) {
        let uid = wanted.pod.uid.as_str();
        // A pod that cannot be read is not rejected: it waits, with an event.
        if let (false, Some(pod)) = (self.admitted.contains(uid), pod_of(wanted)) {
            let may_be_stale = node.is_none() && self.ports.node.cluster.is_some();
            let facts = node.unwrap_or_else(|| self.ports.node.facts());
            match self.judge(uid, NodePod { pod, phase: &wanted.phase }, facts) {
                Judged::Admitted => {}
                Judged::Rejected(rejection) if may_be_stale && rejection.reason == kubelet::NODE_AFFINITY => {
                    self.tasks.spawn(work::read_node(Arc::clone(&self.ports), Arc::clone(wanted)));
                    return;
                }
                Judged::Rejected(rejection) => return self.reject(wanted, &rejection),
                Judged::Preempts { victims, required } => return self.preempt(wanted, &required, victims),
            }
            self.warn_of_unknown_fields(wanted);
            self.admitted.insert(uid);
            if let Some(spec) = &pod.spec {
                self.ports.metrics.resizes.admitted(spec);
            }
        }
        if self.allocations.get(uid).is_none()
            && let Some(spec) = pod_of(wanted).and_then(|pod| pod.spec.as_ref())
        {
            self.allocations.give(uid, spec);
        }
        self.tasks.spawn(work::start(Arc::clone(&self.ports), Arc::clone(wanted)));
    }

    /// Judges a pod, or what it asks for beside what it has, on a node with these facts.
    pub(super) fn judge(&self, uid: &str, new: NodePod<'_>, mut node: NodeFacts) -> Judged {
        for (resource, count) in self.ports.devices.allocated_beside(uid) {
            node.raise(&resource, u64::try_from(count).unwrap_or(u64::MAX));
        }
        let beside = self.admitted.beside(uid, &self.wanted, &self.allocations);
        let pods = beside.pods();
        let required = match kubelet::judge(new, &node, &pods) {
            Outcome::Admitted => return Judged::Admitted,
            Outcome::Rejected(rejection) => return Judged::Rejected(rejection),
            Outcome::Preempts(required) => required,
        };
        match kubelet::victims(new.pod, &required, &pods) {
            Ok(chosen) => {
                let uids = chosen.iter().filter_map(|index| beside.uids.get(*index));
                Judged::Preempts { victims: uids.map(|uid| (*uid).to_owned()).collect(), required }
            }
            Err(error) => {
                let message =
                    format!("Unexpected error while attempting to recover from admission failure: {error}");
                Judged::Rejected(Rejection { reason: kubelet::UNEXPECTED.to_owned(), message })
            }
        }
    }

    /// Rejects a pod for good.
    pub(super) fn reject(&mut self, wanted: &ApiPod, rejection: &Rejection) {
        let pod = &wanted.pod;
        self.ports.devices.release(pod.uid.as_str());
        let Rejection { reason, message } = rejection;
        info!("pod {}/{} is rejected: {reason}: {message}", pod.namespace, pod.name);
        self.ports.metrics.rejected(reason);
        self.event(pod, interned(reason), message.clone());
        if let Some(cluster) = &self.ports.cluster {
            cluster.statuses.reject(pod, reason, &format!("{REJECTED}{message}"), self.ports.clock.now());
        }
        self.set_stage(pod, Stage::Rejected);
    }

    /// Admits a critical pod, and ends the pods that leave too little for it. It is started when they have ended.
    fn preempt(&mut self, wanted: &Arc<ApiPod>, required: &[Requirement], victims: BTreeSet<String>) {
        self.end_victims(&wanted.pod, required, &victims);
        let uid = wanted.pod.uid.as_str();
        self.admitted.insert(uid);
        if let Some(spec) = pod_of(wanted).and_then(|pod| pod.spec.as_ref()) {
            self.allocations.give(uid, spec);
        }
        self.set_stage(&wanted.pod, Stage::Preempting { victims });
    }

    /// Ends pods that leave too little for a critical one.
    pub(super) fn end_victims(
        &mut self,
        critical: &PodRef,
        required: &[Requirement],
        victims: &BTreeSet<String>,
    ) {
        for uid in victims {
            let Some(managed) = self.pods.get(uid) else { continue };
            let pod = managed.pod.clone();
            info!(
                "pod {}/{}: critical pod {}/{} needs its resources",
                pod.namespace, pod.name, critical.namespace, critical.name
            );
            let signal = required.first().map_or("", |first| first.resource.as_str());
            self.ports.metrics.preempted(signal);
            self.event(&pod, reason::PREEMPTING, PREEMPTED.to_owned());
            let (reason, message) = (reason::PREEMPTING.to_owned(), PREEMPTED.to_owned());
            let status = EndedByNode { reason, message, is_disruption: true };
            self.end_by_node(uid, NodeEnd { status, grace_seconds: None });
            self.admitted.remove(uid);
        }
    }

    /// Whether none of these pods runs any more.
    pub(super) fn have_ended(&self, victims: &BTreeSet<String>) -> bool {
        let runs =
            |stage: &Stage| matches!(stage, Stage::Starting | Stage::Waiting { .. } | Stage::Running { .. });
        !victims.iter().filter_map(|uid| self.pods.get(uid)).any(|managed| runs(&managed.stage))
    }

    /// Reports fields of the pod that this agent does not know: what they ask for does not happen.
    fn warn_of_unknown_fields(&self, wanted: &ApiPod) {
        let fields = unknown_fields(wanted);
        if fields.is_empty() {
            return;
        }
        let message = format!(
            "fields that this node does not know are ignored: {}; update wardlet on the node, or leave them out",
            fields.join(", ")
        );
        warn!("pod {}/{}: {message}", wanted.pod.namespace, wanted.pod.name);
        self.ports.metrics.unknown_fields(fields.len());
        self.event(&wanted.pod, reason::UNKNOWN_FIELD, message);
    }

    /// Records a warning event of a pod.
    pub(super) fn event(&self, pod: &PodRef, reason: &'static str, message: String) {
        self.ports.events.record(Event {
            kind: EventType::Warning,
            reason,
            object: EventObject { pod: pod.clone(), field_path: None },
            image: None,
            message,
            annotations: BTreeMap::new(),
            log: None,
            time: self.ports.clock.now(),
        });
    }
}

/// The fields of a pod that this agent does not know and that cannot be a wish for isolation. A pod with others is not read.
fn unknown_fields(pod: &ApiPod) -> Vec<&str> {
    let warnings = pod.object().map(|object| object.warnings.as_slice()).unwrap_or_default();
    warnings.iter().map(|finding| finding.path.as_str()).collect()
}

/// The most reasons that are kept: pods choose the names of resources that the Node does not have.
const MOST_REASONS: usize = 1024;

/// A reason that lives as long as the process, as events have it. Each is kept once; those beyond [`MOST_REASONS`] are in
/// the event's message only.
fn interned(reason: &str) -> &'static str {
    static REASONS: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut reasons = REASONS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = reasons.get(reason) {
        return known;
    }
    if reasons.len() >= MOST_REASONS {
        return kubelet::UNEXPECTED;
    }
    let kept: &'static str = Box::leak(reason.to_owned().into_boxed_str());
    reasons.insert(kept);
    kept
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::pods::Definition;

    fn read(spec: Value) -> ApiPod {
        let mut pod = json!({"metadata": {"name": "web", "namespace": "shop", "uid": "u-1"}});
        pod["spec"] = spec;
        ApiPod::read(&serde_json::from_value(pod).unwrap()).unwrap()
    }

    #[test]
    fn an_unknown_field_is_ignored_and_named_and_one_in_a_security_context_is_not_ignored() {
        let plain = read(json!({"containers": [{"name": "a", "image": "i"}]}));
        assert!(unknown_fields(&plain).is_empty() && pod_of(&plain).is_some());
        let newer = read(json!({"containers": [{"name": "a", "image": "i", "warpFactor": 9}]}));
        assert_eq!(unknown_fields(&newer), ["spec.containers[0].warpFactor"]);
        assert!(pod_of(&newer).is_some());
        for spec in [
            json!({"securityContext": {"isolateMore": true}, "containers": [{"name": "a", "image": "i"}]}),
            json!({"containers": [{"name": "a", "image": "i", "securityContext": {"isolateMore": true}}]}),
        ] {
            let unread = read(spec);
            assert!(pod_of(&unread).is_none() && matches!(unread.definition, Definition::Refused(_)));
        }
    }

    #[test]
    fn a_reason_is_kept_once() {
        let [first, second] = ["OutOfexample.com/gpu"; 2].map(interned);
        assert!(std::ptr::eq(first, second));
    }
}

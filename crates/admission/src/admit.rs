use std::collections::BTreeMap;

use manifest::k8s_openapi::api::core::v1::Pod;
use manifest::{Cluster, Finding, Object, Reading, Resource, defaulted};
use plan::{Facts, Gates, Intent, Plan, Policy, UserNamespacePlan};

use crate::candidate::{Candidate, Refused};
use crate::error::Result;
use crate::origin::PodOrigin;
use crate::{hostname, placement, unsupported};

/// A pod that was read, found valid and planned.
#[derive(Debug, Clone)]
pub struct Admitted {
    /// The pod, with the API's defaults.
    pub pod: Pod,
    /// What it wants.
    pub intent: Intent,
    /// What will be done with a pod that is created; a refusal for one that may only be adopted, because it runs.
    pub plan: std::result::Result<Plan, Refused>,
    /// What will be done with the pod that runs under this name, which keeps its user namespace.
    pub running: Option<Plan>,
}

impl Admitted {
    /// The plan that applies as far as is known: that of the running pod if there is one.
    #[must_use]
    pub fn expected(&self) -> Option<&Plan> {
        self.running.as_ref().or(self.plan.as_ref().ok())
    }
}

/// The user namespaces of the pods that run on this node, by namespace and name.
#[derive(Debug, Clone, Default)]
pub struct RunningPods(pub BTreeMap<(String, String), UserNamespacePlan>);

/// What became of the pods of one request.
#[derive(Debug)]
pub struct Decision<'a> {
    /// Pods that may run, in the order of the manifests.
    pub admitted: Vec<Admitted>,
    /// Pods that may not.
    pub refused: Vec<RefusedPod<'a>>,
}

/// A pod that may not run.
#[derive(Debug)]
pub struct RefusedPod<'a> {
    /// The pod as it was read.
    pub object: &'a Object,
    /// All reasons; at least one.
    pub refusals: Vec<Refused>,
}

/// What keeps the manifests as a whole from being understood: anything wrong with the text, and objects beside the
/// pods that the API does not allow. A pod that it does not allow is that pod's verdict.
#[must_use]
pub fn doubts(reading: &Reading, gates: &Gates) -> Vec<Finding> {
    let beside = reading.objects.iter().filter(|object| !has_pods(object));
    reading.findings.iter().cloned().chain(beside.flat_map(|o| manifest::validate(o, gates))).collect()
}

/// Whether objects of its kind are pods or make pods.
#[must_use]
pub fn has_pods(object: &Object) -> bool {
    !matches!(
        object.resource,
        Resource::ConfigMap(_)
            | Resource::Secret(_)
            | Resource::PersistentVolumeClaim(_)
            | Resource::PersistentVolume(_)
            | Resource::StorageClass(_)
            | Resource::CsiDriver(_)
            | Resource::Node(_)
            | Resource::RuntimeClass(_)
    )
}

/// Whether an object is a workload: it has a pod template and is not a pod.
#[must_use]
pub fn is_workload(object: &Object) -> bool {
    has_pods(object) && !matches!(object.resource, Resource::Pod(_))
}

/// The pods among these objects, and the pods that their workloads would make; empty if there are none.
#[must_use]
pub fn consider<'a>(objects: &'a [Object], gates: &Gates) -> Vec<Candidate<'a>> {
    let cluster = Cluster::of(objects);
    let with_pods = objects.iter().filter(|object| has_pods(object));
    with_pods.map(|object| Candidate::new(object, &cluster, gates)).collect()
}

/// Which of the candidates may run on the node of this name. A pod that runs already is admitted as far as it can keep its
/// user namespace. A workload is neither admitted nor refused for being one: the caller refuses it before.
#[must_use]
pub fn admit<'a>(
    candidates: &[Candidate<'a>],
    facts: &Facts,
    policy: &Policy,
    node: &str,
    running: &RunningPods,
) -> Decision<'a> {
    let mut decision = Decision { admitted: Vec::new(), refused: Vec::new() };
    for candidate in candidates {
        let object = candidate.object;
        let (Some(intent), Resource::Pod(pod)) = (&candidate.intent, &object.resource) else {
            if let Err(refusals) = candidate.judge(facts, policy, Some(node)).outcome {
                decision.refused.push(RefusedPod { object, refusals });
            }
            continue;
        };
        let kept = running.0.get(&(object.namespace().to_owned(), object.name().to_owned()));
        let kept =
            kept.and_then(|users| candidate.judge_running(facts, policy, Some(node), *users).outcome.ok());
        let plan = match (candidate.judge(facts, policy, Some(node)).outcome, &kept) {
            (Ok(plan), _) => Ok(plan),
            (Err(refusals), Some(_)) => match refusals.into_iter().next() {
                Some(first) => Err(first),
                None => continue,
            },
            (Err(refusals), None) => {
                decision.refused.push(RefusedPod { object, refusals });
                continue;
            }
        };
        let mut pod = defaulted((**pod).clone());
        pod.metadata.namespace = Some(object.namespace().to_owned());
        decision.admitted.push(Admitted { pod, intent: intent.clone(), plan, running: kept });
    }
    decision
}

/// Whether a pod of this origin can be run on the node of this name.
///
/// # Errors
/// At the first field that is not run, or that is for another node.
pub fn runnable(pod: &Pod, node: &str, origin: PodOrigin) -> Result<()> {
    let spec = pod.spec.clone().unwrap_or_default();
    unsupported::check(&spec, origin)?;
    let namespace = pod.metadata.namespace.as_deref().unwrap_or("default");
    hostname::check(&spec, namespace, pod.metadata.name.as_deref().unwrap_or_default())?;
    if origin.is_of_node() { Ok(()) } else { placement::check(&spec, node) }
}

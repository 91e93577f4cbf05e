use manifest::k8s_openapi::api::core::v1::Pod;
use manifest::{Cluster, Finding, Object, Reading, Resource, defaulted};
use plan::{Facts, Gates, Intent, Plan, Policy};

use crate::candidate::{Candidate, Refused};
use crate::error::Result;
use crate::{hostname, placement, unsupported};

/// A pod that was read, found valid and planned.
#[derive(Debug, Clone)]
pub struct Admitted {
    /// The pod, with the API's defaults.
    pub pod: Pod,
    /// What it wants.
    pub intent: Intent,
    /// What will be done.
    pub plan: Plan,
}

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

/// The pods among these objects, and the pods that their workloads would make; empty if there are none.
#[must_use]
pub fn consider<'a>(objects: &'a [Object], gates: &Gates) -> Vec<Candidate<'a>> {
    let cluster = Cluster::of(objects);
    let with_pods = objects.iter().filter(|object| has_pods(object));
    with_pods.map(|object| Candidate::new(object, &cluster, gates)).collect()
}

/// Which of the candidates may run on the node of this name. A workload is neither admitted nor refused for being one:
/// the caller refuses it before.
#[must_use]
pub fn admit<'a>(candidates: &[Candidate<'a>], facts: &Facts, policy: &Policy, node: &str) -> Decision<'a> {
    let mut decision = Decision { admitted: Vec::new(), refused: Vec::new() };
    for candidate in candidates {
        let object = candidate.object;
        let outcome = candidate.judge(facts, policy, Some(node)).outcome;
        match (outcome, &candidate.intent, &object.resource) {
            (Ok(plan), Some(intent), Resource::Pod(pod)) => {
                let mut pod = defaulted((**pod).clone());
                pod.metadata.namespace = Some(object.namespace().to_owned());
                decision.admitted.push(Admitted { pod, intent: intent.clone(), plan });
            }
            (Err(refusals), ..) => decision.refused.push(RefusedPod { object, refusals }),
            _ => {}
        }
    }
    decision
}

/// Whether a pod can be run on the node of this name.
///
/// # Errors
/// At the first field that is not run, or that is for another node.
pub fn runnable(pod: &Pod, node: &str) -> Result<()> {
    let spec = pod.spec.clone().unwrap_or_default();
    unsupported::check(&spec)?;
    let namespace = pod.metadata.namespace.as_deref().unwrap_or("default");
    hostname::check(&spec, namespace, pod.metadata.name.as_deref().unwrap_or_default())?;
    placement::check(&spec, node)
}

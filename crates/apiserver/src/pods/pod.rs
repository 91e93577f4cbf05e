//! One pod as the API server has it.

use std::time::Duration;

use agent::ports::PodRef;
use kube::Resource as _;
use lifecycle::Moment;
use manifest::k8s_openapi::api::core::v1::{Pod, PodSpec};
use manifest::k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use manifest::{Finding, Listed, Object, Resource, Unknowns, read_listed};
use serde_json::{Value, json};
use types::PodUid;

use crate::raw::RawObject;

/// Annotation of a mirror pod: the hash of its static pod.
pub(crate) const MIRROR: &str = "kubernetes.io/config.mirror";
/// Annotation of a pod on the node: the source that it comes from.
const SOURCE: &str = "kubernetes.io/config.source";

/// A pod as the API server has it.
#[derive(Debug, Clone, PartialEq)]
pub struct ApiPod {
    /// Its namespace, name and UID.
    pub pod: PodRef,
    /// What it asks for.
    pub definition: Definition,
    /// Set once the pod is being deleted.
    pub deletion: Option<Deletion>,
    /// The generation of its spec; `None` if the server does not count generations.
    pub generation: Option<i64>,
    /// When it was created.
    pub created: Option<Moment>,
    /// Its phase in the API; empty if it has none.
    pub phase: String,
    /// The hash of its static pod, if it is a mirror pod: it only shows a static pod, and is never run itself.
    pub mirror: Option<String>,
    /// Whether it is a static pod: one of the node's own files, which the API shows by a mirror pod.
    pub is_static: bool,
    /// Its status in the API, as JSON; `Null` if it has none.
    pub status: Value,
    /// Its version in the API.
    pub resource_version: String,
}

/// The deletion of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deletion {
    /// When the pod is to be gone: the time of the request and the grace period.
    pub deadline: Moment,
    /// The grace period; `None` if the server has stored none.
    pub grace: Option<Duration>,
}

/// What a pod asks for.
#[derive(Debug, Clone, PartialEq)]
pub enum Definition {
    /// The pod, with warnings for fields that we do not know and that cannot weaken its isolation.
    Read(Box<Object>),
    /// Why the pod cannot be read: a field that we do not know could be a wish for isolation, or a value is invalid.
    Refused(Vec<Finding>),
}

impl ApiPod {
    /// Reads a pod of the API server. `None` if its UID cannot be one, which no API server sends.
    pub(crate) fn read(raw: &RawObject) -> Option<Self> {
        // Static pods are known by this annotation, and critical: a pod of the API must not call itself one.
        Self::of_source(&raw.clone().annotated(SOURCE, "api"))
    }

    fn of_source(raw: &RawObject) -> Option<Self> {
        let uid = PodUid::new(raw.uid()).ok()?;
        let pod = PodRef { namespace: raw.namespace().to_owned(), name: raw.name().to_owned(), uid };
        let meta = raw.meta();
        let grace = meta.deletion_grace_period_seconds.and_then(|seconds| u64::try_from(seconds).ok());
        Some(Self {
            definition: definition(&pod, raw),
            pod,
            deletion: meta
                .deletion_timestamp
                .as_ref()
                .map(|time| Deletion { deadline: moment(time), grace: grace.map(Duration::from_secs) }),
            generation: meta.generation.filter(|generation| *generation > 0),
            created: meta.creation_timestamp.as_ref().map(moment),
            phase: raw.field("status").get("phase").and_then(Value::as_str).unwrap_or_default().to_owned(),
            mirror: raw.annotation(MIRROR).map(str::to_owned),
            is_static: false,
            status: raw.field("status").clone(),
            resource_version: meta.resource_version.clone().unwrap_or_default(),
        })
    }

    /// A static pod, as [`manifest::static_pod`] returns it. `None` if its UID cannot be one.
    pub(crate) fn of_file(pod: &Pod) -> Option<Self> {
        Some(Self { is_static: true, ..Self::of_source(&raw(pod))? })
    }

    /// The same pod with another definition: the one that it runs with, where its newest one is refused.
    pub(crate) fn with_definition(&self, pod: &Pod) -> Self {
        Self { definition: definition(&self.pod, &raw(pod)), ..self.clone() }
    }

    /// The pod, if it could be read.
    #[must_use]
    pub fn object(&self) -> Option<&Object> {
        match &self.definition {
            Definition::Read(object) => Some(object),
            Definition::Refused(_) => None,
        }
    }

    /// The same pod with another spec, if it could be read.
    pub(crate) fn with_spec(&self, spec: PodSpec) -> Self {
        let mut changed = self.clone();
        if let Definition::Read(object) = &mut changed.definition
            && let Resource::Pod(pod) = &mut object.resource
        {
            pod.spec = Some(spec);
        }
        changed
    }

    /// Whether it asks for the same as another version of the pod: labels, annotations, spec and the conditions of its
    /// readiness gates are equal.
    pub(crate) fn asks_the_same(&self, other: &Self) -> bool {
        let asked = |pod: &Self| match &pod.definition {
            Definition::Read(object) => match &object.resource {
                Resource::Pod(pod) => {
                    let metadata = &pod.metadata;
                    let labels = (metadata.labels.clone(), metadata.annotations.clone());
                    Some((labels, metadata.generation, gates(pod), pod.spec.clone()))
                }
                _ => None,
            },
            Definition::Refused(_) => None,
        };
        asked(self) == asked(other)
    }

    /// The pod as JSON, as far as its status depends on it.
    pub(crate) fn live(&self) -> Value {
        let spec = self.object().and_then(|object| object.pod()).map(|pod| pod.spec);
        let annotations = self.mirror.as_ref().map(|hash| json!({MIRROR: hash}));
        let deletion = self.deletion.map(|deletion| types::time::stamp(deletion.deadline.millis() / 1000));
        let metadata = json!({"uid": self.pod.uid.as_str(), "annotations": annotations,
            "generation": self.generation, "deletionTimestamp": deletion});
        json!({"metadata": metadata, "spec": spec, "status": self.status})
    }

    /// Whether it has ended for good in the API: its phase is `Succeeded` or `Failed`.
    #[must_use]
    pub fn is_terminal(&self) -> bool {
        is_terminal(&self.phase)
    }
}

/// The conditions that the readiness gates of a pod name, with their status.
fn gates(pod: &Pod) -> Vec<(String, String)> {
    let gates = pod.spec.iter().flat_map(|spec| spec.readiness_gates.iter().flatten());
    let gates: Vec<&str> = gates.map(|gate| gate.condition_type.as_str()).collect();
    let all = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let named = all.filter(|condition| gates.contains(&condition.type_.as_str()));
    named.map(|condition| (condition.type_.clone(), condition.status.clone())).collect()
}

/// Whether a pod in this phase has ended for good.
pub(crate) fn is_terminal(phase: &str) -> bool {
    ["Succeeded", "Failed"].contains(&phase)
}

/// Whether an object is a mirror pod.
pub(crate) fn is_mirror(raw: &RawObject) -> bool {
    raw.annotation(MIRROR).is_some()
}

fn raw(pod: &Pod) -> RawObject {
    // Serialising the fields of a pod cannot fail; an empty map has no UID.
    let fields = serde_json::to_value(pod).ok().and_then(|value| value.as_object().cloned());
    RawObject::from(fields.unwrap_or_default())
}

fn moment(time: &Time) -> Moment {
    Moment::from_millis(u64::try_from(time.0.as_millisecond()).unwrap_or(0))
}

fn definition(pod: &PodRef, raw: &RawObject) -> Definition {
    // The file's name in findings: what kubectl calls the pod, with its namespace.
    let file = format!("pod {}/{}", pod.namespace, pod.name);
    // Serialising a map of JSON values cannot fail; an empty text would be refused.
    let bytes = serde_json::to_vec(raw.fields()).unwrap_or_default();
    let listed = Listed { api_version: "v1".to_owned(), kind: "Pod".to_owned() };
    let mut reading = read_listed(&file, &bytes, Unknowns::Warn, &listed);
    match reading.objects.pop() {
        Some(object) => Definition::Read(Box::new(object)),
        None => Definition::Refused(reading.findings),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(mut pod: Value) -> ApiPod {
        let known = json!({"name": "web", "namespace": "shop", "uid": "u-1", "resourceVersion": "5"});
        for (key, value) in known.as_object().unwrap() {
            pod["metadata"][key] = value.clone();
        }
        ApiPod::read(&serde_json::from_value(pod).unwrap()).unwrap()
    }

    #[test]
    fn what_the_api_says_of_a_pod_is_kept() {
        let pod = read(json!({
            "metadata": {
                "generation": 3, "creationTimestamp": "2026-03-01T12:30:05Z", "deletionTimestamp": "2026-03-01T12:31:00Z",
                "deletionGracePeriodSeconds": 30, "annotations": {MIRROR: "abc"}
            },
            "spec": {"containers": [{"name": "a", "image": "i"}]},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True", "lastProbeTime": null}]}
        }));
        assert_eq!(
            (pod.generation, pod.phase.as_str(), pod.mirror.as_deref()),
            (Some(3), "Running", Some("abc"))
        );
        let deadline = Moment::from_millis(1_772_368_260_000);
        assert_eq!(pod.deletion, Some(Deletion { deadline, grace: Some(Duration::from_secs(30)) }));
        assert_eq!(pod.created, Some(Moment::from_millis(1_772_368_205_000)));
        assert_eq!(pod.object().unwrap().name(), "web");
    }

    #[test]
    fn a_pod_of_the_api_cannot_call_itself_static() {
        let source = |pod: &ApiPod| {
            let Resource::Pod(pod) = &pod.object().unwrap().resource else { panic!("{pod:?}") };
            pod.metadata.annotations.clone().unwrap()[SOURCE].clone()
        };
        let annotated = json!({"metadata": {"annotations": {SOURCE: "file"}}, "spec": {"containers": [{"name": "a", "image": "i"}]}});
        assert_eq!(source(&read(annotated)), "api");
        let plain = json!({"metadata": {}, "spec": {"containers": [{"name": "a", "image": "i"}]}});
        assert_eq!(source(&read(plain)), "api");
    }

    #[test]
    fn an_unknown_field_is_reported_by_name_and_the_pod_is_read() {
        let pod = read(json!({"spec": {"containers": [{"name": "a", "image": "i", "wobble": 1}]}}));
        let warnings = &pod.object().unwrap().warnings;
        assert_eq!(warnings.len(), 1);
        assert_eq!(
            (warnings[0].path.as_str(), &*warnings[0].file),
            ("spec.containers[0].wobble", "pod shop/web")
        );
    }

    #[test]
    fn an_unknown_field_that_may_be_about_isolation_refuses_the_definition_and_keeps_the_pod() {
        let pod = read(json!({"spec": {"isolateMore": true, "containers": [{"name": "a", "image": "i"}]}}));
        let Definition::Refused(findings) = &pod.definition else { panic!("{pod:?}") };
        assert!(findings.iter().any(|finding| finding.path == "spec.isolateMore"), "{findings:?}");
        assert_eq!(pod.pod.name, "web");
    }
}

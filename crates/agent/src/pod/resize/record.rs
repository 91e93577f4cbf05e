//! A resize that is not complete. It is a part of the pod's record, so that a later process completes it.

use std::collections::BTreeMap;

use manifest::k8s_openapi::api::core::v1::{Container, PodSpec, ResourceRequirements};
use serde::{Deserialize, Serialize};

use crate::pod::allocation::{PodAllocation, is_same};
use crate::pod::resize::amounts::Amounts;

/// What of a pod does not have the resources of its definition yet.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ResizeRecord {
    /// The generation of the spec that asked for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) generation: Option<i64>,
    /// Containers with an instance that has other resources.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) containers: BTreeMap<String, Actuated>,
    /// What the pod as a whole asked for before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) pod: Option<ResourceRequirements>,
}

/// The resources that an instance of a container has.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Actuated {
    /// Which instance; `None` for the one that runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) attempt: Option<u32>,
    /// With the limits that it has from its pod.
    pub(crate) resources: ResourceRequirements,
}

impl Actuated {
    pub(crate) fn amounts(&self) -> Amounts {
        Amounts::of(None, Some(&self.resources))
    }
}

/// The resources of a container with the limits that it has from its pod.
pub(crate) fn explicit(
    pod: Option<&ResourceRequirements>,
    own: Option<&ResourceRequirements>,
) -> ResourceRequirements {
    Amounts::of(pod, own).written_into(own)
}

/// Two definitions of a pod, and which instances there are of its containers.
pub(crate) struct Change<'a> {
    pub(crate) before: &'a PodSpec,
    pub(crate) after: &'a PodSpec,
    /// The generation of the later one.
    pub(crate) generation: Option<i64>,
    /// The newest instances, of which one may still be on its way; `None` if they are not known.
    pub(crate) instances: Option<&'a BTreeMap<String, u32>>,
}

impl ResizeRecord {
    /// The resize from one definition to another, with what an earlier one has left to do; `None` if nothing is to be done.
    pub(crate) fn begin(earlier: Option<Self>, change: &Change<'_>) -> Option<Self> {
        let Change { before, after, generation, instances } = change;
        if PodAllocation::of(before).is_of(after) {
            return earlier;
        }
        let mut found = earlier.unwrap_or_else(|| Self { pod: before.resources.clone(), ..Self::default() });
        found.generation = *generation;
        for container in all(before) {
            let attempt = match instances {
                None => None,
                Some(instances) => match instances.get(&container.name) {
                    Some(attempt) => Some(*attempt),
                    // It is made with its new resources.
                    None => continue,
                },
            };
            let resources = explicit(before.resources.as_ref(), container.resources.as_ref());
            found.containers.entry(container.name.clone()).or_insert(Actuated { attempt, resources });
        }
        found.forget_equal(after);
        Some(found)
    }

    /// What a kubelet had in effect in a pod of this definition, if that is something else.
    pub(crate) fn of_kubelet(actuated: &PodAllocation, spec: &PodSpec) -> Option<Self> {
        let mut found = Self { pod: actuated.pod().cloned(), ..Self::default() };
        for container in all(spec) {
            if let Some(resources) = actuated.container(&container.name) {
                let resources = explicit(actuated.pod(), Some(resources));
                found.containers.insert(container.name.clone(), Actuated { attempt: None, resources });
            }
        }
        found.forget_equal(spec);
        let is_other_pod = !is_same(found.pod.as_ref(), spec.resources.as_ref());
        (is_other_pod || !found.containers.is_empty()).then_some(found)
    }

    /// Forgets the containers that have what this definition gives them.
    pub(crate) fn forget_equal(&mut self, spec: &PodSpec) {
        self.containers.retain(|name, known| {
            let Some(container) = all(spec).find(|container| container.name == *name) else { return false };
            known.amounts() != Amounts::of(spec.resources.as_ref(), container.resources.as_ref())
        });
    }

    /// The definition with the resources that are in effect.
    pub(crate) fn in_effect(&self, spec: &PodSpec) -> PodSpec {
        let mut spec = spec.clone();
        spec.resources.clone_from(&self.pod);
        let containers = spec.init_containers.iter_mut().flatten().chain(&mut spec.containers);
        for container in containers {
            if let Some(known) = self.containers.get(&container.name) {
                container.resources = Some(known.resources.clone());
            }
        }
        spec
    }
}

fn all(spec: &PodSpec) -> impl Iterator<Item = &Container> {
    spec.init_containers.iter().flatten().chain(&spec.containers)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn spec(a: &str, b: &str, pod: &Value) -> PodSpec {
        let one = |name: &str, cpu: &str| json!({"name": name, "resources": {"requests": {"cpu": cpu}}});
        serde_json::from_value(json!({"resources": pod, "containers": [one("a", a), one("b", b)]})).unwrap()
    }

    fn begin(earlier: Option<ResizeRecord>, before: &PodSpec, after: &PodSpec) -> Option<ResizeRecord> {
        let instances = BTreeMap::from([("a".to_owned(), 3)]);
        let change = Change { before, after, generation: Some(5), instances: Some(&instances) };
        ResizeRecord::begin(earlier, &change)
    }

    fn cpu(record: &ResizeRecord, name: &str) -> String {
        record.containers[name].resources.requests.as_ref().unwrap()["cpu"].0.clone()
    }

    #[test]
    fn an_instance_keeps_what_it_has_until_it_gets_the_rest() {
        let first = spec("1", "1", &Value::Null);
        assert_eq!(begin(None, &first, &first), None);
        let second = begin(None, &first, &spec("2", "2", &Value::Null)).unwrap();
        assert_eq!((second.generation, second.containers.len()), (Some(5), 1), "b has no instance");
        assert_eq!((second.containers["a"].attempt, cpu(&second, "a").as_str()), (Some(3), "1"));
        let third = begin(Some(second.clone()), &spec("2", "2", &Value::Null), &spec("3", "2", &Value::Null));
        assert_eq!(cpu(&third.unwrap(), "a"), "1");
        let back = begin(Some(second), &spec("2", "2", &Value::Null), &first).unwrap();
        assert!(back.containers.is_empty(), "the cgroup of the pod is still to be set");
    }

    #[test]
    fn a_later_process_does_not_know_the_instances() {
        let (before, after) = (spec("1", "1", &Value::Null), spec("1", "2", &Value::Null));
        let change = Change { before: &before, after: &after, generation: None, instances: None };
        let found = ResizeRecord::begin(None, &change).unwrap();
        assert_eq!(found.containers.keys().collect::<Vec<_>>(), ["b"]);
        assert_eq!(found.containers["b"].attempt, None);
        let text = serde_json::to_string(&found).unwrap();
        assert_eq!(serde_json::from_str::<ResizeRecord>(&text).unwrap(), found);
    }

    #[test]
    fn a_limit_of_the_pod_as_a_whole_is_one_of_containers_without_their_own() {
        let limit = |cpu: &str| json!({"limits": {"cpu": cpu}});
        let (before, after) = (spec("1", "1", &limit("2")), spec("1", "1", &limit("3")));
        let found = begin(None, &before, &after).unwrap();
        assert_eq!((found.containers.len(), &found.pod), (1, &before.resources));
        let in_effect = found.in_effect(&after);
        assert_eq!(in_effect.resources, before.resources);
        let of = |spec: &PodSpec| Amounts::of(spec.resources.as_ref(), spec.containers[0].resources.as_ref());
        assert_eq!((of(&in_effect), of(&after).cpu.limit), (of(&before), 3000));
    }

    #[test]
    fn what_a_kubelet_had_in_effect_is_taken_over() {
        let spec_now = spec("2", "1", &Value::Null);
        let of = |actuated: &PodSpec| ResizeRecord::of_kubelet(&PodAllocation::of(actuated), &spec_now);
        assert_eq!(of(&spec_now), None);
        let found = of(&spec("1", "1", &Value::Null)).unwrap();
        assert_eq!((found.containers.len(), cpu(&found, "a").as_str()), (1, "1"));
        assert!(of(&spec("2", "1", &json!({"limits": {"cpu": "9"}}))).is_some());
    }
}

//! CPU and memory of a container: what a resize can change.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use manifest::k8s_openapi::api::core::v1::{Container, ResourceRequirements};
use manifest::k8s_openapi::apimachinery::pkg::api::resource::Quantity as Written;
use types::{binary_si, decimal_si};

use crate::pod::fields::quantity;

pub(crate) const CPU: &str = "cpu";
pub(crate) const MEMORY: &str = "memory";
const RESTART: &str = "RestartContainer";

/// A resource that is resized by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Resource {
    Cpu,
    Memory,
}

/// An amount in the form in which the API server writes it: thousandths of `cpu`, bytes of memory, storage and huge pages, and a
/// number of anything else. Another form would look like a change.
pub(crate) fn written(resource: &str, amount: u64) -> String {
    match resource {
        CPU if !amount.is_multiple_of(1000) => format!("{amount}m"),
        CPU => decimal_si(amount / 1000),
        MEMORY | "ephemeral-storage" => binary_si(amount),
        _ if resource.starts_with("hugepages-") => binary_si(amount),
        _ => decimal_si(amount),
    }
}

/// What a container has of CPU, in thousandths, and of memory, in bytes; 0 for what it does not ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Amounts {
    pub(crate) cpu: Pair,
    pub(crate) memory: Pair,
}

/// Request and limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Pair {
    pub(crate) request: u64,
    pub(crate) limit: u64,
}

impl Pair {
    /// Whether a change from `before` asks for more or less. The limit counts first.
    pub(crate) fn compared_to(self, before: Self) -> Ordering {
        self.limit.cmp(&before.limit).then(self.request.cmp(&before.request))
    }

    /// Whether the limit of `before` is lowered, or there was none.
    pub(crate) fn lowers_limit(self, before: Self) -> bool {
        self.limit > 0 && (before.limit == 0 || self.limit < before.limit)
    }
}

impl Amounts {
    /// Those of a container of a pod that asks for `pod` as a whole. A container without a limit may use what the pod may.
    pub(crate) fn of(pod: Option<&ResourceRequirements>, own: Option<&ResourceRequirements>) -> Self {
        let amount = |list: Option<&BTreeMap<String, Written>>, name: &str| {
            let written = list.and_then(|list| list.get(name))?;
            let found = if name == CPU { quantity(written).thousandths() } else { quantity(written).units() };
            u64::try_from(found).ok().filter(|amount| *amount > 0)
        };
        let limit = |found: Option<&ResourceRequirements>, name: &str| {
            amount(found.and_then(|found| found.limits.as_ref()), name)
        };
        let pair = |name: &str| Pair {
            request: amount(own.and_then(|own| own.requests.as_ref()), name).unwrap_or(0),
            limit: limit(own, name).or_else(|| limit(pod, name)).unwrap_or(0),
        };
        Self { cpu: pair(CPU), memory: pair(MEMORY) }
    }

    pub(crate) fn of_resource(&self, resource: Resource) -> Pair {
        match resource {
            Resource::Cpu => self.cpu,
            Resource::Memory => self.memory,
        }
    }

    /// These with one resource of others.
    pub(crate) fn with(self, resource: Resource, other: Self) -> Self {
        match resource {
            Resource::Cpu => Self { cpu: other.cpu, ..self },
            Resource::Memory => Self { memory: other.memory, ..self },
        }
    }

    /// Whether a change to `wanted` needs a restart of the container by its resize policies.
    pub(crate) fn needs_restart(&self, wanted: &Self, container: &Container) -> bool {
        let restarts = |name: &str| {
            let mut policies = container.resize_policy.iter().flatten();
            policies.any(|policy| policy.resource_name == name && policy.restart_policy == RESTART)
        };
        (self.cpu != wanted.cpu && restarts(CPU)) || (self.memory != wanted.memory && restarts(MEMORY))
    }

    /// Requirements with these amounts, and everything else as in `own`.
    pub(crate) fn written_into(self, own: Option<&ResourceRequirements>) -> ResourceRequirements {
        let mut found = own.cloned().unwrap_or_default();
        let set = |list: &mut Option<BTreeMap<String, Written>>, name: &str, amount: u64| {
            if amount > 0 {
                list.get_or_insert_default().insert(name.to_owned(), Written(written(name, amount)));
            } else if let Some(list) = list {
                list.remove(name);
            }
        };
        for (name, pair) in [(CPU, self.cpu), (MEMORY, self.memory)] {
            set(&mut found.requests, name, pair.request);
            set(&mut found.limits, name, pair.limit);
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn found(value: Value) -> ResourceRequirements {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn a_container_without_a_limit_has_that_of_its_pod() {
        let pod = found(json!({"requests": {"cpu": "1"}, "limits": {"cpu": "2", "memory": "1Gi"}}));
        let own = found(json!({"requests": {"cpu": "100m"}, "limits": {"memory": "64Mi"}}));
        let all = Amounts::of(Some(&pod), Some(&own));
        assert_eq!(all.cpu, Pair { request: 100, limit: 2000 });
        assert_eq!(all.memory, Pair { request: 0, limit: 64 << 20 });
        assert_eq!(Amounts::of(None, None), Amounts::default());
    }

    #[test]
    fn a_restart_is_needed_for_the_resources_whose_policy_says_so() {
        let policy = json!([{"resourceName": "memory", "restartPolicy": "RestartContainer"},
            {"resourceName": "cpu", "restartPolicy": "NotRequired"}]);
        let container: Container =
            serde_json::from_value(json!({"name": "a", "resizePolicy": policy})).unwrap();
        let of = |cpu: u64, memory: u64| Amounts {
            cpu: Pair { request: cpu, limit: 0 },
            memory: Pair { request: 0, limit: memory },
        };
        let before = of(1, 1);
        let cases = [(of(2, 1), false), (of(1, 2), true), (of(2, 2), true), (of(1, 1), false)];
        for (after, expected) in cases {
            assert_eq!(before.needs_restart(&after, &container), expected, "{after:?}");
        }
        assert!(!before.needs_restart(&of(2, 2), &Container { name: "b".into(), ..Container::default() }));
    }

    #[test]
    fn amounts_are_written_beside_what_a_resize_does_not_change() {
        let own = found(
            json!({"requests": {"cpu": "1", "example.com/gpu": "1"}, "limits": {"memory": "1Gi", "hugepages-2Mi": "4Mi"}}),
        );
        let amounts =
            Amounts { cpu: Pair { request: 1500, limit: 2000 }, memory: Pair { request: 0, limit: 0 } };
        let expected = json!({"requests": {"cpu": "1500m", "example.com/gpu": "1"}, "limits": {"cpu": "2", "hugepages-2Mi": "4Mi"}});
        assert_eq!(amounts.written_into(Some(&own)), found(expected));
    }

    #[test]
    fn amounts_are_written_as_the_api_server_writes_them() {
        let of = ["cpu", "memory", "hugepages-2Mi", "example.com/gpu"].map(|name| written(name, 4096));
        assert_eq!(of, ["4096m", "4Ki", "4Ki", "4096"]);
        assert_eq!([written(CPU, 2000), written(CPU, 0)], ["2", "0"]);
    }

    #[test]
    fn the_limit_decides_whether_a_change_asks_for_more() {
        let pair = |request: u64, limit: u64| Pair { request, limit };
        assert_eq!(pair(1, 3).compared_to(pair(2, 2)), Ordering::Greater);
        assert_eq!(pair(1, 2).compared_to(pair(2, 2)), Ordering::Less);
        assert!(pair(0, 2).lowers_limit(pair(0, 0)) && pair(0, 2).lowers_limit(pair(0, 3)));
        assert!(!pair(0, 3).lowers_limit(pair(0, 2)) && !pair(5, 0).lowers_limit(pair(9, 0)));
    }
}

//! The resources in a pod's status: those that were allocated, and those that are in effect.

use std::collections::BTreeMap;

use cri::LinuxContainerResources;
use manifest::k8s_openapi::api::core::v1::{Container, PodSpec, ResourceRequirements};
use manifest::k8s_openapi::apimachinery::pkg::api::resource::Quantity as Written;
use types::Quantity;

use crate::pod::fields::quantity;
use crate::pod::resize::amounts::{CPU, MEMORY, written};
use crate::pod::resize::record::ResizeRecord;
use crate::pod::resources::{PodResources, pod_level};
use crate::status::resources_view::{
    ContainerResourcesView, ResizeView, ResourcesStatus, ResourcesView, WrittenAmounts,
};

/// The least CPU shares of the kernel, and the least limit of CPU, in thousandths: less is not kept apart from it.
const LEAST_SHARES: u64 = 2;
const LEAST_LIMIT: u64 = 10;

/// A pod whose resources are shown.
pub(crate) struct Shown<'a> {
    /// Its definition, with the allocated resources.
    pub(crate) spec: &'a PodSpec,
    /// Its ephemeral containers.
    pub(crate) ephemeral: &'a [Container],
    /// What of it does not have them yet.
    pub(crate) resize: Option<&'a ResizeRecord>,
    /// Whether its cgroup is limited: the pod has a sandbox.
    pub(crate) is_running: bool,
}

impl Shown<'_> {
    /// The status. `reported` is what the runtime says of the running instance of a container.
    pub(crate) fn status(
        &self,
        view: Option<ResizeView>,
        reported: impl Fn(&str) -> Option<LinuxContainerResources>,
    ) -> ResourcesStatus {
        let all =
            self.spec.init_containers.iter().flatten().chain(&self.spec.containers).chain(self.ephemeral);
        let containers = all.map(|one| {
            let nothing = ResourceRequirements::default();
            let own = one.resources.as_ref().unwrap_or(&nothing);
            let in_effect = match reported(&one.name) {
                Some(reported) => in_effect(own, self.actuated(&one.name), &reported),
                None => view_of(own),
            };
            let allocated = own.requests.as_ref().map(written_list);
            (one.name.clone(), ContainerResourcesView { in_effect, allocated })
        });
        let allocated = amounts(PodResources::of(self.spec).all_requests());
        let containers = containers.collect();
        ResourcesStatus { pod: self.of_pod(), allocated, containers, resize: view, pending: None }
    }

    /// What an instance has that does not have its new resources yet.
    fn actuated(&self, name: &str) -> Option<&ResourceRequirements> {
        Some(&self.resize?.containers.get(name)?.resources)
    }

    /// The resources of the pod's cgroup; before it has one, those that it will have.
    fn of_pod(&self) -> ResourcesView {
        if !self.is_running {
            let found = PodResources::of(self.spec);
            let (requests, limits) = (Some(amounts(found.all_requests())), amounts(found.all_limits()));
            return ResourcesView { requests, limits: Some(limits) };
        }
        let spec = match self.resize {
            Some(resize) => resize.in_effect(self.spec),
            None => self.spec.clone(),
        };
        let found = PodResources::of(&spec);
        let mut view = pod_level(self.spec).map(view_of).unwrap_or_default();
        let requests = view.requests.get_or_insert_default();
        if found.cpu_request() > LEAST_SHARES {
            set(requests, CPU, found.cpu_request());
        }
        if let Some(memory) = found.all_requests().get(MEMORY) {
            requests.entry(MEMORY.to_owned()).or_insert_with(|| written(MEMORY, *memory));
        }
        let limits = view.limits.get_or_insert_default();
        for (name, limit) in [(CPU, found.cpu_limit()), (MEMORY, found.memory_limit())] {
            if let Some(limit) = limit {
                set(limits, name, limit);
            }
        }
        view
    }
}

/// The resources of a running container: those of its definition with what the runtime reports. What it does not report is
/// what was given to the container last.
fn in_effect(
    own: &ResourceRequirements,
    actuated: Option<&ResourceRequirements>,
    reported: &LinuxContainerResources,
) -> ResourcesView {
    let mut view = view_of(own);
    let actuated = actuated.unwrap_or(own);
    let of =
        |list: Option<&BTreeMap<String, Written>>, name: &str| list.and_then(|list| list.get(name).cloned());
    let positive = |number: i64| u64::try_from(number).ok().filter(|number| *number > 0);
    let reported_limit = positive(reported.cpu_period)
        .and_then(|period| positive(reported.cpu_quota).map(|quota| quota.saturating_mul(1000) / period));
    let millis = |written: Option<&Written>| {
        written.map_or(0, |written| u64::try_from(quantity(written).thousandths()).unwrap_or(0))
    };
    if let Some(limits) = &mut view.limits {
        let asked = millis(own.limits.as_ref().and_then(|limits| limits.get(CPU)));
        let known = of(actuated.limits.as_ref(), CPU);
        match reported_limit.filter(|limit| *limit > 0) {
            Some(limit) if limit > LEAST_LIMIT || asked > LEAST_LIMIT => set(limits, CPU, limit),
            Some(_) => {}
            None => keep(limits, CPU, known),
        }
        match positive(reported.memory_limit_in_bytes) {
            Some(limit) => set(limits, MEMORY, limit),
            None => keep(limits, MEMORY, of(actuated.limits.as_ref(), MEMORY)),
        }
    }
    if let Some(requests) = &mut view.requests {
        let asked = millis(own.requests.as_ref().and_then(|requests| requests.get(CPU)));
        let shares = positive(reported.cpu_shares).filter(|shares| *shares >= LEAST_SHARES);
        match shares.map(|shares| shares.saturating_mul(1000).div_ceil(1024)) {
            Some(request) if request > LEAST_SHARES || asked > LEAST_SHARES => {
                // Shares are coarser than requests: equal ones are what was asked for.
                let is_asked = shares == Some(cgroups::kube::cpu_shares(asked)) && asked > 0;
                if !is_asked {
                    set(requests, CPU, request);
                }
            }
            Some(_) => {}
            None => keep(requests, CPU, of(actuated.requests.as_ref(), CPU)),
        }
        keep(requests, MEMORY, of(actuated.requests.as_ref(), MEMORY));
    }
    view
}

/// Sets an amount, in the text that it has if that means the same.
fn set(list: &mut WrittenAmounts, name: &str, amount: u64) {
    let text = written(name, amount);
    let is_same = |known: &String| known.parse::<Quantity>() == text.parse::<Quantity>();
    if !list.get(name).is_some_and(is_same) {
        list.insert(name.to_owned(), text);
    }
}

fn keep(list: &mut WrittenAmounts, name: &str, known: Option<Written>) {
    if let Some(known) = known {
        let is_same = |own: &String| own.parse::<Quantity>() == known.0.parse::<Quantity>();
        if !list.get(name).is_some_and(is_same) {
            list.insert(name.to_owned(), known.0);
        }
    }
}

fn view_of(found: &ResourceRequirements) -> ResourcesView {
    ResourcesView {
        limits: found.limits.as_ref().map(written_list),
        requests: found.requests.as_ref().map(written_list),
    }
}

fn written_list(list: &BTreeMap<String, Written>) -> WrittenAmounts {
    list.iter().map(|(name, written)| (name.clone(), written.0.clone())).collect()
}

fn amounts(all: BTreeMap<String, u64>) -> WrittenAmounts {
    all.into_iter().map(|(name, amount)| (name.clone(), written(&name, amount))).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn spec(value: Value) -> PodSpec {
        serde_json::from_value(value).unwrap()
    }

    fn list(value: Value) -> WrittenAmounts {
        serde_json::from_value(value).unwrap()
    }

    fn linux(shares: i64, quota: i64, memory: i64) -> LinuxContainerResources {
        LinuxContainerResources {
            cpu_shares: shares,
            cpu_quota: quota,
            cpu_period: 100_000,
            memory_limit_in_bytes: memory,
            ..LinuxContainerResources::default()
        }
    }

    fn status(
        spec: &PodSpec,
        resize: Option<&ResizeRecord>,
        reported: Option<&LinuxContainerResources>,
    ) -> ResourcesStatus {
        let is_running = reported.is_some();
        let shown = Shown { spec, ephemeral: &[], resize, is_running };
        shown.status(None, |name| reported.filter(|_| name == "app").cloned())
    }

    #[test]
    fn a_running_container_has_what_the_runtime_reports() {
        let spec = spec(json!({"containers": [{"name": "app", "resources":
            {"requests": {"cpu": "300m", "memory": "64Mi"}, "limits": {"cpu": "500m", "memory": "128Mi"}}}]}));
        let found = status(&spec, None, Some(&linux(307, 50_000, 128 << 20)));
        let app = &found.containers["app"];
        let own = list(json!({"cpu": "300m", "memory": "64Mi"}));
        assert_eq!(app.in_effect.requests.as_ref(), Some(&own), "307 shares are 300m");
        assert_eq!(app.in_effect.limits, Some(list(json!({"cpu": "500m", "memory": "128Mi"}))));
        assert_eq!(app.allocated, Some(own.clone()));
        assert_eq!((&found.allocated, &found.pod.requests), (&own, &Some(own.clone())));
        let other = status(&spec, None, Some(&linux(512, 70_000, 64 << 20)));
        let app = &other.containers["app"].in_effect;
        assert_eq!(app.requests, Some(list(json!({"cpu": "500m", "memory": "64Mi"}))));
        assert_eq!(app.limits, Some(list(json!({"cpu": "700m", "memory": "64Mi"}))));
    }

    #[test]
    fn what_the_runtime_does_not_report_is_what_was_given_last() {
        let of = |memory: &str| {
            spec(json!({"containers": [{"name": "app", "resources":
                {"requests": {"memory": memory}, "limits": {"memory": memory}}}]}))
        };
        let (before, after) = (of("64Mi"), of("128Mi"));
        let actuated = crate::pod::allocation::PodAllocation::of(&before);
        let resize = ResizeRecord::of_kubelet(&actuated, &after).unwrap();
        let found = status(&after, Some(&resize), Some(&LinuxContainerResources::default()));
        let app = &found.containers["app"];
        assert_eq!(app.in_effect.requests, Some(list(json!({"memory": "64Mi"}))));
        assert_eq!(app.in_effect.limits, Some(list(json!({"memory": "64Mi"}))));
        assert_eq!(app.allocated, Some(list(json!({"memory": "128Mi"}))));
        assert_eq!(found.pod.limits, Some(list(json!({"memory": "64Mi"}))));
        assert_eq!(found.allocated, list(json!({"memory": "128Mi"})));
    }

    #[test]
    fn the_kernels_least_values_are_not_shown_for_smaller_ones() {
        let spec = spec(json!({"containers": [{"name": "app", "resources":
            {"requests": {"cpu": "1m"}, "limits": {"cpu": "5m"}}}]}));
        let app = &status(&spec, None, Some(&linux(2, 1000, 0))).containers["app"].in_effect;
        assert_eq!(app.requests, Some(list(json!({"cpu": "1m"}))));
        assert_eq!(app.limits, Some(list(json!({"cpu": "5m"}))));
    }

    #[test]
    fn a_container_that_does_not_run_has_its_allocated_resources_and_only_what_it_names() {
        let spec = spec(
            json!({"containers": [{"name": "app", "resources": {"limits": {"memory": "64Mi"}}}, {"name": "b"}]}),
        );
        let found = status(&spec, None, None);
        let app = &found.containers["app"];
        assert_eq!((&app.in_effect.requests, &app.allocated), (&None, &None));
        assert_eq!(found.containers["b"], ContainerResourcesView::default());
        assert_eq!(found.pod.limits, Some(list(json!({"memory": "64Mi"}))));
    }

    #[test]
    fn a_pod_shows_what_it_asks_for_as_a_whole() {
        let spec =
            spec(json!({"resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2"}},
            "containers": [{"name": "app", "resources": {"requests": {"cpu": "100m"}}}]}));
        let found = status(&spec, None, Some(&linux(102, 200_000, 0)));
        assert_eq!(found.pod.requests, Some(list(json!({"cpu": "1", "memory": "1Gi"}))));
        assert_eq!(found.pod.limits, Some(list(json!({"cpu": "2"}))));
        assert_eq!(found.allocated, list(json!({"cpu": "1", "memory": "1Gi"})));
    }
}

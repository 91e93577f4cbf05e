//! Why a pod is ended, in the kubelet's words.

use std::collections::BTreeMap;

use manifest::k8s_openapi::api::core::v1::{Container, PodSpec};
use types::{binary_si, decimal_si};

use super::super::requests::{MEMORY, counted};
use super::{Candidate, ContainerUse, Starved};

/// The threshold that is met, and what was there instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Amounts {
    /// The threshold.
    pub threshold: u64,
    /// What is available.
    pub available: u64,
}

/// Why a pod is ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Eviction {
    /// The message for its status and its event.
    pub message: String,
    /// The annotations of the event.
    pub annotations: BTreeMap<String, String>,
}

/// Why this pod is ended when the node runs short of something. `met` is the threshold for it.
#[must_use]
pub fn message(pod: &Candidate<'_>, starved: Starved, met: Option<Amounts>) -> Eviction {
    let mut message = format!("The node was low on resource: {starved}. ");
    let mut annotations = BTreeMap::new();
    if let Some(Amounts { threshold, available }) = met {
        let available = match starved {
            Starved::Memory | Starved::EphemeralStorage => binary_si(available),
            Starved::Inodes | Starved::Pids => decimal_si(available),
        };
        let threshold = as_written(threshold);
        message.push_str(&format!("Threshold quantity: {threshold}, available: {available}. "));
    }
    let (Some(used), Some(spec)) = (pod.used, pod.pod.spec.as_ref()) else {
        return Eviction { message, annotations };
    };
    if starved == Starved::Memory
        && let Some(request) = pod_request(spec)
    {
        let (name, usage) = (pod.pod.metadata.name.clone().unwrap_or_default(), binary_si(used.memory));
        message.push_str(&consumer("Pod", &name, &Consumption { usage: &usage, request: &request, starved }));
        annotations.insert("offending_pod".to_owned(), name);
        annotations.insert("offending_pod_usage".to_owned(), usage);
    }
    let (mut names, mut usages) = (Vec::new(), Vec::new());
    for container in &used.containers {
        let Some(asked) = find(spec, &container.name) else { continue };
        let Some((usage, request)) = exceeded(container, asked, starved) else { continue };
        let usage = binary_si(usage);
        let consumption = Consumption { usage: &usage, request: &request, starved };
        message.push_str(&consumer("Container", &container.name, &consumption));
        names.push(container.name.as_str());
        usages.push(usage);
    }
    annotations.insert("offending_containers".to_owned(), names.join(","));
    annotations.insert("offending_containers_usage".to_owned(), usages.join(","));
    annotations.insert("starved_resource".to_owned(), starved.to_string());
    Eviction { message, annotations }
}

struct Consumption<'a> {
    usage: &'a str,
    request: &'a str,
    starved: Starved,
}

fn consumer(kind: &str, name: &str, of: &Consumption<'_>) -> String {
    let Consumption { usage, request, starved } = of;
    format!("{kind} {name} was using {usage}, request is {request}, has larger consumption of {starved}. ")
}

/// The pod's own request of memory, if it has one beside its containers'.
fn pod_request(spec: &PodSpec) -> Option<String> {
    let requests = spec.resources.as_ref()?.requests.as_ref()?;
    requests.get(MEMORY).map(|request| request.0.clone())
}

/// A regular, init or sidecar container: others cannot request anything.
fn find<'a>(spec: &'a PodSpec, name: &str) -> Option<&'a Container> {
    let mut all = spec.containers.iter().chain(spec.init_containers.iter().flatten());
    all.find(|container| container.name == name)
}

/// What a container uses, and its request as written, if it uses more.
fn exceeded(used: &ContainerUse, asked: &Container, starved: Starved) -> Option<(u64, String)> {
    let usage = match starved {
        Starved::Memory => used.memory?,
        Starved::EphemeralStorage => used.layer?.and(used.logs?).bytes,
        Starved::Inodes | Starved::Pids => return None,
    };
    let name = starved.to_string();
    let requests = asked.resources.as_ref().and_then(|resources| resources.requests.as_ref());
    let request = requests.and_then(|requests| requests.get(&name));
    let amount = request.map_or(0, |text| counted(&name, text.0.parse().unwrap_or_default()));
    let is_more = i128::from(usage) > i128::from(amount);
    is_more.then(|| (usage, request.map_or_else(|| "0".to_owned(), |text| text.0.clone())))
}

/// An amount in the form in which it was most likely written: `100Mi`, `1G`.
pub(super) fn as_written(amount: u64) -> String {
    if amount.is_multiple_of(1024) { binary_si(amount) } else { decimal_si(amount) }
}

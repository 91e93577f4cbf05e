//! Use under the names and labels that cAdvisor gave it: kubelets pass these on as they are.
//!
//! CRI's metrics are whole numbers, so seconds are, too.

mod containers;
mod known;
mod network;
mod of_memory;

use cri::{ContainerMetrics, Metric, MetricDescriptor, PodSandboxMetrics, UInt64Value};

use super::{Container, Sandbox};
use known::{Known, Value};

/// Every metric has these, in this order, before its own.
const LABELS: [&str; 6] = ["container", "id", "image", "name", "namespace", "pod"];

/// What every metric is.
#[must_use]
pub fn descriptors() -> Vec<MetricDescriptor> {
    let containers = containers::ALL.iter().chain(of_memory::ALL).map(descriptor);
    containers.chain(network::ALL.iter().map(descriptor)).collect()
}

fn descriptor<T>(known: &Known<T>) -> MetricDescriptor {
    MetricDescriptor {
        name: known.name.to_owned(),
        help: known.help.to_owned(),
        label_keys: LABELS.iter().chain(known.labels).map(|key| (*key).to_owned()).collect(),
    }
}

/// All metrics of a sandbox and its containers, as they were at `at` (nanoseconds since 1970).
#[must_use]
pub fn sandbox(of: &Sandbox, at: i64) -> PodSandboxMetrics {
    let pod = [of.metadata.namespace.clone(), of.metadata.name.clone()];
    let labels = [String::new(), of.cgroup.clone(), String::new(), of.id.clone()].into_iter();
    let labels: Vec<String> = labels.chain(pod.clone()).collect();
    PodSandboxMetrics {
        pod_sandbox_id: of.id.clone(),
        metrics: network::ALL.iter().flat_map(|known| metrics(known, of, &labels, at)).collect(),
        container_metrics: of.containers.iter().map(|of| container(of, &pod, at)).collect(),
    }
}

fn container(of: &Container, pod: &[String; 2], at: i64) -> ContainerMetrics {
    let own = [of.metadata.name.clone(), of.cgroup.clone(), of.image.clone(), of.id.clone()];
    let labels: Vec<String> = own.into_iter().chain(pod.iter().cloned()).collect();
    let all = containers::ALL.iter().chain(of_memory::ALL);
    ContainerMetrics {
        container_id: of.id.clone(),
        metrics: all.flat_map(|known| metrics(known, of, &labels, at)).collect(),
    }
}

fn metrics<T>(known: &Known<T>, of: &T, labels: &[String], at: i64) -> Vec<Metric> {
    let metric = |value: Value| Metric {
        name: known.name.to_owned(),
        timestamp: at,
        metric_type: known.kind.into(),
        label_values: labels.iter().cloned().chain(value.labels).collect(),
        value: Some(UInt64Value { value: value.value }),
    };
    (known.values)(of, at).into_iter().map(metric).collect()
}

#[cfg(test)]
mod tests;

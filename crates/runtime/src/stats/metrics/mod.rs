//! Use under the names and labels that cAdvisor gave it: kubelets pass these on as they are.
//!
//! CRI's metrics are whole numbers, so seconds are, too.

mod containers;
mod network;
mod of_memory;

use wire::cri::{ContainerMetrics, Metric, MetricDescriptor, MetricType, PodSandboxMetrics, UInt64Value};

use super::{Container, Sandbox};

/// Every metric has these, in this order, before its own.
const LABELS: [&str; 6] = ["container", "id", "image", "name", "namespace", "pod"];

const SECOND: u64 = 1_000_000_000;

/// One metric of something of type `T`.
struct Known<T> {
    name: &'static str,
    help: &'static str,
    kind: MetricType,
    /// Labels of its own.
    labels: &'static [&'static str],
    values: fn(&T, i64) -> Vec<Value>,
}

/// A value with the values of its metric's own labels.
struct Value {
    labels: Vec<String>,
    value: u64,
}

/// One value if it is known.
fn plain(value: Option<u64>) -> Vec<Value> {
    value.map(|value| Value { labels: Vec::new(), value }).into_iter().collect()
}

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

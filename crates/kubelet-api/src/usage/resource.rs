//! `/metrics/resource`, which metrics-server reads.

use telemetry::metrics::{Description, Exposition, Kind, to_f64};

use super::{ContainerUsage, NodeUsage, PodUsage, Used};

const NANOS: f64 = 1e9;
const MILLIS: f64 = 1e3;

/// Reads a counter of a cgroup.
type Value = fn(&Used) -> Option<f64>;

/// Counters of nodes, containers and pods: the end of their names, their meaning, and where they are read.
const COUNTERS: [(&str, Kind, Value); 3] = [
    ("cpu_usage_seconds_total", Kind::Counter, |used| Some(to_f64(used.counters.cpu?) / NANOS)),
    ("memory_working_set_bytes", Kind::Gauge, |used| used.counters.memory.working_set().map(to_f64)),
    ("swap_usage_bytes", Kind::Gauge, |used| used.counters.memory.swap.map(to_f64)),
];

const NODE: [Description; 3] = [
    Description::new("node_cpu_usage_seconds_total", "CPU time of the node, in seconds of one core"),
    Description::new("node_memory_working_set_bytes", "Working set of the node"),
    Description::new("node_swap_usage_bytes", "Swap in use on the node"),
];
const POD: [Description; 3] = [
    Description::new("pod_cpu_usage_seconds_total", "CPU time of a pod, in seconds of one core"),
    Description::new("pod_memory_working_set_bytes", "Working set of a pod"),
    Description::new("pod_swap_usage_bytes", "Swap in use by a pod"),
];
const CONTAINER: [Description; 3] = [
    Description::new("container_cpu_usage_seconds_total", "CPU time of a container, in seconds of one core"),
    Description::new("container_memory_working_set_bytes", "Working set of a container"),
    Description::new("container_swap_usage_bytes", "Swap in use by a container"),
];
const STARTED: Description =
    Description::new("container_start_time_seconds", "When a container was started, in seconds since 1970");
const ERRORS: [Description; 2] = [
    Description::new("resource_scrape_error", "1 if what containers use could not be read, otherwise 0"),
    Description::new("scrape_error", "The same under its former name"),
];

/// The metrics of CPU and memory, each with the time at which it was read. An error leaves them out and is a metric itself.
pub(crate) fn resource_metrics(read: Result<&NodeUsage, ()>) -> String {
    let mut out = Exposition::default();
    if let Ok(node) = read {
        write(&mut out, node);
    }
    for description in ERRORS {
        out.family(description, Kind::Gauge);
        out.sample(&[], if read.is_ok() { 0.0 } else { 1.0 }, None);
    }
    out.text()
}

fn write(out: &mut Exposition, node: &NodeUsage) {
    let containers: Vec<(&PodUsage, &ContainerUsage)> = node
        .pods
        .iter()
        .flat_map(|pod| pod.containers.iter().map(move |container| (pod, container)))
        .filter(|(_, container)| is_measured(&container.used))
        .collect();
    for ((_, kind, value), description) in COUNTERS.into_iter().zip(CONTAINER) {
        out.family(description, kind);
        for (pod, container) in &containers {
            sample(out, &labels(pod, Some(container)), &container.used, value);
        }
    }
    out.family(STARTED, Kind::Gauge);
    for (pod, container) in &containers {
        out.sample(&labels(pod, Some(container)), to_f64(container.started) / MILLIS, None);
    }
    for ((_, kind, value), description) in COUNTERS.into_iter().zip(NODE) {
        out.family(description, kind);
        sample(out, &[], &node.used, value);
    }
    for ((_, kind, value), description) in COUNTERS.into_iter().zip(POD) {
        out.family(description, kind);
        for pod in node.pods.iter().filter(|pod| is_measured(&pod.used)) {
            sample(out, &labels(pod, None), &pod.used, value);
        }
    }
}

/// Whether a container runs: metrics-server ignores a whole pod if one of its containers has used nothing.
fn is_measured(used: &Used) -> bool {
    used.counters.cpu.is_some_and(|cpu| cpu > 0)
        && used.counters.memory.working_set().is_some_and(|memory| memory > 0)
}

fn labels<'a>(pod: &'a PodUsage, container: Option<&'a ContainerUsage>) -> Vec<(&'a str, &'a str)> {
    let container = container.map(|container| ("container", container.name.as_str()));
    let of_pod = [("namespace", pod.namespace.as_str()), ("pod", pod.name.as_str())];
    container.into_iter().chain(of_pod).collect()
}

fn sample(out: &mut Exposition, labels: &[(&str, &str)], used: &Used, value: Value) {
    if let Some(value) = value(used) {
        out.sample(labels, value, Some(used.at));
    }
}

#[cfg(test)]
mod tests {
    use cgroups::{Counters, Memory};

    use super::*;

    fn used(cpu: u64, memory: u64) -> Used {
        let memory = Memory { usage: Some(memory + 5), inactive_file: Some(5), ..Memory::default() };
        Used {
            at: 1_000,
            counters: Counters { cpu: Some(cpu), memory, ..Counters::default() },
            ..Used::default()
        }
    }

    fn node() -> NodeUsage {
        let container = |name: &str, used: Used| ContainerUsage {
            name: name.to_owned(),
            started: 1_500,
            used,
            ..ContainerUsage::default()
        };
        let containers = vec![container("app", used(500_000_000, 4096)), container("ended", used(0, 0))];
        let (namespace, name) = ("shop".to_owned(), "web".to_owned());
        let pod =
            PodUsage { namespace, name, used: used(2_000_000_000, 8192), containers, ..PodUsage::default() };
        NodeUsage { used: used(9_000_000_000, 1 << 30), pods: vec![pod], ..NodeUsage::default() }
    }

    #[test]
    fn values_have_the_time_at_which_they_were_read() {
        let text = resource_metrics(Ok(&node()));
        for line in [
            "# TYPE container_cpu_usage_seconds_total counter",
            "container_cpu_usage_seconds_total{container=\"app\",namespace=\"shop\",pod=\"web\"} 0.5 1000",
            "container_memory_working_set_bytes{container=\"app\",namespace=\"shop\",pod=\"web\"} 4096 1000",
            "container_start_time_seconds{container=\"app\",namespace=\"shop\",pod=\"web\"} 1.5",
            "node_cpu_usage_seconds_total 9 1000",
            "node_memory_working_set_bytes 1.073741824e+09 1000",
            "pod_cpu_usage_seconds_total{namespace=\"shop\",pod=\"web\"} 2 1000",
            "pod_memory_working_set_bytes{namespace=\"shop\",pod=\"web\"} 8192 1000",
            "resource_scrape_error 0",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        assert!(!text.contains("swap_usage_bytes{") && !text.contains("ended"), "{text}");
    }

    #[test]
    fn an_error_is_a_metric() {
        let text = resource_metrics(Err(()));
        assert!(text.contains("\nresource_scrape_error 1\n") && !text.contains("node_cpu"), "{text}");
    }
}

//! `/metrics/resource`, which metrics-server reads.

use telemetry::metrics::{Description, Exposition, Kind, to_f64};

use super::{ContainerUsage, NodeUsage, PodUsage, Used};

const NANOS: f64 = 1e9;
const MILLIS: f64 = 1e3;

/// What is counted of containers, of the node and of pods, each under a name of its own.
struct Resource {
    kind: Kind,
    value: fn(&Used) -> Option<f64>,
    container: Description,
    node: Option<Description>,
    pod: Option<Description>,
}

const RESOURCES: [Resource; 4] = [
    Resource {
        kind: Kind::Counter,
        value: |used| Some(to_f64(used.counters.cpu?) / NANOS),
        container: Description::new(
            "container_cpu_usage_seconds_total",
            "CPU time of a container, in seconds of one core",
        ),
        node: Some(Description::new(
            "node_cpu_usage_seconds_total",
            "CPU time of the node, in seconds of one core",
        )),
        pod: Some(Description::new(
            "pod_cpu_usage_seconds_total",
            "CPU time of a pod, in seconds of one core",
        )),
    },
    Resource {
        kind: Kind::Gauge,
        value: |used| used.counters.memory.working_set().map(to_f64),
        container: Description::new("container_memory_working_set_bytes", "Working set of a container"),
        node: Some(Description::new("node_memory_working_set_bytes", "Working set of the node")),
        pod: Some(Description::new("pod_memory_working_set_bytes", "Working set of a pod")),
    },
    Resource {
        kind: Kind::Gauge,
        value: |used| used.counters.memory.swap.map(to_f64),
        container: Description::new("container_swap_usage_bytes", "Swap in use by a container"),
        node: Some(Description::new("node_swap_usage_bytes", "Swap in use on the node")),
        pod: Some(Description::new("pod_swap_usage_bytes", "Swap in use by a pod")),
    },
    Resource {
        kind: Kind::Gauge,
        value: |used| used.counters.memory.swap_limit.map(to_f64),
        container: Description::new("container_swap_limit_bytes", "Swap that a container may use"),
        node: None,
        pod: None,
    },
];

const STARTED: Description =
    Description::new("container_start_time_seconds", "When a container was started, in seconds since 1970");
const ERROR: Description =
    Description::new("resource_scrape_error", "1 if what containers use could not be read, otherwise 0");

/// The metrics of CPU, memory and swap, each with the time at which it was read. An error leaves them out and is a metric itself.
pub(crate) fn resource_metrics(read: Result<&NodeUsage, ()>) -> String {
    let mut out = Exposition::default();
    if let Ok(node) = read {
        write(&mut out, node);
    }
    out.family(ERROR, Kind::Gauge);
    out.sample(&[], if read.is_ok() { 0.0 } else { 1.0 }, None);
    out.text()
}

fn write(out: &mut Exposition, node: &NodeUsage) {
    let containers: Vec<(&PodUsage, &ContainerUsage)> = node
        .pods
        .iter()
        .filter(|pod| is_measured(pod))
        .flat_map(|pod| pod.containers.iter().map(move |container| (pod, container)))
        .collect();
    for Resource { kind, value, container, .. } in &RESOURCES {
        out.family(*container, *kind);
        for (pod, container) in &containers {
            sample(out, &labels(pod, Some(container)), &container.used, *value);
        }
    }
    out.family(STARTED, Kind::Gauge);
    for (pod, container) in &containers {
        out.sample(&labels(pod, Some(container)), to_f64(container.started) / MILLIS, None);
    }
    for Resource { kind, value, node: description, .. } in &RESOURCES {
        let Some(description) = description else { continue };
        out.family(*description, *kind);
        sample(out, &[], &node.used, *value);
    }
    for Resource { kind, value, pod: description, .. } in &RESOURCES {
        let Some(description) = description else { continue };
        out.family(*description, *kind);
        for pod in node.pods.iter().filter(|pod| pod.used.counters.has_usage()) {
            sample(out, &labels(pod, None), &pod.used, *value);
        }
    }
}

/// Whether it is known what each container of a pod uses. If it is not of one, all are left out: the autoscaler would take the
/// requests of all containers for those of the others, and metrics-server drops a pod with a container that has used nothing.
fn is_measured(pod: &PodUsage) -> bool {
    pod.containers.iter().all(|container| container.used.counters.has_usage())
}

fn labels<'a>(pod: &'a PodUsage, container: Option<&'a ContainerUsage>) -> Vec<(&'a str, &'a str)> {
    let container = container.map(|container| ("container", container.name.as_str()));
    let of_pod = [("namespace", pod.namespace.as_str()), ("pod", pod.name.as_str())];
    container.into_iter().chain(of_pod).collect()
}

fn sample(out: &mut Exposition, labels: &[(&str, &str)], used: &Used, value: fn(&Used) -> Option<f64>) {
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

    fn container(name: &str, used: Used) -> ContainerUsage {
        ContainerUsage { name: name.to_owned(), started: 1_500, used, ..ContainerUsage::default() }
    }

    fn pod(name: &str, containers: Vec<ContainerUsage>) -> PodUsage {
        let (namespace, name) = ("shop".to_owned(), name.to_owned());
        PodUsage { namespace, name, used: used(2_000_000_000, 8192), containers, ..PodUsage::default() }
    }

    fn node() -> NodeUsage {
        let web = pod("web", vec![container("app", used(500_000_000, 4096))]);
        NodeUsage { used: used(9_000_000_000, 1 << 30), pods: vec![web], ..NodeUsage::default() }
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
        assert!(!text.contains("swap"), "nothing is known of swap, not even a head: {text}");
    }

    #[test]
    fn swap_has_its_limit() {
        let mut node = node();
        let with_swap =
            |used: &mut Used, swap| (used.counters.memory.swap, used.counters.memory.swap_limit) = swap;
        with_swap(&mut node.used, (Some(9), None));
        with_swap(&mut node.pods[0].used, (Some(8), Some(60)));
        with_swap(&mut node.pods[0].containers[0].used, (Some(7), Some(50)));
        let text = resource_metrics(Ok(&node));
        for line in [
            "container_swap_usage_bytes{container=\"app\",namespace=\"shop\",pod=\"web\"} 7 1000",
            "container_swap_limit_bytes{container=\"app\",namespace=\"shop\",pod=\"web\"} 50 1000",
            "node_swap_usage_bytes 9 1000",
            "pod_swap_usage_bytes{namespace=\"shop\",pod=\"web\"} 8 1000",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        assert_eq!(text.matches("swap_limit_bytes{").count(), 1, "{text}");
    }

    /// The others' CPU time was divided by the requests of all.
    #[test]
    fn a_pod_with_a_container_of_which_nothing_is_known_has_no_containers() {
        let measured = || container("app", used(500_000_000, 4096));
        for unknown in [Used::default(), used(0, 0), used(5, 0), used(0, 4096)] {
            let mut node = node();
            node.pods.push(pod("virtual", vec![measured(), container("other", unknown)]));
            let text = resource_metrics(Ok(&node));
            assert!(
                !text.contains("container=\"other\"") && text.matches("{container=\"app\"").count() == 3,
                "{text}"
            );
            let of_pod = "pod_memory_working_set_bytes{namespace=\"shop\",pod=\"virtual\"} 8192 1000";
            assert!(text.lines().any(|line| line == of_pod), "{text}");
        }
    }

    /// A kubelet hides `scrape_error` since 1.29.
    #[test]
    fn an_error_is_one_metric() {
        let text = resource_metrics(Err(()));
        let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(lines, ["resource_scrape_error 1"]);
    }
}

//! `/metrics/cadvisor`: what the runtime counts for pods and containers under cAdvisor's names, and the machine.

use std::collections::BTreeMap;
use std::time::Duration;

use cri::client::Client;
use cri::{
    ListMetricDescriptorsRequest, ListPodSandboxMetricsRequest, Metric, MetricDescriptor, MetricType,
    PodSandboxMetrics, within,
};
use telemetry::metrics::{Description, Exposition, Kind, to_f64};

use crate::node::MachineFacts;

/// How long the runtime may take.
const PATIENCE: Duration = Duration::from_secs(20);
const NANOS_OF_MILLI: i64 = 1_000_000;

/// # Errors
/// If the runtime does not say.
pub(super) async fn metrics(client: &Client, machine: &MachineFacts) -> Result<String, String> {
    let (mut first, mut second) = (client.runtime(), client.runtime());
    let known = first.list_metric_descriptors(ListMetricDescriptorsRequest {});
    let found = second.list_pod_sandbox_metrics(ListPodSandboxMetricsRequest {});
    let known = within(PATIENCE, "ListMetricDescriptors", known);
    let found = within(PATIENCE, "ListPodSandboxMetrics", found);
    let (known, found) = tokio::try_join!(known, found).map_err(|error| error.to_string())?;
    Ok(text(&known.descriptors, &found.pod_metrics, machine))
}

fn text(known: &[MetricDescriptor], found: &[PodSandboxMetrics], machine: &MachineFacts) -> String {
    let of_containers = |pod: &'_ PodSandboxMetrics| {
        pod.container_metrics.iter().flat_map(|container| container.metrics.clone()).collect::<Vec<_>>()
    };
    let mut families: BTreeMap<&str, Vec<Metric>> = BTreeMap::new();
    for metric in found.iter().flat_map(|pod| pod.metrics.iter().cloned().chain(of_containers(pod))) {
        // One without a description has labels without names.
        if let Some(of) = known.iter().find(|of| of.name == metric.name) {
            families.entry(of.name.as_str()).or_default().push(metric);
        }
    }
    let mut out = Exposition::default();
    for of in known {
        let Some(metrics) = families.remove(of.name.as_str()) else { continue };
        let is_counter = metrics.iter().any(|metric| metric.metric_type() == MetricType::Counter);
        out.named_family(&of.name, &of.help, if is_counter { Kind::Counter } else { Kind::Gauge });
        for metric in &metrics {
            let values = metric.label_values.iter().map(String::as_str);
            let labels: Vec<_> = of.label_keys.iter().map(String::as_str).zip(values).collect();
            let at = u64::try_from(metric.timestamp / NANOS_OF_MILLI).ok().filter(|at| *at > 0);
            out.sample(&labels, to_f64(metric.value.map_or(0, |value| value.value)), at);
        }
    }
    let MachineFacts { boot_id, machine_id, system_uuid, cpus, memory, .. } = machine;
    let labels = [("boot_id", &**boot_id), ("machine_id", &**machine_id), ("system_uuid", &**system_uuid)];
    out.family(Description::new("machine_cpu_cores", "Processors of the machine"), Kind::Gauge);
    out.sample(&labels, f64::from(*cpus), None);
    out.family(Description::new("machine_memory_bytes", "Memory of the machine"), Kind::Gauge);
    out.sample(&labels, to_f64(*memory), None);
    out.text()
}

#[cfg(test)]
mod tests {
    use cri::{ContainerMetrics, UInt64Value};

    use super::*;

    #[test]
    fn families_are_written_once_with_the_labels_of_their_description() {
        let descriptor = |name: &str| MetricDescriptor {
            name: name.to_owned(),
            help: "Bytes".to_owned(),
            label_keys: vec!["container".to_owned(), "pod".to_owned()],
        };
        let metric = |name: &str, container: &str, kind: MetricType| Metric {
            name: name.to_owned(),
            timestamp: 1_700_000_000_123_000_000,
            metric_type: kind.into(),
            label_values: vec![container.to_owned(), "web".to_owned()],
            value: Some(UInt64Value { value: 7 }),
        };
        let container_metrics = ["app", "other"].map(|name| ContainerMetrics {
            container_id: name.to_owned(),
            metrics: vec![
                metric("container_sent", name, MetricType::Counter),
                metric("unknown", name, MetricType::Gauge),
            ],
        });
        let pod = PodSandboxMetrics {
            pod_sandbox_id: "p".to_owned(),
            metrics: vec![metric("container_sent", "", MetricType::Counter)],
            container_metrics: container_metrics.into(),
        };
        let machine =
            MachineFacts { cpus: 2, memory: 4096, boot_id: "b".to_owned(), ..MachineFacts::default() };
        let text = text(&[descriptor("container_none"), descriptor("container_sent")], &[pod], &machine);
        let sent = "# HELP container_sent Bytes\n# TYPE container_sent counter\n\
            container_sent{container=\"\",pod=\"web\"} 7 1700000000123\n\
            container_sent{container=\"app\",pod=\"web\"} 7 1700000000123\n\
            container_sent{container=\"other\",pod=\"web\"} 7 1700000000123\n";
        assert!(text.starts_with(sent), "{text}");
        assert!(!text.contains("container_none") && !text.contains("unknown"), "{text}");
        assert!(
            text.contains("machine_cpu_cores{boot_id=\"b\",machine_id=\"\",system_uuid=\"\"} 2\n"),
            "{text}"
        );
    }
}

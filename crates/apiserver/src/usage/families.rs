//! The metrics that a runtime has of pods and containers, as families of the text format of Prometheus.

use std::collections::{BTreeMap, BTreeSet};

use cri::{Metric, MetricDescriptor, MetricType, PodSandboxMetrics};
use telemetry::metrics::{Exposition, ForeignFamily, Kind, to_f64};

const NANOS_OF_MILLI: i64 = 1_000_000;
/// As many samples of one family are written of a pod itself: each of its network interfaces is one, and a pod with `NET_ADMIN`
/// can make any number of them.
const MOST_OF_POD: usize = 64;
/// As many of one of its containers: each disk of the host is a few.
const MOST_OF_CONTAINER: usize = 1024;
/// As many bytes are written in all.
const MOST_BYTES: usize = 32 << 20;

/// Families that fill with samples.
#[derive(Debug)]
pub(super) struct Families {
    all: Vec<Described>,
    by_name: BTreeMap<String, usize>,
    bytes: usize,
    problems: Problems,
}

#[derive(Debug)]
struct Described {
    family: ForeignFamily,
    /// That of its first sample: CRI's descriptions have none.
    kind: Option<Kind>,
}

/// What is wrong with what the runtime says, for the log.
#[derive(Debug, Default)]
pub(super) struct Problems(BTreeSet<String>);

impl Problems {
    /// As many are reported of one answer.
    const MOST: usize = 16;

    fn add(&mut self, text: impl FnOnce() -> String) {
        if self.0.len() < Self::MOST {
            self.0.insert(text());
        }
    }

    pub(super) fn into_texts(self) -> impl Iterator<Item = String> {
        self.0.into_iter()
    }
}

impl Families {
    /// The families that a runtime describes, without samples. One that a parser could not read is left out.
    pub(super) fn of(descriptors: Vec<MetricDescriptor>) -> Self {
        let mut problems = Problems::default();
        let (mut all, mut by_name) = (Vec::new(), BTreeMap::new());
        for MetricDescriptor { name, help, label_keys } in descriptors {
            match ForeignFamily::new(name, help, label_keys) {
                Ok(family) if by_name.contains_key(family.name()) => {
                    problems.add(|| format!("metric {}: it is described twice", family.name()));
                }
                Ok(family) => {
                    by_name.insert(family.name().to_owned(), all.len());
                    all.push(Described { family, kind: None });
                }
                Err(error) => problems.add(|| error.to_string()),
            }
        }
        Self { all, by_name, bytes: 0, problems }
    }

    /// Adds what the runtime has of these pods and their containers.
    pub(super) fn add(&mut self, pods: &[PodSandboxMetrics]) {
        for pod in pods {
            self.add_of_one(&pod.metrics, MOST_OF_POD);
            for container in &pod.container_metrics {
                self.add_of_one(&container.metrics, MOST_OF_CONTAINER);
            }
        }
    }

    fn add_of_one(&mut self, metrics: &[Metric], most: usize) {
        let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
        for metric in metrics {
            // One without a description has labels without names.
            let Some(index) = self.by_name.get(&metric.name).copied() else { continue };
            let count = counts.entry(index).or_default();
            *count += 1;
            if *count > most {
                self.problems.add(|| format!("metric {}: more than {most} samples of one pod", metric.name));
            } else if self.bytes > MOST_BYTES {
                self.problems.add(|| format!("all metrics have more than {MOST_BYTES} bytes"));
            } else {
                self.add_sample(index, metric);
            }
        }
    }

    fn add_sample(&mut self, index: usize, metric: &Metric) {
        let Some(of) = self.all.get_mut(index) else { return };
        let kind = if metric.metric_type() == MetricType::Counter { Kind::Counter } else { Kind::Gauge };
        if *of.kind.get_or_insert(kind) != kind {
            return self.problems.add(|| format!("metric {}: it is both counter and gauge", metric.name));
        }
        let at = u64::try_from(metric.timestamp / NANOS_OF_MILLI).ok().filter(|at| *at > 0);
        let value = to_f64(metric.value.map_or(0, |value| value.value));
        match of.family.sample(&metric.label_values, value, at) {
            Ok(bytes) => self.bytes += bytes,
            Err(error) => self.problems.add(|| error.to_string()),
        }
    }

    /// Writes the families that have samples.
    pub(super) fn write(self, out: &mut Exposition) -> Problems {
        let mut problems = self.problems;
        for Described { family, kind } in self.all {
            if let Some(kind) = kind
                && !out.add(&family, kind)
            {
                problems.add(|| format!("metric {}: it is one of the agent's own", family.name()));
            }
        }
        problems
    }
}

#[cfg(test)]
mod tests {
    use cri::{ContainerMetrics, UInt64Value};
    use telemetry::metrics::Description;

    use super::*;

    fn descriptor(name: &str, labels: &[&str]) -> MetricDescriptor {
        let label_keys = labels.iter().map(|label| (*label).to_owned()).collect();
        MetricDescriptor { name: name.to_owned(), help: "Bytes".to_owned(), label_keys }
    }

    fn metric(name: &str, values: &[&str]) -> Metric {
        Metric {
            name: name.to_owned(),
            timestamp: 1_700_000_000_123_000_000,
            metric_type: MetricType::Counter.into(),
            label_values: values.iter().map(|value| (*value).to_owned()).collect(),
            value: Some(UInt64Value { value: 7 }),
        }
    }

    fn pod(metrics: Vec<Metric>, containers: Vec<Vec<Metric>>) -> PodSandboxMetrics {
        let container = |metrics| ContainerMetrics { container_id: "c".to_owned(), metrics };
        let container_metrics = containers.into_iter().map(container).collect();
        PodSandboxMetrics { pod_sandbox_id: "p".to_owned(), metrics, container_metrics }
    }

    fn written(descriptors: Vec<MetricDescriptor>, pods: &[PodSandboxMetrics]) -> (String, Vec<String>) {
        let mut families = Families::of(descriptors);
        // As a stream brings them.
        pods.iter().for_each(|pod| families.add(std::slice::from_ref(pod)));
        let mut out = Exposition::default();
        out.family(Description::new("machine_cpu_cores", "Processors"), Kind::Gauge);
        out.sample(&[], 2.0, None);
        let problems = families.write(&mut out);
        (out.text(), problems.into_texts().collect())
    }

    #[test]
    fn families_are_written_once_with_the_labels_of_their_description() {
        let labels = ["container", "pod"];
        let descriptors = vec![descriptor("container_none", &labels), descriptor("container_sent", &labels)];
        let of = |container: &str, pod: &str| metric("container_sent", &[container, pod]);
        let unknown = metric("unknown", &["app", "web"]);
        let pods = [
            pod(vec![of("", "web")], vec![vec![of("app", "web"), unknown], vec![of("other", "web")]]),
            pod(vec![of("", "db")], vec![]),
        ];
        let (text, problems) = written(descriptors, &pods);
        let sent = "# HELP container_sent Bytes\n# TYPE container_sent counter\n\
            container_sent{container=\"\",pod=\"web\"} 7 1700000000123\n\
            container_sent{container=\"app\",pod=\"web\"} 7 1700000000123\n\
            container_sent{container=\"other\",pod=\"web\"} 7 1700000000123\n\
            container_sent{container=\"\",pod=\"db\"} 7 1700000000123\n";
        assert!(text.ends_with(sent), "{text}");
        assert!(!text.contains("container_none") && !text.contains("unknown"), "{text}");
        assert!(problems.is_empty(), "{problems:?}");
    }

    /// The names went into the text as they were: a runtime could write samples of any metric.
    #[test]
    fn what_a_parser_could_not_read_is_left_out_and_reported() {
        let descriptors = vec![
            descriptor("a\nup", &[]),
            descriptor("b", &["x\"} 1\nup{y"]),
            descriptor("machine_cpu_cores", &[]),
            descriptor("d", &["x", "y"]),
            descriptor("d", &["x"]),
            descriptor("e", &[]),
        ];
        let mut gauge = metric("e", &[]);
        gauge.metric_type = MetricType::Gauge.into();
        let wrong = vec![
            metric("a\nup", &[]),
            metric("b", &["1"]),
            metric("machine_cpu_cores", &[]),
            metric("d", &["1"]),
            metric("d", &["1", "2", "3"]),
            metric("e", &[]),
            gauge,
        ];
        let (text, problems) = written(descriptors, &[pod(wrong, vec![])]);
        let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(lines, ["machine_cpu_cores 2", "e 7 1700000000123"]);
        for part in [
            "a\\nup",
            "metric b: label",
            "described twice",
            "agent's own",
            "3 label values",
            "counter and gauge",
        ] {
            assert!(problems.iter().any(|problem| problem.contains(part)), "{part}: {problems:?}");
        }
    }

    /// A pod with `NET_ADMIN` made thousands of interfaces, which are thousands of samples of each family.
    #[test]
    fn a_pod_has_a_limited_number_of_samples() {
        let of = |number: usize| metric("sent", &[&format!("d{number}")]);
        let many: Vec<Metric> = (0..5000).map(of).collect();
        let pods = [pod(many.clone(), vec![many]), pod(vec![of(0)], vec![])];
        let (text, problems) = written(vec![descriptor("sent", &["interface"])], &pods);
        assert_eq!(text.matches("sent{").count(), MOST_OF_POD + MOST_OF_CONTAINER + 1);
        assert!(problems.iter().any(|problem| problem.contains("more than 64 samples")), "{problems:?}");
    }

    #[test]
    fn all_pods_together_have_a_limited_number_of_bytes() {
        let long = "x".repeat(1 << 20);
        let pods = vec![pod(vec![metric("sent", &[&long])], vec![]); 100];
        let (text, problems) = written(vec![descriptor("sent", &["interface"])], &pods);
        assert!((MOST_BYTES..MOST_BYTES + (3 << 20)).contains(&text.len()), "{}", text.len());
        assert!(problems.iter().any(|problem| problem.contains("bytes")), "{problems:?}");
    }
}

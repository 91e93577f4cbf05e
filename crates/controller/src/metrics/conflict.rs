use std::sync::Arc;

use telemetry::metrics::{Collector, Description, Error, Family, Kind, to_f64};

use crate::cluster::Cluster;
use crate::objects::Watched;
use crate::shared::Shared;

/// Upstream's metric, with upstream's labels in upstream's order.
const UPSTREAM: Description = Description::new(
    "selinux_warning_controller_selinux_volume_conflict",
    "Conflict between two pods that use one volume with different SELinux labels or change policies",
);
const LABELS: [&str; 7] =
    ["property", "pod1_namespace", "pod1_name", "pod1_value", "pod2_namespace", "pod2_name", "pod2_value"];

/// The conflicts of a cluster, computed when they are read.
pub(crate) struct ConflictMetrics {
    pub(crate) shared: Arc<Shared>,
    /// The most series of upstream's metric.
    pub(crate) most_series: usize,
}

/// The gauges after upstream's metric, in the order in which they are filled.
const GAUGES: [(&str, &str, &[&str]); 9] = [
    (
        "wardlet_controller_conflicts_left_out",
        "Conflicts that have no series of their own, because there are too many",
        &[],
    ),
    ("wardlet_controller_conflicts", "Pairs of pods that conflict on a volume, by property", &["property"]),
    (
        "wardlet_controller_conflict_volumes",
        "Volumes with conflicts, by whether two conflicting pods can meet on a node",
        &["meeting"],
    ),
    ("wardlet_controller_conflict_pods", "Pods with conflicts", &[]),
    ("wardlet_controller_multiple_label_pods", "Pods that need one volume with several labels", &[]),
    (
        "wardlet_controller_pods",
        "Pods that have not finished, by the user namespace that they ask for",
        &["user_namespace"],
    ),
    (
        "wardlet_controller_nodes",
        "Nodes, by whether their runtime supports user namespaces",
        &["user_namespaces"],
    ),
    (
        "wardlet_controller_objects",
        "Objects of a resource that are known; of pods those that have not finished",
        &["resource"],
    ),
    (
        "wardlet_controller_resource_readable",
        "Whether all objects of a resource are known and its changes are shown: 1 if so",
        &["resource"],
    ),
];

impl Collector for ConflictMetrics {
    fn families(&self) -> Result<Vec<Family>, Error> {
        let upstream = Family::new(UPSTREAM, Kind::Gauge, &LABELS);
        let gauge = |(name, help, labels)| Family::new(Description::new(name, help), Kind::Gauge, labels);
        let gauges = GAUGES.into_iter().map(gauge);
        std::iter::once(upstream).chain(gauges).collect()
    }

    fn collect(&self, families: &mut [Family]) {
        self.shared.with(|cluster| self.fill(cluster, families));
    }
}

impl ConflictMetrics {
    fn fill(&self, cluster: &Cluster, families: &mut [Family]) {
        let [upstream, left_out, conflicts, volumes, pods, several, all_pods, nodes, objects, readable] =
            families
        else {
            return;
        };
        let (records, rest) = cluster.engine().first_records(self.most_series);
        for record in records {
            let (a, b) = (record.a, record.b);
            let (one, other) = (a.value.to_string(), b.value.to_string());
            let (a, b) = (a.pod, b.pod);
            let property = record.property.name();
            upstream.sample(&[property, a.namespace(), a.name(), &one, b.namespace(), b.name(), &other], 1.0);
        }
        left_out.sample(&[], to_f64(rest));
        let summary = cluster.summary();
        conflicts.sample(&["SELinuxLabel"], to_f64(summary.label_conflicts));
        conflicts.sample(&["SELinuxChangePolicy"], to_f64(summary.policy_conflicts));
        volumes.sample(&["possible"], to_f64(summary.meeting_volumes));
        volumes.sample(&["excluded"], to_f64(summary.volumes.saturating_sub(summary.meeting_volumes)));
        pods.sample(&[], to_f64(summary.pods));
        several.sample(&[], to_f64(summary.multiple_labels));
        let totals = cluster.totals();
        let count = |number: usize| to_f64(u64::try_from(number).unwrap_or(u64::MAX));
        all_pods.sample(&["own"], count(totals.isolated_pods));
        all_pods.sample(&["host"], count(totals.pods.saturating_sub(totals.isolated_pods)));
        nodes.sample(&["true"], count(totals.able_nodes));
        nodes.sample(&["false"], count(totals.nodes.saturating_sub(totals.able_nodes)));
        for watched in Watched::ALL {
            let is_readable = if cluster.is_readable(watched) { 1.0 } else { 0.0 };
            readable.sample(&[watched.resource()], is_readable);
            objects.sample(&[watched.resource()], count(cluster.count(watched)));
        }
    }
}

#[cfg(test)]
mod tests {
    use conflicts::Rules;
    use serde_json::json;
    use telemetry::metrics::Registry;

    use super::*;
    use crate::cluster::Details;
    use crate::objects::{ClaimObject, DriverObject, PodObject};

    /// The two examples of the KEP, as far as labels are known without a host: `testpod-c1` and `testpod-c2` share a
    /// volume of a driver that mounts with a label.
    fn cluster(pods: &[(&str, serde_json::Value)]) -> Cluster {
        let mut cluster = Cluster::new(Rules::default(), Details::Dropped);
        let volume = json!({"metadata": {"name": "pv"}, "spec": {"accessModes": ["ReadWriteMany"],
            "csi": {"driver": "csi.example.com", "volumeHandle": "h"}}});
        cluster.put_volume(&serde_json::from_value(volume).unwrap());
        let driver = json!({"metadata": {"name": "csi.example.com"}, "spec": {"seLinuxMount": true}});
        cluster.put_driver(&serde_json::from_value::<DriverObject>(driver).unwrap());
        let claim =
            json!({"metadata": {"namespace": "default", "name": "data"}, "spec": {"volumeName": "pv"}});
        cluster.put_claim(&serde_json::from_value::<ClaimObject>(claim).unwrap());
        for (name, security) in pods {
            let spec = json!({"securityContext": security,
                "containers": [{"name": "c", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}],
                "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]});
            let pod = json!({"metadata": {"namespace": "default", "name": name, "uid": name}, "spec": spec});
            cluster.put_pod(&serde_json::from_value::<PodObject>(pod).unwrap());
        }
        cluster
    }

    fn text(cluster: Cluster, most_series: usize) -> String {
        let registry = Registry::default();
        let shared = Arc::new(Shared::new(cluster));
        registry.collector(Arc::new(ConflictMetrics { shared, most_series })).unwrap();
        registry.text()
    }

    fn series(text: &str) -> Vec<&str> {
        text.lines().filter(|line| line.starts_with(UPSTREAM.name)).collect()
    }

    const OPTIONS: [&str; 2] = ["s0:c0,c1", "s0:c0,c2"];

    #[test]
    fn the_keps_examples_have_upstreams_series_in_both_directions() {
        let labelled = |level: &str| json!({"seLinuxOptions": {"level": level}});
        let pods = [("testpod-c1", labelled(OPTIONS[0])), ("testpod-c2", labelled(OPTIONS[1]))];
        let found = text(cluster(&pods), 100);
        assert_eq!(
            series(&found),
            [
                "selinux_warning_controller_selinux_volume_conflict{property=\"SELinuxLabel\",pod1_namespace=\"default\",pod1_name=\"testpod-c1\",pod1_value=\":::s0:c0,c1\",pod2_namespace=\"default\",pod2_name=\"testpod-c2\",pod2_value=\":::s0:c0,c2\"} 1",
                "selinux_warning_controller_selinux_volume_conflict{property=\"SELinuxLabel\",pod1_namespace=\"default\",pod1_name=\"testpod-c2\",pod1_value=\":::s0:c0,c2\",pod2_namespace=\"default\",pod2_name=\"testpod-c1\",pod2_value=\":::s0:c0,c1\"} 1",
            ]
        );
        let recursive = json!({"seLinuxOptions": {"level": OPTIONS[0]}, "seLinuxChangePolicy": "Recursive"});
        let pods = [("testpod-c1", labelled(OPTIONS[0])), ("testpod-c2", recursive)];
        let found = text(cluster(&pods), 100);
        let policy = "property=\"SELinuxChangePolicy\",pod1_namespace=\"default\",pod1_name=\"testpod-c1\",pod1_value=\"MountOption\",pod2_namespace=\"default\",pod2_name=\"testpod-c2\",pod2_value=\"Recursive\"} 1";
        assert!(series(&found).iter().any(|line| line.ends_with(policy)), "{found}");
    }

    #[test]
    fn a_cluster_without_conflicts_has_no_series_of_upstreams_and_every_number() {
        let found = text(cluster(&[]), 100);
        assert!(series(&found).is_empty() && !found.contains("# TYPE selinux_warning"), "{found}");
        for line in [
            "wardlet_controller_conflicts{property=\"SELinuxLabel\"} 0",
            "wardlet_controller_conflicts_left_out 0",
            "wardlet_controller_conflict_volumes{meeting=\"possible\"} 0",
            "wardlet_controller_nodes{user_namespaces=\"true\"} 0",
            "wardlet_controller_resource_readable{resource=\"pods\"} 0",
        ] {
            assert!(found.lines().any(|found| found == line), "{line}: {found}");
        }
    }

    #[test]
    fn series_are_bounded_and_the_rest_is_a_number() {
        let names: Vec<String> = (0..20).map(|number| format!("p{number:02}")).collect();
        let pods: Vec<(&str, serde_json::Value)> = names
            .iter()
            .enumerate()
            .map(|(number, name)| {
                let level = OPTIONS.get(number % 2).copied().unwrap_or_default();
                (name.as_str(), json!({"seLinuxOptions": {"level": level}}))
            })
            .collect();
        let found = text(cluster(&pods), 10);
        assert_eq!(series(&found).len(), 10);
        for line in [
            "wardlet_controller_conflicts_left_out 95",
            "wardlet_controller_conflicts{property=\"SELinuxLabel\"} 100",
            "wardlet_controller_conflict_pods 20",
        ] {
            assert!(found.lines().any(|found| found == line), "{line}: {found}");
        }
    }
}

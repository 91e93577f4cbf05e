//! Series of objects, for queries over a whole cluster: those that KEP-1710's appendix joins, under the names of
//! kube-state-metrics where it has them. Finished pods, and pods that claim no volume, have none.

use std::sync::Arc;

use telemetry::metrics::{Collector, Description, Error, Family, Kind};

use crate::cluster::Cluster;
use crate::shared::Shared;

const VOLUME_INFO: [&str; 20] = [
    "persistentvolume",
    "storageclass",
    "gce_persistent_disk_name",
    "ebs_volume_id",
    "azure_disk_name",
    "fc_wwids",
    "fc_lun",
    "fc_target_wwns",
    "iscsi_target_portal",
    "iscsi_iqn",
    "iscsi_lun",
    "iscsi_initiator_name",
    "nfs_server",
    "nfs_path",
    "csi_driver",
    "csi_volume_handle",
    "local_path",
    "local_fs",
    "host_path",
    "host_path_type",
];

/// Name, help and labels, in the order in which they are filled.
const FAMILIES: [(&str, &str, &[&str]); 8] = [
    (
        "kube_pod_security_context",
        "SELinux options and change policy of a pod",
        &[
            "namespace",
            "pod",
            "uid",
            "pod_selinux_user",
            "pod_selinux_role",
            "pod_selinux_type",
            "pod_selinux_level",
            "selinux_change_policy",
        ],
    ),
    (
        "kube_pod_container_security_context",
        "SELinux options of a container, and whether it is privileged",
        &[
            "namespace",
            "pod",
            "uid",
            "container",
            "privileged",
            "container_selinux_user",
            "container_selinux_role",
            "container_selinux_type",
            "container_selinux_level",
        ],
    ),
    (
        "kube_pod_container_volume_mount",
        "Volume that a container mounts",
        &["namespace", "pod", "uid", "container", "volume"],
    ),
    (
        "kube_pod_spec_volumes_persistentvolumeclaims_info",
        "Claim behind a volume of a pod",
        &["namespace", "pod", "uid", "volume", "persistentvolumeclaim"],
    ),
    (
        "kube_csidriver_info",
        "CSI driver, and whether it mounts with a label",
        &["csi_driver", "selinux_mount"],
    ),
    ("kube_persistentvolume_info", "Source of a persistent volume", &VOLUME_INFO),
    (
        "kube_persistentvolume_unique_volume_id",
        "What a persistent volume is in its storage: two with one ID are one volume",
        &["persistentvolume", "unique_volume_id"],
    ),
    (
        "kube_persistentvolumeclaim_info",
        "Volume that a claim is bound to",
        &["namespace", "persistentvolumeclaim", "storageclass", "volumemode", "volumename"],
    ),
];

/// Series of all objects, computed when they are read.
pub(crate) struct ObjectSeries {
    pub(crate) shared: Arc<Shared>,
}

impl Collector for ObjectSeries {
    fn families(&self) -> Result<Vec<Family>, Error> {
        let family = |(name, help, labels)| Family::new(Description::new(name, help), Kind::Gauge, labels);
        FAMILIES.into_iter().map(family).collect()
    }

    fn collect(&self, families: &mut [Family]) {
        self.shared.with(|cluster| fill(cluster, families));
    }
}

fn fill(cluster: &Cluster, families: &mut [Family]) {
    let [pods, containers, mounts, claims_of_pods, drivers, volumes, ids, claims] = families else { return };
    for (key, pod) in cluster.pods.iter() {
        let Some(details) = &pod.details else { continue };
        let (namespace, pod, uid) = (key.namespace(), key.name(), details.uid.as_str());
        let [user, role, kind, level] = details.options.each_ref().map(String::as_str);
        pods.sample(&[namespace, pod, uid, user, role, kind, level, &details.policy], 1.0);
        for container in &details.containers {
            let [user, role, kind, level] = container.options.each_ref().map(String::as_str);
            let (name, privileged) = (container.name.as_str(), truth(container.privileged));
            containers.sample(&[namespace, pod, uid, name, privileged, user, role, kind, level], 1.0);
            for volume in &container.volumes {
                mounts.sample(&[namespace, pod, uid, name, volume], 1.0);
            }
        }
        for (volume, claim) in &details.claims {
            claims_of_pods.sample(&[namespace, pod, uid, volume, claim], 1.0);
        }
    }
    for (name, mounts) in cluster.drivers.iter() {
        drivers.sample(&[name, truth(*mounts)], 1.0);
    }
    for (name, details) in cluster.volumes.iter() {
        let Some(details) = details else { continue };
        let value = |label: &&str| match *label {
            "persistentvolume" => name.as_str(),
            "storageclass" => details.storage_class.as_str(),
            label => details
                .source
                .iter()
                .find(|(known, _)| *known == label)
                .map_or("", |(_, value)| value.as_str()),
        };
        let values: Vec<&str> = VOLUME_INFO.iter().map(value).collect();
        volumes.sample(&values, 1.0);
        ids.sample(&[name, details.id.as_str()], 1.0);
    }
    for (key, details) in cluster.claims.iter() {
        let Some(details) = details else { continue };
        let (class, mode, volume) = (&details.storage_class, &details.volume_mode, &details.volume);
        claims.sample(&[key.namespace(), key.name(), class, mode, volume], 1.0);
    }
}

fn truth(holds: bool) -> &'static str {
    if holds { "true" } else { "false" }
}

#[cfg(test)]
mod tests {
    use conflicts::Rules;
    use serde_json::json;
    use telemetry::metrics::Registry;

    use super::*;
    use crate::cluster::Details;
    use crate::objects::{ClaimObject, DriverObject, PodObject};

    fn cluster(details: Details) -> Cluster {
        let mut cluster = Cluster::new(Rules::default(), details);
        for volume in [
            json!({"metadata": {"name": "pv"}, "spec": {"storageClassName": "fast",
                "csi": {"driver": "csi.example.com", "volumeHandle": "h"}}}),
            json!({"metadata": {"name": "old"}, "spec": {"awsElasticBlockStore": {"volumeID": "vol-1"}}}),
        ] {
            cluster.put_volume(&serde_json::from_value(volume).unwrap());
        }
        let driver = json!({"metadata": {"name": "csi.example.com"}, "spec": {"seLinuxMount": true}});
        cluster.put_driver(&serde_json::from_value::<DriverObject>(driver).unwrap());
        let claim = json!({"metadata": {"namespace": "shop", "name": "data"},
            "spec": {"volumeName": "pv", "storageClassName": "fast", "volumeMode": "Filesystem"}});
        cluster.put_claim(&serde_json::from_value::<ClaimObject>(claim).unwrap());
        let pod = json!({"metadata": {"namespace": "shop", "name": "web", "uid": "u-1"}, "spec": {
            "securityContext": {"seLinuxOptions": {"level": "s0:c1,c2"}, "seLinuxChangePolicy": "Recursive"},
            "containers": [{"name": "c", "securityContext": {"privileged": true, "seLinuxOptions": {"type": "spc_t"}},
                "volumeMounts": [{"name": "v", "mountPath": "/a"}, {"name": "v", "mountPath": "/b"}]}],
            "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]}});
        cluster.put_pod(&serde_json::from_value::<PodObject>(pod).unwrap());
        let other = json!({"metadata": {"namespace": "shop", "name": "other"}, "spec": {"containers": [{"name": "c"}]}});
        cluster.put_pod(&serde_json::from_value::<PodObject>(other).unwrap());
        cluster
    }

    fn text(details: Details) -> String {
        let registry = Registry::default();
        let shared = Arc::new(Shared::new(cluster(details)));
        registry.collector(Arc::new(ObjectSeries { shared })).unwrap();
        registry.text()
    }

    #[test]
    fn every_series_of_the_appendix_is_there_with_the_labels_that_its_rules_join() {
        let text = text(Details::Kept);
        for line in [
            "kube_pod_security_context{namespace=\"shop\",pod=\"web\",uid=\"u-1\",pod_selinux_user=\"\",pod_selinux_role=\"\",pod_selinux_type=\"\",pod_selinux_level=\"s0:c1,c2\",selinux_change_policy=\"Recursive\"} 1",
            "kube_pod_container_security_context{namespace=\"shop\",pod=\"web\",uid=\"u-1\",container=\"c\",privileged=\"true\",container_selinux_user=\"\",container_selinux_role=\"\",container_selinux_type=\"spc_t\",container_selinux_level=\"\"} 1",
            "kube_pod_container_volume_mount{namespace=\"shop\",pod=\"web\",uid=\"u-1\",container=\"c\",volume=\"v\"} 1",
            "kube_pod_spec_volumes_persistentvolumeclaims_info{namespace=\"shop\",pod=\"web\",uid=\"u-1\",volume=\"v\",persistentvolumeclaim=\"data\"} 1",
            "kube_csidriver_info{csi_driver=\"csi.example.com\",selinux_mount=\"true\"} 1",
            "kube_persistentvolume_unique_volume_id{persistentvolume=\"pv\",unique_volume_id=\"kubernetes.io/csi/csi.example.com^h\"} 1",
            "kube_persistentvolume_unique_volume_id{persistentvolume=\"old\",unique_volume_id=\"kubernetes.io/csi/ebs.csi.aws.com^vol-1\"} 1",
            "kube_persistentvolumeclaim_info{namespace=\"shop\",persistentvolumeclaim=\"data\",storageclass=\"fast\",volumemode=\"Filesystem\",volumename=\"pv\"} 1",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        let info = |name: &str| {
            let start = format!("kube_persistentvolume_info{{persistentvolume=\"{name}\"");
            text.lines().find(|line| line.starts_with(&start)).unwrap().to_owned()
        };
        assert!(info("pv").contains("csi_driver=\"csi.example.com\",csi_volume_handle=\"h\""), "{text}");
        assert!(info("old").contains("ebs_volume_id=\"vol-1\""), "{text}");
        assert!(!text.contains("pod=\"other\""), "{text}");
    }

    #[test]
    fn without_details_there_are_only_drivers() {
        let text = text(Details::Dropped);
        assert!(
            text.lines().filter(|line| !line.starts_with('#')).all(|line| line.starts_with("kube_csidriver"))
        );
    }
}

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use inventory::{Lens, ManifestChunk, Origin};
use manifest::{Listed, Position};
use serde_json::{Value, json};

use super::*;

fn version(text: &str) -> Version {
    let version: KubernetesVersion = text.parse().unwrap();
    Version { version, gates: Gates::defaults(version) }
}

/// The report on these objects for an upgrade from the version before this one.
fn report(items: &[Value], to: &str) -> Report {
    let mut objects = Objects::new(Lens { version: KubernetesVersion::NEWEST, gates: Gates::default() });
    let text = json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string();
    objects.take(&ManifestChunk {
        file: "dump",
        origin: Origin::Named,
        bytes: text.as_bytes(),
        at: Position::START,
        prefix: String::new(),
        listed: Listed::default(),
    });
    assert_eq!(objects.all_problems(), []);
    judge(&mut objects, &Question { from: version("1.35"), to: version(to), facts: None })
}

fn deployment(name: &str, level: &str, volume: &Value) -> Value {
    let spec = json!({
        "securityContext": {"seLinuxOptions": {"level": level}},
        "containers": [{"name": "app", "image": "i", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}],
        "volumes": [volume],
    });
    let template = json!({"metadata": {"labels": {"app": name}}, "spec": spec});
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "shop"},
        "spec": {"selector": {"matchLabels": {"app": name}}, "template": template}})
}

fn driver(name: &str) -> Value {
    json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": name},
        "spec": {"seLinuxMount": true}})
}

/// Two workloads with different labels on this volume, and a driver.
fn two_labels(volume: &Value, csi: &str) -> Vec<Value> {
    vec![deployment("a", "s0:c1,c2", volume), deployment("b", "s0:c3,c4", volume), driver(csi)]
}

/// Drivers that took the place of plugins, each with a volume of the plugin's.
fn in_tree() -> [(&'static str, Value); 7] {
    [
        ("ebs.csi.aws.com", json!({"awsElasticBlockStore": {"volumeID": "vol-1"}})),
        ("pd.csi.storage.gke.io", json!({"gcePersistentDisk": {"pdName": "d"}})),
        (
            "disk.csi.azure.com",
            json!({"azureDisk": {"diskName": "d", "diskURI": "/subscriptions/u/d", "kind": "Managed"}}),
        ),
        ("file.csi.azure.com", json!({"azureFile": {"secretName": "a", "shareName": "s"}})),
        ("cinder.csi.openstack.org", json!({"cinder": {"volumeID": "c"}})),
        ("csi.vsphere.vmware.com", json!({"vsphereVolume": {"volumePath": "p"}})),
        ("pxd.portworx.com", json!({"portworxVolume": {"volumeID": "p"}})),
    ]
}

fn persistent(source: &Value) -> [Value; 2] {
    let mut volume = json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv"},
        "spec": {"accessModes": ["ReadWriteMany"], "capacity": {"storage": "1Gi"},
            "claimRef": {"namespace": "shop", "name": "data"}}});
    volume["spec"].as_object_mut().unwrap().extend(source.as_object().unwrap().clone());
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data", "namespace": "shop"},
        "spec": {"accessModes": ["ReadWriteMany"], "volumeName": "pv", "resources": {"requests": {"storage": "1Gi"}}}});
    [volume, claim]
}

#[test]
fn persistent_volumes_of_plugins_that_were_built_in_break_as_their_drivers() {
    let claim = json!({"name": "data", "persistentVolumeClaim": {"claimName": "data"}});
    for (name, source) in in_tree() {
        let of = |csi: &str| [two_labels(&claim, csi), persistent(&source).to_vec()].concat();
        let after = report(&of(name), "1.37");
        let [conflict] = after.conflicts.as_slice() else { panic!("{source}: {:?}", after.conflicts) };
        let volume = &conflict.volume;
        assert!(volume.starts_with(&format!("kubernetes.io/csi/{name}^")), "{source}: {volume}");
        assert_eq!(after.breaks.len(), 1, "{source}");
        assert!(report(&of(name), "1.36").breaks.is_empty(), "{source}: not before 1.37");
        assert!(report(&of("other.example.com"), "1.37").conflicts.is_empty(), "{source}: another driver");
    }
}

#[test]
fn volumes_that_pods_name_themselves_break_as_persistent_ones() {
    for (name, mut volume) in in_tree() {
        volume["name"] = json!("data");
        let after = report(&two_labels(&volume, name), "1.37");
        let [conflict] = after.conflicts.as_slice() else { panic!("{volume}: {:?}", after.conflicts) };
        assert_eq!(after.breaks.len(), 1, "{volume}");
        let shown = after.volumes.iter().find(|shown| shown.id == conflict.volume).unwrap();
        assert_eq!(shown.driver.as_deref(), Some(name));
        assert!(report(&two_labels(&volume, name), "1.36").breaks.is_empty(), "{volume}: not before 1.37");
    }
}

#[test]
fn a_class_of_a_plugin_that_was_built_in_provisions_with_its_driver() {
    let claim = json!({"name": "data", "persistentVolumeClaim": {"claimName": "data"}});
    let class = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "disks"},
        "provisioner": "kubernetes.io/aws-ebs"});
    let mut unbound = persistent(&json!({}))[1].clone();
    unbound["spec"].as_object_mut().unwrap().remove("volumeName");
    unbound["spec"]["storageClassName"] = json!("disks");
    let of = |csi: &str| [two_labels(&claim, csi), vec![class.clone(), unbound.clone()]].concat();
    assert_eq!(report(&of("ebs.csi.aws.com"), "1.37").conflicts.len(), 1);
    assert!(report(&of("other.example.com"), "1.37").conflicts.is_empty());
}

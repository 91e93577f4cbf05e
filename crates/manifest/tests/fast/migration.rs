//! Volumes of plugins that were built in: which driver has them now, by which handle and with which access modes.

use manifest::{
    Cluster, CsiVolume, Resource, lower, lower_volume, migrated_provisioner, migrated_volume, read,
};
use plan::{PersistentSource, VolumeSource};
use types::AccessMode::{self, ReadOnlyMany, ReadWriteMany, ReadWriteOnce, ReadWriteOncePod};

fn volume(metadata: &str, spec: &str) -> Option<CsiVolume> {
    let text = format!(
        "apiVersion: v1\nkind: PersistentVolume\nmetadata: {{name: pv{metadata}}}\nspec: {{capacity: {{storage: 1Gi}}, {spec}}}\n"
    );
    let reading = read("pv.yaml", text.as_bytes());
    assert!(reading.findings.is_empty(), "{:?}", reading.findings);
    let Resource::PersistentVolume(volume) = &reading.objects[0].resource else { panic!("{text}") };
    let found = migrated_volume(volume);
    let source = lower_volume(volume).unwrap().source;
    match &found {
        Some(csi) => assert_eq!(
            source,
            PersistentSource::Csi { driver: csi.driver.to_owned(), selinux_mount: None },
            "the planner knows the same driver"
        ),
        None => {
            assert!(!matches!(source, PersistentSource::Csi { .. }) || spec.contains("csi:"), "{source:?}")
        }
    }
    found
}

/// Driver, handle and access modes of a persistent volume.
fn persistent(metadata: &str, spec: &str) -> Option<(&'static str, String, Vec<AccessMode>)> {
    volume(metadata, spec).map(|csi| (csi.driver, csi.handle, csi.access_modes))
}

#[test]
fn a_persistent_volume_of_each_plugin_is_its_drivers() {
    let once = "accessModes: [ReadWriteOnce], ";
    let rows = [
        ("awsElasticBlockStore: {volumeID: vol-1}", "ebs.csi.aws.com", "vol-1"),
        ("awsElasticBlockStore: {volumeID: 'aws://eu-west-1a/vol-1'}", "ebs.csi.aws.com", "vol-1"),
        ("awsElasticBlockStore: {volumeID: 'aws:///vol-1'}", "ebs.csi.aws.com", "vol-1"),
        (
            "gcePersistentDisk: {pdName: d}",
            "pd.csi.storage.gke.io",
            "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d",
        ),
        ("azureDisk: {diskName: d, diskURI: /u/d, kind: Managed}", "disk.csi.azure.com", "/u/d"),
        ("azureDisk: {diskName: d, diskURI: /u/d}", "disk.csi.azure.com", "/u/d"),
        (
            "azureFile: {secretName: azure-storage-account-acc-secret, shareName: s, secretNamespace: bank}",
            "file.csi.azure.com",
            "#acc#s#pv#bank",
        ),
        (
            "claimRef: {namespace: shop, name: c}, azureFile: {secretName: other, shareName: s}",
            "file.csi.azure.com",
            "#other#s#pv#shop",
        ),
        ("cinder: {volumeID: c-1}", "cinder.csi.openstack.org", "c-1"),
        ("vsphereVolume: {volumePath: '[ds] a/b.vmdk'}", "csi.vsphere.vmware.com", "[ds] a/b.vmdk"),
        ("portworxVolume: {volumeID: p-1}", "pxd.portworx.com", "p-1"),
    ];
    for (spec, driver, handle) in rows {
        let expected = Some((driver, handle.to_owned(), vec![ReadWriteOnce]));
        assert_eq!(persistent("", &format!("{once}{spec}")), expected, "{spec}");
    }
}

#[test]
fn what_cannot_be_handed_over_is_no_drivers() {
    let rows = [
        "awsElasticBlockStore: {volumeID: 'aws://eu-west-1a/disk-1'}",
        "awsElasticBlockStore: {volumeID: 'aws://vol-1'}",
        "azureDisk: {diskName: d, diskURI: 'https://u/d', kind: Dedicated}",
        "azureFile: {secretName: a, shareName: s}",
        "nfs: {server: s, path: /}",
        "rbd: {image: i, monitors: [m]}",
        "csi: {driver: ebs.csi.aws.com, volumeHandle: vol-1}",
    ];
    for spec in rows {
        assert_eq!(persistent("", spec), None, "{spec}");
    }
    let zones = ", labels: {topology.kubernetes.io/zone: eu-west1-b__us-east1-c}";
    assert_eq!(persistent(zones, "gcePersistentDisk: {pdName: d}"), None, "zones of two regions");
}

#[test]
fn a_gce_disk_is_named_by_its_zone_or_region_and_loses_modes_that_it_never_had() {
    let disk = "gcePersistentDisk: {pdName: d}";
    let handle = |labels: &str| persistent(&format!(", labels: {{{labels}}}"), disk).unwrap().1;
    assert_eq!(
        handle("topology.kubernetes.io/zone: eu-west1-b"),
        "projects/UNSPECIFIED/zones/eu-west1-b/disks/d"
    );
    assert_eq!(
        handle("failure-domain.beta.kubernetes.io/zone: a-b-c, topology.kubernetes.io/zone: eu-west1-b"),
        "projects/UNSPECIFIED/zones/a-b-c/disks/d"
    );
    assert_eq!(
        handle("topology.kubernetes.io/zone: eu-west1-b__eu-west1-c"),
        "projects/UNSPECIFIED/regions/eu-west1/disks/d"
    );
    let rows: [(&str, &[AccessMode]); 6] = [
        ("[ReadWriteMany]", &[ReadWriteOnce]),
        ("[ReadOnlyMany]", &[ReadOnlyMany]),
        ("[ReadWriteOnce, ReadOnlyMany]", &[ReadWriteOnce]),
        ("[ReadWriteMany, ReadOnlyMany]", &[ReadWriteOnce]),
        ("[ReadWriteOncePod]", &[ReadWriteOnce]),
        ("[]", &[]),
    ];
    for (given, modes) in rows {
        assert_eq!(persistent("", &format!("accessModes: {given}, {disk}")).unwrap().2, modes, "{given}");
    }
    let ebs = "accessModes: [ReadWriteOncePod], awsElasticBlockStore: {volumeID: vol-1}";
    assert_eq!(persistent("", ebs).unwrap().2, [ReadWriteOncePod], "others keep theirs");
}

#[test]
fn a_volume_that_a_pod_names_itself_is_its_drivers_persistent_volume() {
    let rows: [(&str, &str, &str, AccessMode); 9] = [
        ("awsElasticBlockStore: {volumeID: vol-1}", "ebs.csi.aws.com", "vol-1", ReadWriteOnce),
        (
            "gcePersistentDisk: {pdName: d}",
            "pd.csi.storage.gke.io",
            "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d",
            ReadWriteOnce,
        ),
        (
            "gcePersistentDisk: {pdName: d, readOnly: true}",
            "pd.csi.storage.gke.io",
            "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d",
            ReadOnlyMany,
        ),
        ("azureDisk: {diskName: d, diskURI: /u/d}", "disk.csi.azure.com", "/u/d", ReadWriteOnce),
        ("azureFile: {secretName: a, shareName: s}", "file.csi.azure.com", "#a#s#v#shop", ReadWriteMany),
        ("cinder: {volumeID: c-1}", "cinder.csi.openstack.org", "c-1", ReadWriteOnce),
        ("vsphereVolume: {volumePath: p}", "csi.vsphere.vmware.com", "p", ReadWriteOnce),
        ("portworxVolume: {volumeID: p-1}", "pxd.portworx.com", "p-1", ReadWriteOnce),
        ("portworxVolume: {volumeID: p-1, readOnly: true}", "pxd.portworx.com", "p-1", ReadOnlyMany),
    ];
    for (spec, driver, handle, mode) in rows {
        let text = format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: a, namespace: shop}}\nspec: {{containers: [], volumes: [{{name: v, {spec}}}]}}\n"
        );
        let reading = read("p.yaml", text.as_bytes());
        let intent = lower(&reading.objects[0].pod().unwrap(), &Cluster::default()).unwrap();
        let VolumeSource::InTree(own) = &intent.volumes[0].source else { panic!("{spec}") };
        let source = PersistentSource::Csi { driver: driver.to_owned(), selinux_mount: None };
        assert_eq!((own.handle.as_str(), &own.volume.source), (handle, &source), "{spec}");
        assert_eq!(own.volume.access_modes, [mode], "{spec}");
        assert_eq!(intent.volumes[0].source.kind().0, spec.split(':').next().unwrap());
    }
}

#[test]
fn a_class_of_a_plugin_that_was_built_in_has_the_driver_that_took_its_place() {
    assert_eq!(migrated_provisioner("kubernetes.io/aws-ebs"), Some("ebs.csi.aws.com"));
    assert_eq!(migrated_provisioner("kubernetes.io/gce-pd"), Some("pd.csi.storage.gke.io"));
    assert_eq!(migrated_provisioner("ebs.csi.aws.com"), None);
    assert_eq!(migrated_provisioner("kubernetes.io/no-provisioner"), None);
}

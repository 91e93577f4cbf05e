//! Volumes of plugins that were part of Kubernetes; most have become CSI drivers, and their rules stayed.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    AzureDiskVolumeSource, FlockerVolumeSource, PersistentVolumeSpec, QuobyteVolumeSource, SecretReference,
    Volume,
};

use super::names;
use super::report::{Report, shown};
use crate::place::Path;

/// Fields of which each must be there.
fn needed(report: &mut Report<'_>, path: &Path<'_>, fields: &[(&str, &str)]) {
    fields.iter().for_each(|(field, value)| report.present(&path.field(field), value));
}

pub(super) fn of_pod(report: &mut Report<'_>, path: &Path<'_>, v: &Volume) {
    if let Some(source) = v.git_repo.as_ref() {
        let path = path.field("gitRepo");
        needed(report, &path, &[("repository", &source.repository)]);
        report.may(&path.field("directory"), source.directory.as_ref(), names::local_path);
    }
    if let Some(source) = v.aws_elastic_block_store.as_ref() {
        let path = path.field("awsElasticBlockStore");
        needed(report, &path, &[("volumeID", &source.volume_id)]);
        report.ranged(&path.field("partition"), source.partition, 0..=255);
    }
    if let Some(source) = v.gce_persistent_disk.as_ref() {
        let path = path.field("gcePersistentDisk");
        needed(report, &path, &[("pdName", &source.pd_name)]);
        report.ranged(&path.field("partition"), source.partition, 0..=255);
    }
    if let Some(source) = v.azure_disk.as_ref() {
        azure_disk(report, &path.field("azureDisk"), source);
    }
    if let Some(source) = v.azure_file.as_ref() {
        let fields = [("secretName", source.secret_name.as_str()), ("shareName", &source.share_name)];
        needed(report, &path.field("azureFile"), &fields);
    }
    if let Some(source) = v.cephfs.as_ref() {
        monitors(report, &path.field("cephfs"), &source.monitors);
    }
    if let Some(source) = v.cinder.as_ref() {
        let path = path.field("cinder");
        needed(report, &path, &[("volumeID", &source.volume_id)]);
        if let Some(secret) = source.secret_ref.as_ref() {
            needed(report, &path.field("secretRef"), &[("name", &secret.name)]);
        }
    }
    if let Some(source) = v.flex_volume.as_ref() {
        flex(report, &path.field("flexVolume"), &source.driver, source.options.as_ref());
    }
    if let Some(source) = v.flocker.as_ref() {
        flocker(report, &path.field("flocker"), source);
    }
    if let Some(source) = v.glusterfs.as_ref() {
        let fields = [("endpoints", source.endpoints.as_str()), ("path", &source.path)];
        needed(report, &path.field("glusterfs"), &fields);
    }
    if let Some(source) = v.rbd.as_ref() {
        monitors(report, &path.field("rbd"), &source.monitors);
        needed(report, &path.field("rbd"), &[("image", &source.image)]);
    }
    if let Some(source) = v.scale_io.as_ref() {
        let name = source.volume_name.as_deref().unwrap_or_default();
        let fields = [("gateway", source.gateway.as_str()), ("system", &source.system), ("volumeName", name)];
        needed(report, &path.field("scaleIO"), &fields);
    }
    if let Some(source) = v.storageos.as_ref() {
        let path = path.field("storageos");
        storage_os(report, &path, source.volume_name.as_deref(), source.volume_namespace.as_ref());
        if let Some(secret) = source.secret_ref.as_ref() {
            needed(report, &path.field("secretRef"), &[("name", &secret.name)]);
        }
    }
    if let Some(source) = v.quobyte.as_ref() {
        quobyte(report, &path.field("quobyte"), source);
    }
    let single = [
        ("vsphereVolume", "volumePath", v.vsphere_volume.as_ref().map(|s| s.volume_path.as_str())),
        ("photonPersistentDisk", "pdID", v.photon_persistent_disk.as_ref().map(|s| s.pd_id.as_str())),
        ("portworxVolume", "volumeID", v.portworx_volume.as_ref().map(|s| s.volume_id.as_str())),
    ];
    for (field, name, value) in single {
        needed(report, &path.field(field), &[(name, value.unwrap_or("unset"))]);
    }
}

pub(super) fn of_persistent(report: &mut Report<'_>, path: &Path<'_>, v: &PersistentVolumeSpec) {
    let as_pod = Volume {
        aws_elastic_block_store: v.aws_elastic_block_store.clone(),
        gce_persistent_disk: v.gce_persistent_disk.clone(),
        azure_disk: v.azure_disk.clone(),
        flocker: v.flocker.clone(),
        quobyte: v.quobyte.clone(),
        vsphere_volume: v.vsphere_volume.clone(),
        photon_persistent_disk: v.photon_persistent_disk.clone(),
        portworx_volume: v.portworx_volume.clone(),
        ..Volume::default()
    };
    of_pod(report, path, &as_pod);
    if let Some(source) = v.azure_file.as_ref() {
        let path = path.field("azureFile");
        let fields = [("secretName", source.secret_name.as_str()), ("shareName", &source.share_name)];
        needed(report, &path, &fields);
        needed(report, &path, &[("secretNamespace", source.secret_namespace.as_deref().unwrap_or("unset"))]);
    }
    if let Some(source) = v.cephfs.as_ref() {
        monitors(report, &path.field("cephfs"), &source.monitors);
    }
    if let Some(source) = v.cinder.as_ref() {
        let path = path.field("cinder");
        needed(report, &path, &[("volumeID", &source.volume_id)]);
        if let Some(secret) = source.secret_ref.as_ref() {
            secret_ref(report, &path.field("secretRef"), secret);
        }
    }
    if let Some(source) = v.flex_volume.as_ref() {
        flex(report, &path.field("flexVolume"), &source.driver, source.options.as_ref());
    }
    if let Some(source) = v.glusterfs.as_ref() {
        let path = path.field("glusterfs");
        needed(report, &path, &[("endpoints", &source.endpoints), ("path", &source.path)]);
        if let Some(namespace) = source.endpoints_namespace.as_ref() {
            report.needs(&path.field("endpointsNamespace"), namespace, names::dns_label);
        }
    }
    if let Some(source) = v.rbd.as_ref() {
        monitors(report, &path.field("rbd"), &source.monitors);
        needed(report, &path.field("rbd"), &[("image", &source.image)]);
    }
    if let Some(source) = v.scale_io.as_ref() {
        let name = source.volume_name.as_deref().unwrap_or_default();
        let fields = [("gateway", source.gateway.as_str()), ("system", &source.system), ("volumeName", name)];
        needed(report, &path.field("scaleIO"), &fields);
    }
    if let Some(source) = v.storageos.as_ref() {
        let path = path.field("storageos");
        storage_os(report, &path, source.volume_name.as_deref(), source.volume_namespace.as_ref());
        if let Some(secret) = source.secret_ref.as_ref() {
            let (name, namespace) = (secret.name.as_deref(), secret.namespace.as_deref());
            let fields = [("name", name.unwrap_or_default()), ("namespace", namespace.unwrap_or_default())];
            needed(report, &path.field("secretRef"), &fields);
        }
    }
}

fn secret_ref(report: &mut Report<'_>, path: &Path<'_>, secret: &SecretReference) {
    let (name, namespace) = (secret.name.as_deref(), secret.namespace.as_deref());
    needed(report, path, &[("name", name.unwrap_or_default()), ("namespace", namespace.unwrap_or_default())]);
}

fn monitors(report: &mut Report<'_>, path: &Path<'_>, monitors: &[String]) {
    if monitors.is_empty() {
        report.required(&path.field("monitors"));
    }
}

fn azure_disk(report: &mut Report<'_>, path: &Path<'_>, source: &AzureDiskVolumeSource) {
    needed(report, path, &[("diskName", &source.disk_name), ("diskURI", &source.disk_uri)]);
    let modes = ["None", "ReadOnly", "ReadWrite"];
    report.exactly(&path.field("cachingMode"), source.caching_mode.as_ref(), &modes);
    report.exactly(&path.field("kind"), source.kind.as_ref(), &["Shared", "Dedicated", "Managed"]);
    // A disk without a kind is a shared one.
    let start = match source.kind.as_deref() {
        Some("Managed") => "/subscriptions/",
        _ => "https://",
    };
    if !source.disk_uri.is_empty() && !source.disk_uri.starts_with(start) {
        report.invalid(
            &path.field("diskURI"),
            shown(&source.disk_uri),
            "must start with /subscriptions/ for a managed disk, with https:// for any other",
        );
    }
}

/// Options under Kubernetes' own names are its own.
fn flex(report: &mut Report<'_>, path: &Path<'_>, driver: &str, options: Option<&BTreeMap<String, String>>) {
    needed(report, path, &[("driver", driver)]);
    let reserved = |key: &str| {
        let prefix = format!(".{}", key.split('/').next().unwrap_or_default().to_lowercase());
        prefix.ends_with(".kubernetes.io") || prefix.ends_with(".k8s.io")
    };
    for (key, _) in options.into_iter().flatten().filter(|(key, _)| reserved(key)) {
        report.forbidden(&path.field("options").field(key), "names of kubernetes.io and k8s.io are reserved");
    }
}

fn flocker(report: &mut Report<'_>, path: &Path<'_>, source: &FlockerVolumeSource) {
    let is_set = |text: Option<&String>| text.is_some_and(|t| !t.is_empty());
    let (name, id) = (source.dataset_name.as_ref(), source.dataset_uuid.as_ref());
    report.just_one(path, &[("datasetName", is_set(name)), ("datasetUUID", is_set(id))]);
    report.may(&path.field("datasetName"), name, |text| {
        if text.contains('/') { Err("must not contain '/'") } else { Ok(()) }
    });
}

fn storage_os(report: &mut Report<'_>, path: &Path<'_>, name: Option<&str>, namespace: Option<&String>) {
    report.needs(&path.field("volumeName"), name.unwrap_or_default(), names::dns_label);
    report.may(&path.field("volumeNamespace"), namespace, names::dns_label);
}

fn quobyte(report: &mut Report<'_>, path: &Path<'_>, source: &QuobyteVolumeSource) {
    needed(report, path, &[("registry", &source.registry), ("volume", &source.volume)]);
    report.may(
        &path.field("tenant"),
        source.tenant.as_ref().filter(|_| !source.registry.is_empty()),
        |text| {
            if text.len() > 64 { Err("must be at most 64 characters") } else { Ok(()) }
        },
    );
    if !source.registry.is_empty() && !source.registry.split(',').all(is_host_and_port) {
        report.invalid(
            &path.field("registry"),
            shown(&source.registry),
            "must be HOST:PORT, or several with ',' between",
        );
    }
}

/// `host:port`, with brackets around an address that has colons itself.
fn is_host_and_port(text: &str) -> bool {
    let is_plain = |host: &str| !host.contains([':', '[', ']']);
    let Some((host, port)) = text.rsplit_once(':') else { return false };
    let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    !port.contains(['[', ']']) && inner.map_or_else(|| is_plain(host), |host| !host.contains(['[', ']']))
}

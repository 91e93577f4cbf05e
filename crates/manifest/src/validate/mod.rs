//! What the API server would say to an object, and what a node needs of it to run it.

mod containers;
mod env;
mod host;
mod metadata;
mod mounts;
mod names;
mod objects;
mod pod;
mod ports;
mod probes;
mod report;
mod resources;
mod security;
mod sources;
mod volumes;

use plan::Gates;

use crate::finding::Finding;
use crate::object::{Object, Resource};
use crate::place::{Path, under};
use report::Report;

pub(crate) use containers::as_container;
pub(crate) use volumes::kinds as volume_kinds;

/// Everything that is wrong with an object by the API's rules under these gates.
#[must_use]
pub fn validate(object: &Object, gates: &Gates) -> Vec<Finding> {
    let mut report = Report::of(object);
    let root = Path::Under(&object.prefix);
    metadata::object(&mut report, &root, object.resource.metadata());
    match &object.resource {
        Resource::ConfigMap(map) => objects::config_map(&mut report, &root, map),
        Resource::Secret(secret) => objects::secret(&mut report, &root, secret),
        Resource::PersistentVolumeClaim(claim) => objects::claim(&mut report, &root, claim.spec.as_ref()),
        Resource::PersistentVolume(volume) => objects::volume(&mut report, &root, volume.spec.as_ref()),
        Resource::CsiDriver(driver) => objects::csi_driver(&mut report, &root, driver),
        Resource::RuntimeClass(class) => objects::runtime_class(&mut report, &root, class),
        Resource::StorageClass(class) => objects::storage_class(&mut report, &root, class),
        Resource::Node(_) => {}
        _ => pods(&mut report, object, gates),
    }
    report.into_findings()
}

fn pods(report: &mut Report<'_>, object: &Object, gates: &Gates) {
    let root = Path::Under(&object.prefix);
    match object.pod() {
        Some(found) => under(&root, found.steps, &mut |path| pod::pod(report, path, &found, gates)),
        None => report.required(&root.field("spec")),
    }
}

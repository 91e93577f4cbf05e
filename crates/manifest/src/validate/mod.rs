//! What the API server would say to an object, and what a node needs of it to run it.

mod annotations;
mod claims;
mod containers;
mod env;
mod host;
mod in_tree;
mod iscsi;
mod jobs;
mod metadata;
mod mounts;
mod names;
mod objects;
mod placement;
mod pod;
mod pod_resources;
mod ports;
mod probes;
mod projected;
mod report;
mod resources;
mod schedule;
mod security;
mod selectors;
mod sources;
mod volumes;
mod windows;
mod workloads;

use plan::Gates;

use crate::finding::Finding;
use crate::object::{Object, Resource};
use crate::place::{Path, under};
use report::Report;

pub use containers::as_container;
pub(crate) use volumes::kinds as volume_kinds;

/// Everything that is wrong with an object by the API's rules under these gates.
#[must_use]
pub fn validate(object: &Object, gates: &Gates) -> Vec<Finding> {
    let mut report = Report::of(object);
    let root = Path::Under(&object.prefix);
    metadata::object(&mut report, &root, &object.resource);
    match &object.resource {
        Resource::ConfigMap(map) => objects::config_map(&mut report, &root, map),
        Resource::Secret(secret) => objects::secret(&mut report, &root, secret),
        Resource::PersistentVolumeClaim(claim) => claims::object(&mut report, &root, claim),
        Resource::PersistentVolume(volume) => claims::volume(&mut report, &root, volume),
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
    workloads::all(report, &root, &object.resource);
    match &object.resource {
        Resource::Job(job) => jobs::job(report, &root, job),
        Resource::CronJob(job) => jobs::cron_job(report, &root, job),
        _ => {}
    }
    match object.pod() {
        Some(found) => under(&root, found.steps, &mut |path| pod::pod(report, path, &found, gates)),
        None => report.required(&root.field("spec")),
    }
}

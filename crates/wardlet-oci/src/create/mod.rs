//! `create`, `run` and `restore`: creates a container, in its pod's user namespace or unchanged.

mod bundle;
mod decide;
mod inherit;
mod membership;
mod sandbox;

pub(crate) use inherit::again;

use oci_records::{Creator, Pod, Record, Standing, VERSION};

use crate::call::Create;
use crate::error::{Error, Result};
use crate::gate::Refusal;
use crate::site::Site;
use crate::unchanged;
use decide::Decision;

/// The command that creates a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    /// `create`: another call starts the container.
    Create,
    /// `run`: starts the container, and the runtime waits for it.
    Run,
    /// `restore`: from a checkpoint.
    Restore,
}

/// Creates a container. Returns only if the call fails: this process executes the runtime.
pub(crate) fn create(site: &Site<'_>, wanted: &Create, manner: Manner) -> Result<u8> {
    match decide::decide(site, wanted)? {
        Decision::AsItIs => unchanged(site),
        Decision::Said(line) => {
            site.log.decision(&line);
            unchanged(site)
        }
        Decision::Closed { pod, asked_by } => {
            closed(site, wanted, &pod, asked_by)?;
            unchanged(site)
        }
        Decision::Sandbox(_) | Decision::Inherit(_) if manner == Manner::Restore => Err(no_restore().into()),
        Decision::Sandbox(order) => sandbox::make(site, wanted, &order),
        Decision::Inherit(order) => inherit::make(site, wanted, &order),
    }
}

/// Records and logs that the pod runs without the user namespace that it asks for.
fn closed(site: &Site<'_>, wanted: &Create, pod: &Pod, asked_by: &str) -> Result<()> {
    let standing = Standing::NotIsolated { asked_by: asked_by.to_owned() };
    let record = record(site, wanted, &wanted.id, pod, standing)?;
    // This must not replace the record of a pod that still runs, which may have a user namespace and a lease.
    claim(site, &record)?;
    site.log.decision(&format!(
        "pod {pod}, sandbox {}: {asked_by} asks for a user namespace; it has none, since \
         wrapper.enable_user_namespace_annotation is false",
        wanted.id
    ));
    Ok(())
}

fn record(site: &Site<'_>, wanted: &Create, sandbox: &str, pod: &Pod, standing: Standing) -> Result<Record> {
    let root = site.root();
    let own = || site.records.pid_file(&root, &wanted.id);
    Ok(Record {
        version: VERSION,
        container: wanted.id.clone(),
        sandbox: sandbox.to_owned(),
        pod: pod.clone(),
        bundle: wanted.bundle.clone(),
        config: wanted.config.clone(),
        pid_file: wanted.pid_file.clone().unwrap_or_else(own),
        creator: Creator::own()?,
        standing,
        root,
    })
}

/// Writes a container's first record, and replaces that of an earlier container with the same ID that is gone.
fn claim(site: &Site<'_>, record: &Record) -> Result<()> {
    if site.records.claim(record)? {
        return Ok(());
    }
    let cause = "is there already, or is being made".to_owned();
    Err(Error::Sandbox { sandbox: record.container.clone(), cause })
}

fn no_restore() -> Refusal {
    let cause = "a pod with a user namespace by annotation cannot be restored from a checkpoint";
    Refusal::hinted("restore", cause, "remove the annotation")
}

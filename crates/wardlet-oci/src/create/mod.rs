//! A container to be made: as its caller says, or in its pod's user namespace.

mod bundle;
mod decide;
mod inherit;
mod membership;
mod sandbox;

pub(crate) use inherit::again;

use crate::call::Create;
use crate::error::{Error, Result};
use crate::gate::{Pod, Refusal};
use crate::lease::{Creator, Record, Standing, gone};
use crate::site::Site;
use crate::unchanged;
use decide::Decision;

/// How a container comes to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    /// It is made, and started by another call.
    Create,
    /// It is made and started, and its runtime stays with it.
    Run,
    /// It is made from a checkpoint.
    Restore,
}

/// Makes a container.
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

/// The operator's gate is closed: the pod runs as it did before, which is said and written down.
fn closed(site: &Site<'_>, wanted: &Create, pod: &Pod, asked_by: &str) -> Result<()> {
    let standing = Standing::NotIsolated { asked_by: asked_by.to_owned() };
    let record = record(site, wanted, &wanted.id, pod, standing);
    site.records.put(&record)?;
    site.log.decision(&format!(
        "pod {pod}, sandbox {}: {asked_by} asks for a user namespace; it has none, since \
         wrapper.enable_user_namespace_annotation is false",
        wanted.id
    ));
    Ok(())
}

fn record(site: &Site<'_>, wanted: &Create, sandbox: &str, pod: &Pod, standing: Standing) -> Record {
    let root = site.root();
    let own = || site.records.pid_file(&root, &wanted.id);
    Record {
        version: crate::lease::VERSION,
        container: wanted.id.clone(),
        sandbox: sandbox.to_owned(),
        pod: pod.clone(),
        bundle: wanted.bundle.clone(),
        config: wanted.config.clone(),
        pid_file: wanted.pid_file.clone().unwrap_or_else(own),
        creator: Creator::own(),
        standing,
        root,
    }
}

/// Writes a container's first record. A record of an earlier one that is gone makes way.
fn claim(site: &Site<'_>, record: &Record) -> Result<()> {
    for _ in 0..2 {
        if site.records.claim(record)? {
            return Ok(());
        }
        match site.records.get(&record.root, &record.container)? {
            Some(earlier) if !gone(&earlier) => break,
            _ => site.records.remove(&record.root, &record.container)?,
        }
    }
    let cause = "is there already, or is being made".to_owned();
    Err(Error::Sandbox { sandbox: record.container.clone(), cause })
}

fn no_restore() -> Refusal {
    let cause = "a pod with a user namespace by annotation cannot be made from a checkpoint";
    Refusal::hinted("restore", cause, "take the annotation away")
}

//! Creates a container that is not the sandbox: it joins the user namespace of its pod's sandbox.

use std::ffi::OsString;
use std::path::PathBuf;

use ids::IdMappings;
use kernel::Process;
use ledger::Holder;
use oci_records::{Record, Standing, first_process, init_of};
use serde_json::Value;

use super::decide::Next;
use super::sandbox::{annotate, words};
use super::{bundle as callers, claim, membership, record};
use crate::call::Create;
use crate::error::{Error, Result};
use crate::gate::{self, Subject};
use crate::hand_over;
use crate::isolation::{self, Made, Order, Role, Rootfs, RuntimeTraits};
use crate::lease::Leases;
use crate::site::Site;
use crate::spec;

pub(super) fn make(site: &Site<'_>, wanted: &Create, next: &Next) -> Result<u8> {
    let joining = Joining::of(site, site.traits()?, &next.sandbox)?;
    joining.is_joined_by(&wanted.id, &next.networks)?;
    let (spec, rootfs) = prepare(&joining, wanted, next)?;
    let standing = Standing::Isolated { holder: joining.holder.clone(), ids: Some(joining.ids.clone()) };
    let record = record(site, wanted, &next.sandbox.container, &next.sandbox.pod, standing)?;
    claim(site, &record)?;
    // The upper directory must be in the ledger before any file in it belongs to the pod's IDs.
    let failed = joining.add_place(&rootfs).and_then(|()| {
        let made = joining.show(&record, spec, rootfs)?;
        hand_over(site, &record, made, &words(site, wanted, &record))
    });
    let _ = site.records.remove(&record);
    failed
}

/// Parses and checks the configuration, and finds the root filesystem. Nothing is changed.
fn prepare(joining: &Joining<'_>, wanted: &Create, next: &Next) -> Result<(Value, Rootfs)> {
    let spec = spec::parse(&next.text).map_err(|cause| Error::spec(&wanted.config, cause))?;
    let ids = joining.ids.uids.iter().map(|line| line.length()).sum();
    let runtime = joining.traits.kind;
    gate::check(&Subject { spec: &spec, annotations: &next.annotations, ids, runtime })?;
    let rootfs = Rootfs::find(&wanted.bundle, &spec)?;
    Ok((spec, rootfs))
}

/// Executes a runtime that opens the files of a container at `start`: they are prepared again, at the same paths.
pub(crate) fn again(site: &Site<'_>, record: &Record) -> Result<u8> {
    let sandbox = site.records.get(&record.root, &record.sandbox)?;
    let gone = || Error::Sandbox { sandbox: record.sandbox.clone(), cause: "is gone".to_owned() };
    let joining = Joining::of(site, site.traits()?, &sandbox.ok_or_else(gone)?)?;
    let text = spec::read(&record.config)?;
    let partial = spec::parse_partial(&text).map_err(|cause| Error::spec(&record.config, cause))?;
    joining.is_joined_by(&record.container, &partial.networks)?;
    let spec = spec::parse(&text).map_err(|cause| Error::spec(&record.config, cause))?;
    let rootfs = Rootfs::find(&record.bundle, &spec)?;
    let shown = joining.show(record, spec, rootfs)?;
    hand_over(site, record, shown, &site.call.words)
}

/// The sandbox that a container joins.
struct Joining<'a> {
    site: &'a Site<'a>,
    holder: Holder,
    ids: IdMappings,
    init: Process,
    sandbox: String,
    traits: RuntimeTraits,
}

impl<'a> Joining<'a> {
    fn of(site: &'a Site<'_>, traits: RuntimeTraits, sandbox: &Record) -> Result<Self> {
        let broken =
            |cause: &str| Error::Sandbox { sandbox: sandbox.container.clone(), cause: cause.to_owned() };
        let Standing::Isolated { holder, ids: Some(ids) } = &sandbox.standing else {
            return Err(broken("is still being created"));
        };
        let ended = || match first_process(&sandbox.pid_file, ids) {
            Some(_) => Error::LeftNamespace { container: sandbox.container.clone() },
            None => broken("does not run"),
        };
        let init = Process::open(init_of(&sandbox.pid_file, ids).ok_or_else(ended)?)?;
        // The mappings that the second read found are those of the open process: its PID was not reused before it was
        // opened.
        init_of(&sandbox.pid_file, ids).filter(|pid| pid.cast_signed() == init.pid()).ok_or_else(ended)?;
        let (holder, ids, sandbox) = (holder.clone(), ids.clone(), sandbox.container.clone());
        Ok(Self { site, holder, ids, init, sandbox, traits })
    }

    /// Refuses a container that is not in the sandbox's network namespace, whatever its annotations say.
    fn is_joined_by(&self, container: &str, networks: &[String]) -> Result<()> {
        if membership::is_in(networks, &self.init)? {
            return Ok(());
        }
        Err(Error::Foreign { container: container.to_owned(), sandbox: self.sandbox.clone() })
    }

    /// Adds the upper directory of the container's overlay to the pod's lease.
    fn add_place(&self, rootfs: &Rootfs) -> Result<()> {
        let places: Vec<PathBuf> = rootfs.changes().into_iter().collect();
        Leases::open(&self.site.config)?.add_places(&self.holder, &places)
    }

    fn order(&self, record: &Record, spec: Value, rootfs: Rootfs) -> Order {
        Order {
            bundle: record.bundle.clone(),
            container_id: record.container.clone(),
            spec,
            rootfs,
            ids: self.ids.clone(),
            role: Role::Inherit { init: self.init.pid().cast_unsigned() },
            runtime: self.traits,
            on_refusal: self.site.config.settings.policy.volumes.cannot_idmap,
            stage: self.site.settings().run_dir.join("stage"),
        }
    }

    /// Prepares the container's files, and mounts the edited configuration for the runtime.
    fn show(&self, record: &Record, spec: Value, rootfs: Rootfs) -> Result<Made> {
        let order = self.order(record, spec, rootfs);
        let mut made = isolation::make(&order)?;
        annotate(&mut made.spec, &self.ids, None);
        callers::show(&made.spec, &order, &record.config)?;
        Ok(made)
    }
}

/// Executes the runtime, and returns only with an error.
fn hand_over(site: &Site<'_>, record: &Record, _made: Made, words: &[OsString]) -> Result<u8> {
    site.log.decision(&format!(
        "pod {}: container {} joins the user namespace of sandbox {}",
        record.pod, record.container, record.sandbox
    ));
    match hand_over::become_runtime(&site.runtime, words)? {}
}

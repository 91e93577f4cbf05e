//! Another container of a pod with a user namespace: it joins that of the first.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::mpsc::{Sender, channel};

use bundle::IdLines;
use kernel::Process;
use ledger::Holder;
use serde_json::Value;

use super::decide::Next;
use super::sandbox::{annotate, words};
use super::{bundle as callers, claim, membership, record};
use crate::call::Create;
use crate::error::{Error, Result};
use crate::gate::{self, Subject};
use crate::hand_over;
use crate::lease::{Leases, Record, Standing, asked, init_of};
use crate::meanwhile::meanwhile;
use crate::site::Site;
use crate::spec;
use crate::ward::{self, Made, Order, Role, Rootfs, RuntimeTraits};

pub(super) fn make(site: &Site<'_>, wanted: &Create, next: &Next) -> Result<u8> {
    // Before anybody has to wait for it: a runtime that is new here is asked.
    let traits = site.traits()?;
    let (tell, told) = channel::<(Holder, Vec<PathBuf>)>();
    let write = move || {
        let told = asked(&told, Leases::open(&site.config)?, &site.config)?;
        // Nothing is told if it came to nothing.
        told.map_or(Ok(()), |((holder, places), leases)| leases.add_places(&holder, &places))
    };
    meanwhile(write, move |other| {
        let (record, shown) = begin(site, traits, (wanted, next), &tell)?;
        // Where changes lie is on disk before anything can be changed: the runtime is run when both are done.
        let both = other.wait().and(shown);
        let failed = both.and_then(|made| hand_over(site, &record, (made, &words(site, wanted, &record))));
        let _ = site.records.remove(&record.root, &record.container);
        failed
    })
}

/// Checks what is wanted, writes down that it is being made, tells where its changes will lie, and makes its files.
fn begin(
    site: &Site<'_>,
    traits: RuntimeTraits,
    (wanted, next): (&Create, &Next),
    tell: &Sender<(Holder, Vec<PathBuf>)>,
) -> Result<(Record, Result<Made>)> {
    let joining = Joining::of(site, traits, &next.sandbox)?;
    joining.is_joined_by(&wanted.id, &next.networks)?;
    let (spec, rootfs) = prepare(&joining, wanted, next)?;
    let standing = Standing::Ward { holder: joining.holder.clone(), ids: Some(joining.ids.clone()) };
    let record = record(site, wanted, &next.sandbox.container, &next.sandbox.pod, standing);
    claim(site, &record)?;
    // One who does not listen any more has failed, and is asked.
    let _ = tell.send((joining.holder.clone(), rootfs.changes().into_iter().collect()));
    let shown = joining.show(&record, (spec, rootfs));
    Ok((record, shown))
}

/// What is known of a container before anything is done for it: its configuration, and its `/`.
fn prepare(joining: &Joining<'_>, wanted: &Create, next: &Next) -> Result<(Value, Rootfs)> {
    let spec = spec::parse(&next.text).map_err(|cause| Error::spec(&wanted.config, cause))?;
    let ids = joining.ids.uids.iter().map(|line| line.length()).sum();
    let runtime = joining.traits.kind;
    gate::check(&Subject { spec: &spec, annotations: &next.annotations, ids, runtime })?;
    let rootfs = Rootfs::find(&wanted.bundle, &spec)?;
    Ok((spec, rootfs))
}

/// Hands over to a runtime that opens a container's files only when it is started: they are made once more,
/// at the same paths.
pub(crate) fn again(site: &Site<'_>, record: &Record) -> Result<u8> {
    let sandbox = site.records.get(&record.root, &record.sandbox)?;
    let gone = || Error::Sandbox { sandbox: record.sandbox.clone(), cause: "is gone".to_owned() };
    let joining = Joining::of(site, site.traits()?, &sandbox.ok_or_else(gone)?)?;
    let text = spec::read(&record.config)?;
    let glance = spec::glance(&text).map_err(|cause| Error::spec(&record.config, cause))?;
    joining.is_joined_by(&record.container, &glance.networks)?;
    let spec = spec::parse(&text).map_err(|cause| Error::spec(&record.config, cause))?;
    let rootfs = Rootfs::find(&record.bundle, &spec)?;
    let shown = joining.show(record, (spec, rootfs))?;
    hand_over(site, record, (shown, &site.call.words))
}

/// A pod that a container comes to.
struct Joining<'a> {
    site: &'a Site<'a>,
    holder: Holder,
    ids: IdLines,
    init: Process,
    sandbox: String,
    traits: RuntimeTraits,
}

impl<'a> Joining<'a> {
    fn of(site: &'a Site<'_>, traits: RuntimeTraits, sandbox: &Record) -> Result<Self> {
        let broken =
            |cause: &str| Error::Sandbox { sandbox: sandbox.container.clone(), cause: cause.to_owned() };
        let Standing::Ward { holder, ids: Some(ids) } = &sandbox.standing else {
            return Err(broken("is still being made"));
        };
        let ended = || broken("does not run");
        let init = Process::open(init_of(&sandbox.pid_file, ids).ok_or_else(ended)?)?;
        // The maps are those of the process that is held: its number was not used anew before.
        init_of(&sandbox.pid_file, ids).filter(|pid| pid.cast_signed() == init.pid()).ok_or_else(ended)?;
        let (holder, ids, sandbox) = (holder.clone(), ids.clone(), sandbox.container.clone());
        Ok(Self { site, holder, ids, init, sandbox, traits })
    }

    /// Refuses a container that is not in the sandbox's network, whatever its annotations say.
    fn is_joined_by(&self, container: &str, networks: &[String]) -> Result<()> {
        if membership::is_in(networks, &self.init)? {
            return Ok(());
        }
        Err(Error::Foreign { container: container.to_owned(), sandbox: self.sandbox.clone() })
    }

    fn order(&self, record: &Record, (spec, rootfs): (Value, Rootfs)) -> Order {
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

    /// Makes its files, and shows what the runtime is to be given.
    fn show(&self, record: &Record, found: (Value, Rootfs)) -> Result<Made> {
        let order = self.order(record, found);
        let mut made = ward::make(&order)?;
        annotate(&mut made.spec, &self.ids, None);
        callers::show(&made.spec, &order, &record.config)?;
        Ok(made)
    }
}

/// Comes back only with an error: the runtime has nothing to give back if it fails.
fn hand_over(site: &Site<'_>, record: &Record, (_made, words): (Made, &[OsString])) -> Result<u8> {
    site.log.decision(&format!(
        "pod {}: container {} joins the user namespace of sandbox {}",
        record.pod, record.container, record.sandbox
    ));
    match hand_over::become_runtime(&site.runtime.path, words)? {}
}

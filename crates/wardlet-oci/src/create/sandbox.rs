//! Creates the sandbox container of a pod with a user namespace.
//!
//! One sequence: check the request, write the record, spawn the cleanup watcher, take the lease, write the record with
//! the ID mappings, prepare the files, execute the runtime. After a crash between any two steps, the watcher or the
//! next sweep finds the record and with it the lease. After a step that fails, the lease is released and the record
//! removed.

use std::path::PathBuf;

use ids::{BlockLength, IdMappings};
use ledger::{Holder, LedgerError, Options};
use oci_records::{Record, Standing, holder, sweep};
use serde_json::Value;

use super::decide::First;
use super::{bundle as callers, claim, record};
use crate::call::Create;
use crate::error::{Error, Result};
use crate::gate::{self, Subject};
use crate::hand_over;
use crate::isolation::{self, Made, Order, Role, Rootfs, RuntimeTraits};
use crate::lease::{self, Leases};
use crate::site::Site;
use crate::spec::{self, BLOCK_KEY, SLOT_KEY};
use crate::watcher::{give_back, spawn_watcher};

pub(super) fn make(site: &Site<'_>, wanted: &Create, first: &First) -> Result<u8> {
    let making = Making { site, wanted, first, traits: site.traits()? };
    let (spec, length) = making.check()?;
    let rootfs = Rootfs::find(&wanted.bundle, &spec)?;
    let holder = holder(&site.root(), &wanted.id)?;
    let ledger = lease::options(&site.config)?;
    let begun = making.begin(&holder)?;
    let wish = Wish { holder, length, places: rootfs.changes().into_iter().collect() };
    let failed = making.lease(ledger, wish, begun.clone()).and_then(|(record, ids)| {
        let made = making.files(spec, rootfs, &ids)?;
        hand_over(site, wanted, first, &record, made)
    });
    // This point is reached only after an error: otherwise this process has executed the runtime.
    give_back(site, &begun, |now| now.creator == begun.creator);
    failed
}

/// Executes the runtime, and returns only with an error.
fn hand_over(site: &Site<'_>, wanted: &Create, first: &First, record: &Record, _made: Made) -> Result<u8> {
    site.log.decision(&line(first, record));
    match hand_over::become_runtime(&site.runtime, &words(site, wanted, record))? {}
}

/// The parameters of a pod's lease.
struct Wish {
    holder: Holder,
    length: BlockLength,
    /// The upper directory of the container's overlay.
    places: Vec<PathBuf>,
}

struct Making<'a> {
    site: &'a Site<'a>,
    wanted: &'a Create,
    first: &'a First,
    traits: RuntimeTraits,
}

impl Making<'_> {
    /// Parses the configuration and checks that all of it is possible with a user namespace. Returns it with the number
    /// of IDs.
    fn check(&self) -> Result<(Value, BlockLength)> {
        let Self { site, wanted, first, traits } = self;
        let spec = spec::parse(&first.text).map_err(|cause| Error::spec(&wanted.config, cause))?;
        let length = first.length.unwrap_or_else(|| site.block_length());
        let (annotations, ids) = (&first.annotations, u64::from(length));
        gate::check(&Subject { spec: &spec, annotations, ids, runtime: traits.kind })?;
        Ok((spec, length))
    }

    /// Writes the record and spawns its watcher.
    fn begin(&self, holder: &Holder) -> Result<Record> {
        let Self { site, wanted, first, .. } = self;
        let standing = Standing::Isolated { holder: holder.clone(), ids: None };
        let record = record(site, wanted, &wanted.id, &first.pod, standing)?;
        claim(site, &record)?;
        // From here on the watcher releases the lease if this process ends and no container runs.
        if let Err(error) = spawn_watcher(site, &record) {
            let _ = site.records.remove(&record);
            return Err(error);
        }
        Ok(record)
    }

    /// Takes the lease and writes it into the record, both under the ledger's lock. A sweep holds that lock too, and so
    /// finds either no lease or a record with ID mappings.
    fn lease(&self, ledger: Options, wish: Wish, mut record: Record) -> Result<(Record, IdMappings)> {
        let Wish { holder, length, places } = wish;
        let records = &self.site.records;
        let leases = Leases::open_to_take(ledger)?;
        let take = || leases.take(holder.clone(), Some(length), places.clone());
        let ids = match take() {
            // The pool may be exhausted by leases that a crash has left.
            Err(Error::Ledger(LedgerError::Lease { .. })) => {
                sweep(records, |holder| leases.release(holder))?;
                take()
            }
            taken => taken,
        }?;
        record.standing = Standing::Isolated { holder, ids: Some(ids.clone()) };
        records.update(&record)?;
        Ok((record, ids))
    }

    /// Prepares the container's files, and mounts the edited configuration for the runtime.
    fn files(&self, spec: Value, rootfs: Rootfs, ids: &IdMappings) -> Result<Made> {
        let order = Order {
            bundle: self.wanted.bundle.clone(),
            container_id: self.wanted.id.clone(),
            spec,
            rootfs,
            ids: ids.clone(),
            role: Role::Sandbox,
            runtime: self.traits,
            on_refusal: self.site.config.settings.policy.volumes.cannot_idmap,
            stage: self.site.settings().run_dir.join("stage"),
        };
        let mut made = isolation::make(&order)?;
        annotate(&mut made.spec, ids, Some(self.slot(ids)));
        callers::show(&made.spec, &order, &self.wanted.config)?;
        Ok(made)
    }

    /// The index of the block in its pool, in units of the configured block length, whatever the pod's own length is.
    fn slot(&self, ids: &IdMappings) -> u64 {
        let base = ids.uids.first().map_or(0, |line| u64::from(line.host().first()));
        base.saturating_sub(self.site.settings().uid_base.unwrap_or(0)) / u64::from(self.site.block_length())
    }
}

/// The caller's arguments, with a `--pid-file` where the caller gives none.
pub(super) fn words(site: &Site<'_>, wanted: &Create, record: &Record) -> Vec<std::ffi::OsString> {
    if wanted.pid_file.is_some() {
        return site.call.words.clone();
    }
    site.call.words_with(&["--pid-file".into(), record.pid_file.clone().into()], wanted.flags_at)
}

/// Adds the annotation with the pod's block to a configuration, and for a sandbox the annotation with its slot.
pub(super) fn annotate(spec: &mut Value, ids: &IdMappings, slot: Option<u64>) {
    let first = |lines: &[ids::IdMapping]| lines.first().map_or(0, |line| u64::from(line.host().first()));
    let length = ids.uids.first().map_or(0, |line| line.length());
    let block = format!("{}:{}:{length}", first(&ids.uids), first(&ids.gids));
    let Some(whole) = spec.as_object_mut() else { return };
    let annotations = whole.entry("annotations").or_insert_with(|| Value::Object(serde_json::Map::new()));
    if annotations.is_null() {
        *annotations = Value::Object(serde_json::Map::new());
    }
    if let Some(annotations) = annotations.as_object_mut() {
        if let Some(slot) = slot {
            annotations.insert(SLOT_KEY.to_owned(), Value::String(slot.to_string()));
        }
        annotations.insert(BLOCK_KEY.to_owned(), Value::String(block));
    }
}

fn line(first: &First, record: &Record) -> String {
    let (pod, by) = (&first.pod, first.asked_by);
    let Standing::Isolated { holder, ids: Some(ids) } = &record.standing else { return String::new() };
    let span =
        |lines: &[ids::IdMapping]| lines.first().map(|line| line.host().to_string()).unwrap_or_default();
    format!("pod {pod}: {by}: user namespace of {holder}, uids {}, gids {}", span(&ids.uids), span(&ids.gids))
}

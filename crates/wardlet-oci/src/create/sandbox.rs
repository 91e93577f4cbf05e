//! The first container of a pod with a user namespace.
//!
//! In this order, so that a crash between any two steps leaves nothing that is not found again: the record, one who looks
//! after it, the lease, the record with the maps, the files, the runtime. A step that fails takes back all before it.
//!
//! Two work side by side, so that the caller waits for less: while one opens the ledger, the other checks what is wanted and
//! begins; while one brings the lease to disk, the other makes the namespaces. What is on disk is given to the pod's IDs
//! only when the lease is there, too.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};

use bundle::IdLines;
use ids::BlockLength;
use ledger::{Holder, Told};
use serde_json::Value;

use super::decide::First;
use super::{bundle as callers, claim, record};
use crate::call::Create;
use crate::error::{Error, Result};
use crate::gate::{self, Subject};
use crate::hand_over;
use crate::lease::{Leases, Record, Standing, holder, lines, sweep};
use crate::look_after::{give_back, leave_behind};
use crate::meanwhile::meanwhile;
use crate::site::Site;
use crate::spec::{self, BLOCK_KEY, SLOT_KEY};
use crate::ward::{self, Made, Order, Role, Room, Rootfs, RuntimeTraits};

pub(super) fn make(site: &Site<'_>, wanted: &Create, first: &First) -> Result<u8> {
    // Before anybody has to wait for it: a runtime that is new here is asked.
    let traits = site.traits()?;
    let mut begun = None;
    let begin = &mut || begun = Some(begin(site, traits, (wanted, first)));
    let opened = Leases::open_to_take(&site.config, begin);
    // It came to nothing before anything was begun.
    let Some(begun) = begun else { return opened.map(|_| 1) };
    let Begun { making, spec, rootfs, mut record } = begun?;
    // It comes back only if it failed: this process becomes the runtime.
    let failed = opened.and_then(|leases| making.all(leases, (spec, rootfs), &mut record));
    give_back(site, &record, || true);
    failed
}

/// A sandbox that is being made, and what the caller says of it.
struct Begun<'a> {
    making: Making<'a>,
    spec: Value,
    rootfs: Rootfs,
    record: Record,
}

/// Checks what is wanted, writes down that it is being made, and leaves somebody behind to look after it.
fn begin<'a>(
    site: &'a Site<'a>,
    traits: RuntimeTraits,
    (wanted, first): (&'a Create, &'a First),
) -> Result<Begun<'a>> {
    let (spec, length) = check(site, traits, (wanted, first))?;
    let rootfs = Rootfs::find(&wanted.bundle, &spec)?;
    let holder = holder(&site.root(), &wanted.id)?;
    let standing = Standing::Ward { holder: holder.clone(), ids: None };
    let record = record(site, wanted, &wanted.id, &first.pod, standing);
    claim(site, &record)?;
    // From here on nothing has to come back to us: if the runtime fails, or we do not get to it, somebody sees to it.
    if let Err(error) = leave_behind(site, &record) {
        let _ = site.records.remove(&record.root, &record.container);
        return Err(error);
    }
    Ok(Begun { making: Making { site, wanted, first, holder, length, traits }, spec, rootfs, record })
}

/// The configuration, if it can be had with a user namespace, and how many IDs it is to have.
fn check(
    site: &Site<'_>,
    traits: RuntimeTraits,
    (wanted, first): (&Create, &First),
) -> Result<(Value, BlockLength)> {
    let spec = spec::parse(&first.text).map_err(|cause| Error::spec(&wanted.config, cause))?;
    let length = first.length.unwrap_or_else(|| own_length(site));
    let (annotations, ids) = (&first.annotations, u64::from(length));
    gate::check(&Subject { spec: &spec, annotations, ids, runtime: traits.kind })?;
    Ok((spec, length))
}

struct Making<'a> {
    site: &'a Site<'a>,
    wanted: &'a Create,
    first: &'a First,
    holder: Holder,
    length: BlockLength,
    traits: RuntimeTraits,
}

impl Making<'_> {
    fn all(&self, leases: Leases, (spec, rootfs): (Value, Rootfs), record: &mut Record) -> Result<u8> {
        // Where its changes will lie.
        let places: Vec<PathBuf> = rootfs.changes().into_iter().collect();
        let (tell, told) = channel();
        let begun = record.clone();
        let keep = move || self.keep(leases, begun, (places, tell));
        let (kept, made) = meanwhile(keep, || self.files((spec, rootfs), &told));
        *record = kept?;
        let _made = made?;
        self.site.log.decision(&line(self.first, record));
        let words = words(self.site, self.wanted, record);
        match hand_over::become_runtime(&self.site.runtime.path, &words)? {}
    }

    /// Takes the lease, and writes it into the record. Others wait for the ledger until this returns.
    fn keep(
        &self,
        leases: Leases,
        mut record: Record,
        (places, tell): (Vec<PathBuf>, Sender<Told>),
    ) -> Result<Record> {
        let ids = self.take(&leases, (&places, &tell))?;
        record.standing = Standing::Ward { holder: self.holder.clone(), ids: Some(ids) };
        // Whoever sweeps has the ledger, and finds the one or the other.
        self.site.records.put(&record)?;
        Ok(record)
    }

    /// Makes its files, and shows what the runtime is to be given.
    fn files(&self, (spec, rootfs): (Value, Rootfs), told: &Receiver<Told>) -> Result<Made> {
        let stage = self.site.settings().run_dir.join("stage");
        let room = Room::enter(&stage)?;
        // Whoever was to tell has failed, and says why.
        let Ok(Told::Chosen(lease)) = told.recv() else { return Err(ward::Error::NotLeased.into()) };
        let ids = lines(&lease);
        let order = Order {
            bundle: self.wanted.bundle.clone(),
            container_id: self.wanted.id.clone(),
            spec,
            rootfs,
            ids: ids.clone(),
            role: Role::Sandbox,
            runtime: self.traits,
            on_refusal: self.site.config.settings.policy.volumes.cannot_idmap,
            stage,
        };
        let leased = || match told.recv() {
            Ok(Told::OnDisk) => Ok(()),
            _ => Err(ward::Error::NotLeased),
        };
        let mut made = ward::make_in(room, &order, leased)?;
        annotate(&mut made.spec, &ids, Some(self.slot(&ids)));
        callers::show(&made.spec, &order, &self.wanted.config)?;
        Ok(made)
    }

    /// A pool that seems to be full may be so with what a crash left.
    fn take(&self, leases: &Leases, (places, tell): (&[PathBuf], &Sender<Told>)) -> Result<IdLines> {
        let take = || leases.take(self.holder.clone(), Some(self.length), (places.to_owned(), tell));
        match take() {
            Err(Error::Ledger(ledger::LedgerError::Lease { .. })) => {
                sweep(&self.site.records, |holder| leases.release(holder.clone()))?;
                take()
            }
            taken => taken,
        }
    }

    /// Which block of its pool it is, counted in blocks of the pool's length whatever the pod's own is.
    fn slot(&self, ids: &IdLines) -> u64 {
        let base = ids.uids.first().map_or(0, |line| u64::from(line.host().first()));
        base.saturating_sub(self.site.settings().uid_base.unwrap_or(0)) / u64::from(own_length(self.site))
    }
}

/// The length of a block where the pod does not say it.
fn own_length(site: &Site<'_>) -> BlockLength {
    let settings = &site.config.settings;
    if settings.wrapper.spans().is_some() {
        settings.wrapper.range_size
    } else {
        settings.user_namespaces.ids_per_pod
    }
}

/// The caller's words, with a file for the first process's number where there was none.
pub(super) fn words(site: &Site<'_>, wanted: &Create, record: &Record) -> Vec<std::ffi::OsString> {
    if wanted.pid_file.is_some() {
        return site.call.words.clone();
    }
    site.call.words_with(&["--pid-file".into(), record.pid_file.clone().into()], wanted.flags_at)
}

/// Writes the pod's block into a configuration, and its slot into that of the first container.
pub(super) fn annotate(spec: &mut Value, ids: &IdLines, slot: Option<u64>) {
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
    let Standing::Ward { holder, ids: Some(ids) } = &record.standing else { return String::new() };
    let span =
        |lines: &[ids::IdMapping]| lines.first().map(|line| line.host().to_string()).unwrap_or_default();
    format!("pod {pod}: {by}: user namespace of {holder}, uids {}, gids {}", span(&ids.uids), span(&ids.gids))
}

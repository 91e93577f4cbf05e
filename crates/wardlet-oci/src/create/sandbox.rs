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
use crate::lease::{self, Looking, Opening, Record, Seen, Standing, holder, lines, sweep, taking};
use crate::look_after::{give_back, leave_behind};
use crate::meanwhile::{meanwhile, soon};
use crate::site::Site;
use crate::spec::{self, BLOCK_KEY, SLOT_KEY};
use crate::ward::{self, Made, Order, Role, Room, Rootfs, RuntimeTraits};

pub(super) fn make(site: &Site<'_>, wanted: &Create, first: &First) -> Result<u8> {
    // Before anybody has to wait for it: a runtime that is new here is asked.
    let traits = site.traits()?;
    let (opening, looking) = taking(&site.config)?;
    let (ask, asked) = channel();
    let (tell, told) = channel();
    let keep = move || keep(site, opening, (asked, tell));
    let mut begun = None;
    let making = Making { site, wanted, first, traits };
    let not_leased = || Error::from(ward::Error::NotLeased);
    let failed = meanwhile(keep, |other| match making.all(looking, &mut begun, (ask, &told)) {
        Ok(made) => {
            let record = other.wait()?.ok_or_else(not_leased)?;
            hand_over(site, (wanted, first), &record, made)
        }
        // Whoever was to take the lease says why there is none.
        Err(Error::Ward(ward::Error::NotLeased)) => Err(other.wait().err().unwrap_or_else(not_leased)),
        Err(error) => Err(error),
    });
    // It comes back only if it failed: this process becomes the runtime.
    if let Some(record) = begun {
        give_back(site, &record, || true);
    }
    failed
}

/// What is asked of the one who has the ledger.
struct Asked {
    record: Record,
    holder: Holder,
    length: BlockLength,
    /// Where the container's changes will lie.
    places: Vec<PathBuf>,
    seen: Option<Seen>,
}

/// Opens the ledger, takes the lease that is asked for, and writes it into the record. Nothing if nobody asks: it came to
/// nothing before.
fn keep(
    site: &Site<'_>,
    opening: Opening,
    (asked, tell): (Receiver<Asked>, Sender<Told>),
) -> Result<Option<Record>> {
    let found = if opening.is_there() {
        lease::asked(&asked, opening.open()?, &site.config)?
    } else {
        asked.recv().ok().map(|asked| Ok::<_, Error>((asked, opening.open()?))).transpose()?
    };
    let Some((Asked { mut record, holder, length, places, seen }, leases)) = found else { return Ok(None) };
    if let Some(seen) = &seen {
        leases.go_by(seen);
    }
    let take = || leases.take(holder.clone(), Some(length), (places.clone(), &tell));
    let ids = match take() {
        // A pool that seems to be full may be so with what a crash left.
        Err(Error::Ledger(ledger::LedgerError::Lease { .. })) => {
            sweep(&site.records, |holder| leases.release(holder))?;
            take()
        }
        taken => taken,
    }?;
    record.standing = Standing::Ward { holder, ids: Some(ids) };
    // Whoever sweeps has the ledger, and finds the one or the other.
    site.records.put(&record)?;
    // Others wait for it.
    drop(leases);
    if let Some(seen) = seen {
        seen.keep();
    }
    Ok(Some(record))
}

/// Comes back only with an error.
fn hand_over(
    site: &Site<'_>,
    (wanted, first): (&Create, &First),
    record: &Record,
    _made: Made,
) -> Result<u8> {
    site.log.decision(&line(first, record));
    match hand_over::become_runtime(&site.runtime.path, &words(site, wanted, record))? {}
}

struct Making<'a> {
    site: &'a Site<'a>,
    wanted: &'a Create,
    first: &'a First,
    traits: RuntimeTraits,
}

impl Making<'_> {
    /// Begins, looks at the host, asks for the lease and makes the files. What is to be given back if it fails is in
    /// `begun`.
    fn all(
        &self,
        mut looking: Looking,
        begun: &mut Option<Record>,
        (ask, told): (Sender<Asked>, &Receiver<Told>),
    ) -> Result<Made> {
        looking.begin();
        let (spec, length) = self.check()?;
        let rootfs = Rootfs::find(&self.wanted.bundle, &spec)?;
        let holder = holder(&self.site.root(), &self.wanted.id)?;
        let record = begun.insert(self.begin(&holder)?).clone();
        let places = rootfs.changes().into_iter().collect();
        // One who does not listen any more has failed, and says why.
        let _ = ask.send(Asked { record, holder, length, places, seen: looking.look() });
        self.files((spec, rootfs), told)
    }

    /// The configuration, if it can be had with a user namespace, and how many IDs it is to have.
    fn check(&self) -> Result<(Value, BlockLength)> {
        let Self { site, wanted, first, traits } = self;
        let spec = spec::parse(&first.text).map_err(|cause| Error::spec(&wanted.config, cause))?;
        let length = first.length.unwrap_or_else(|| site.block_length());
        let (annotations, ids) = (&first.annotations, u64::from(length));
        gate::check(&Subject { spec: &spec, annotations, ids, runtime: traits.kind })?;
        Ok((spec, length))
    }

    /// Writes down that it is being made, and leaves somebody behind to look after it.
    fn begin(&self, holder: &Holder) -> Result<Record> {
        let Self { site, wanted, first, .. } = self;
        let standing = Standing::Ward { holder: holder.clone(), ids: None };
        let record = record(site, wanted, &wanted.id, &first.pod, standing);
        claim(site, &record)?;
        // From here on nothing has to come back to us: if the runtime fails, or we do not get to it, somebody sees to it.
        if let Err(error) = leave_behind(site, &record) {
            let _ = site.records.remove(&record.root, &record.container);
            return Err(error);
        }
        Ok(record)
    }

    /// Makes its files, and shows what the runtime is to be given.
    fn files(&self, (spec, rootfs): (Value, Rootfs), told: &Receiver<Told>) -> Result<Made> {
        let stage = self.site.settings().run_dir.join("stage");
        let room = Room::enter(&stage)?;
        let Ok(Told::Chosen(lease)) = soon(told) else { return Err(ward::Error::NotLeased.into()) };
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
        let leased = || match soon(told) {
            Ok(Told::OnDisk) => Ok(()),
            _ => Err(ward::Error::NotLeased),
        };
        let mut made = ward::make_in(room, &order, leased)?;
        annotate(&mut made.spec, &ids, Some(self.slot(&ids)));
        callers::show(&made.spec, &order, &self.wanted.config)?;
        Ok(made)
    }

    /// Which block of its pool it is, counted in blocks of the pool's length whatever the pod's own is.
    fn slot(&self, ids: &IdLines) -> u64 {
        let base = ids.uids.first().map_or(0, |line| u64::from(line.host().first()));
        base.saturating_sub(self.site.settings().uid_base.unwrap_or(0)) / u64::from(self.site.block_length())
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

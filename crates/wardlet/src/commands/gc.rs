use std::collections::BTreeMap;

use ids::allocator::State;
use ids::witness::{Sighting, Witness};
use ids::{IdBlock, IdKind};
use ledger::{Holder, Lease, Ledger, Outcome, Verdict};
use serde::Serialize;

use super::{Mode, Session};
use crate::cli::GcArgs;
use crate::failure::{Answer, Failure};
use crate::lease_view::LeaseView;
use crate::output::{table, wrapped};
use crate::verdict_view::{VerdictView, few, sentence, subject};
use crate::words;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GcView {
    dry_run: bool,
    verdicts: Vec<VerdictView>,
    pinned: Vec<LeaseView>,
    /// Leases of earlier boots that were not asked for since.
    earlier_boots: Vec<OldLease>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OldLease {
    holder: String,
    released: bool,
    /// Who or what keeps it; nothing if it was not asked to be released.
    kept_by: Option<String>,
}

pub(super) fn run(session: &Session, args: &GcArgs) -> Result<Answer, Failure> {
    let mode = Mode::dry_run_if(args.dry_run);
    session.node.with_existing_ledger(|ledger| match ledger {
        Some(ledger) => collect(session, ledger, args, mode),
        None if !args.unpin.is_empty() => {
            let dir = session.node.state_dir().display();
            Err(Failure::refused(format!("there is no ledger in {dir}, and so no pinned block")))
        }
        None => {
            words::say(&format!("there is no ledger in {}", session.node.state_dir().display()));
            let none =
                GcView { dry_run: args.dry_run, verdicts: vec![], pinned: vec![], earlier_boots: vec![] };
            session.format.print(&none, String::new)?;
            Ok(Answer::Holds)
        }
    })
}

fn collect(session: &Session, ledger: &Ledger, args: &GcArgs, mode: Mode) -> Result<Answer, Failure> {
    for base in &args.unpin {
        unpin(ledger, *base, mode)?;
    }
    if mode == Mode::Act {
        sweep(session, ledger)?;
    }
    let old = if args.earlier_boots { release_old(session, ledger, mode)? } else { list_old(ledger)? };
    let verdicts = match mode {
        Mode::Act => ledger.settle()?,
        Mode::DryRun => ledger.preview()?,
    };
    let pinned: Vec<Lease> = ledger.list()?.into_iter().filter(|l| l.state == State::Pinned).collect();
    let view = GcView {
        dry_run: args.dry_run,
        verdicts: verdicts.iter().map(VerdictView::from).collect(),
        pinned: pinned.iter().map(LeaseView::from).collect(),
        earlier_boots: old,
    };
    session.format.print(&view, || text(&view, &verdicts, &pinned))?;
    if mode == Mode::DryRun {
        words::say("nothing was changed: this was a dry run");
    }
    let unseen = verdicts.iter().any(|v| matches!(v.outcome, Outcome::Unseen(_)));
    Ok(if unseen { Answer::Unknown } else { Answer::Holds })
}

/// Leases of the wrapper's sandboxes that ended without being deleted.
fn sweep(session: &Session, ledger: &Ledger) -> Result<(), Failure> {
    let wrapper = &session.node.config.settings.wrapper;
    if session.node.host_root().path(&wrapper.state_dir) != session.node.state_dir() {
        return Ok(());
    }
    let records = wardlet_oci::lease::Records::new(&session.node.host_root().path(&wrapper.run_dir));
    let release = |holder: &Holder| Ok(ledger.release(holder.clone()).map(|_| ())?);
    let swept = wardlet_oci::lease::sweep(&records, release);
    let swept = swept.map_err(|e| Failure::unknown(e.to_string()))?;
    for record in &swept.released {
        words::note(&format!("sandbox {} of pod {} is gone: released", record.sandbox, record.pod));
    }
    for unreadable in &swept.unreadable {
        words::warning(&unreadable.to_string());
    }
    Ok(())
}

fn unpin(ledger: &Ledger, base: u32, mode: Mode) -> Result<(), Failure> {
    if mode == Mode::Act {
        ledger.unpin(base)?;
        return Ok(());
    }
    let pinned = |l: &Lease| l.state == State::Pinned && l.uids.base().get() == base;
    if ledger.list()?.iter().any(pinned) {
        Ok(())
    } else {
        Err(ledger::LedgerError::NotPinned { base }.into())
    }
}

fn list_old(ledger: &Ledger) -> Result<Vec<OldLease>, Failure> {
    let old = ledger.earlier_boots()?;
    if !old.is_empty() {
        words::note(&format!(
            "leases of earlier boots: {}; `wardlet ids gc --earlier-boots` releases those that nothing uses",
            few(&old.iter().map(ToString::to_string).collect::<Vec<_>>())
        ));
    }
    let view = |holder: &Holder| OldLease { holder: holder.to_string(), released: false, kept_by: None };
    Ok(old.iter().map(view).collect())
}

/// A kubelet starts its pods again with the block in their record: what is only claimed is kept, too.
fn release_old(session: &Session, ledger: &Ledger, mode: Mode) -> Result<Vec<OldLease>, Failure> {
    let census = session.node.census();
    let seen = census.look().map_err(|e| Failure::unknown(e.to_string()))?;
    let mut done = Vec::new();
    for holder in ledger.earlier_boots()? {
        let Some(lease) = ledger.get(holder.clone())? else { continue };
        let places = census.remaining(&lease.places).map_err(|e| Failure::unknown(e.to_string()))?;
        let place = places.first().map(|p| format!("{} still exists", p.display()));
        let kept_by = place.or_else(|| keeper(&seen, &lease));
        if kept_by.is_none() && mode == Mode::Act {
            ledger.release(holder.clone())?;
        }
        done.push(OldLease { holder: holder.to_string(), released: kept_by.is_none(), kept_by });
    }
    Ok(done)
}

fn keeper(seen: &Sighting, lease: &Lease) -> Option<String> {
    let user = |kind: IdKind, block: IdBlock| seen.users(kind, block.span()).next().map(|u| u.by.clone());
    let user = user(IdKind::Uid, lease.uids).or_else(|| user(IdKind::Gid, lease.gids));
    let unseen = || (!seen.blind().is_empty()).then(|| format!("could not be seen: {}", few(seen.blind())));
    user.or_else(unseen)
}

fn text(view: &GcView, verdicts: &[Verdict], pinned: &[Lease]) -> String {
    let mut text = String::new();
    for old in &view.earlier_boots {
        text.push_str(&match &old.kept_by {
            Some(by) => wrapped(&format!("{}: of an earlier boot, kept: {by}", old.holder), 2),
            None if old.released => format!("{}: of an earlier boot, released\n", old.holder),
            None => format!("{}: of an earlier boot, kept\n", old.holder),
        });
    }
    let rows: Vec<_> = verdicts
        .iter()
        .map(|v| {
            let [holder, uids] = subject(&v.lease);
            [holder, uids, sentence(&v.outcome)]
        })
        .collect();
    if !rows.is_empty() {
        text.push_str(&table(["HOLDER", "UIDS", "OUTCOME"], &rows));
    }
    text.push_str(&pinned_text(pinned));
    if text.is_empty() { "nothing to free\n".to_owned() } else { text }
}

/// Each block by itself, so that it can be named to `--unpin`; each reason once.
fn pinned_text(pinned: &[Lease]) -> String {
    let mut by_note: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for lease in pinned {
        let note = lease.note.as_deref().unwrap_or("nothing says who has these blocks");
        by_note.entry(note).or_default().push(lease.uids.to_string());
    }
    let text = by_note.iter().map(|(note, blocks)| {
        wrapped(&format!("pinned: {}", blocks.join(" ")), 2) + &wrapped(&format!("  {note}"), 2)
    });
    text.collect()
}

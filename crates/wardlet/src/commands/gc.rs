use ids::allocator::State;
use ids::witness::{Sighting, Witness};
use ids::{IdBlock, IdKind};
use ledger::{Holder, Lease, Ledger, Outcome};
use report::leases::{Collection, OldLease, few};

use super::{Mode, Session};
use crate::cli::GcArgs;
use crate::failure::{Answer, Failure};
use crate::words;

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
            let none = Collection {
                dry_run: args.dry_run,
                verdicts: &[],
                pinned: &[],
                earlier_boots: &[],
                category_pairs: &[],
            };
            session.format.print(&none.view(), String::new)?;
            Ok(Answer::Holds)
        }
    })
}

fn collect(session: &Session, ledger: &Ledger, args: &GcArgs, mode: Mode) -> Result<Answer, Failure> {
    for base in &args.unpin {
        unpin(ledger, *base, mode)?;
    }
    if mode == Mode::Act {
        sweep(session)?;
    }
    let old = if args.earlier_boots { release_old(session, ledger, mode)? } else { list_old(ledger)? };
    let (verdicts, pairs) = match mode {
        Mode::Act => (ledger.settle()?, ledger.settle_pairs()?),
        Mode::DryRun => (ledger.preview()?, ledger.preview_pairs()?),
    };
    let pinned: Vec<Lease> = ledger.list()?.into_iter().filter(|l| l.state == State::Pinned).collect();
    let done = Collection {
        dry_run: args.dry_run,
        verdicts: &verdicts,
        pinned: &pinned,
        earlier_boots: &old,
        category_pairs: &pairs,
    };
    session.format.print(&done.view(), || done.text())?;
    if mode == Mode::DryRun {
        words::say("nothing was changed: this was a dry run");
    }
    let unseen = verdicts.iter().any(|v| matches!(v.outcome, Outcome::Unseen(_)));
    Ok(if unseen { Answer::Unknown } else { Answer::Holds })
}

/// Releases the leases of the wrapper's sandboxes that ended without being deleted. No create of the wrapper gets a lease
/// between the look at a record and the release of its lease: both are under the ledger's lock.
fn sweep(session: &Session) -> Result<(), Failure> {
    let wrapper = &session.node.config.settings.wrapper;
    if session.node.host_root().path(&wrapper.state_dir) != session.node.state_dir() {
        return Ok(());
    }
    let records = oci_records::Records::new(&session.node.host_root().path(&wrapper.run_dir));
    // Whatever keeps a lease from being released, it is no answer to what was asked.
    let failed = |e: ledger::LedgerError| Failure::unknown(e.to_string());
    let swept = session.node.with_locked_ledger(|ledger| {
        let release = |holder: &Holder| ledger.release(holder.clone()).map(|_| ()).map_err(failed);
        oci_records::sweep(&records, release)
    })?;
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

use ledger::{Holder, Lease, Ledger, Outcome, Released, Verdict};
use report::leases::{VerdictView, holder_name, outcome_text};
use serde::Serialize;

use super::Session;
use crate::failure::{Answer, Failure};
use crate::words;

/// What a release came to, for programs.
#[derive(Serialize)]
#[serde(untagged)]
enum ReleaseView {
    OnItsWay(VerdictView),
    Other {
        holder: String,
        /// `left`, `nothingHeld` or `draining`.
        outcome: &'static str,
    },
}

pub(super) fn run(session: &Session, holder: &Holder) -> Result<Answer, Failure> {
    session.node.with_existing_ledger(|ledger| {
        let released = match ledger {
            Some(ledger) => (ledger.release(holder.clone())?, ledger),
            None => return nothing_held(session, holder),
        };
        match released {
            (Released::NothingHeld, _) => nothing_held(session, holder),
            (Released::Left(lease), _) => left(session, holder, &lease),
            (Released::Draining(lease), ledger) => on_its_way(session, ledger, &lease),
        }
    })
}

fn nothing_held(session: &Session, holder: &Holder) -> Result<Answer, Failure> {
    words::say(&format!("{holder} has no lease"));
    let view = ReleaseView::Other { holder: holder.to_string(), outcome: "nothingHeld" };
    session.format.print(&view, String::new)?;
    Ok(Answer::Holds)
}

fn left(session: &Session, holder: &Holder, lease: &Lease) -> Result<Answer, Failure> {
    let view = ReleaseView::Other { holder: holder.to_string(), outcome: "left" };
    let others = lease.members.as_ref().map_or(0, Vec::len);
    session.format.print(&view, || {
        format!("{holder} has left {}; remaining members: {others}\n", holder_name(lease))
    })?;
    Ok(Answer::Holds)
}

/// The release is done; what can be said about the block is said, and what cannot is no failure.
fn on_its_way(session: &Session, ledger: &Ledger, lease: &Lease) -> Result<Answer, Failure> {
    let verdicts = ledger.settle().unwrap_or_else(|e| {
        words::warning(&e.to_string());
        Vec::new()
    });
    let name = holder_name(lease);
    match verdicts.iter().find(|v| v.lease.id == lease.id) {
        Some(verdict @ Verdict { outcome, .. }) => {
            let view = ReleaseView::OnItsWay(VerdictView::from(verdict));
            session.format.print(&view, || format!("{name}  {}  {}\n", lease.uids, outcome_text(outcome)))?;
            if matches!(outcome, Outcome::InUse(_) | Outcome::Unseen(_)) {
                words::say("`wardlet ids gc` frees it once nothing uses it");
            }
        }
        None => {
            let view = ReleaseView::Other { holder: name.clone(), outcome: "draining" };
            session.format.print(&view, || format!("{name}  {}  draining\n", lease.uids))?;
        }
    }
    Ok(Answer::Holds)
}

use census::{LeaseClaim, Verdict, audit};
use ids::allocator::State;
use ledger::Lease;
use report::alike;
use report::leases::{AuditView, PairView, holder_name};

use super::Session;
use crate::failure::{Answer, Failure};
use crate::words;

pub(super) fn run(session: &Session) -> Result<Answer, Failure> {
    let (leases, pairs) = session.node.with_existing_ledger(|ledger| match ledger {
        Some(ledger) => Ok::<_, Failure>((ledger.list()?, ledger.pairs()?)),
        None => Ok((Vec::new(), Vec::new())),
    })?;
    let claims: Vec<_> = leases.iter().map(claim).collect();
    let report = session.node.census().take()?;
    let audit = audit(&report, &claims);
    let verdict = audit.verdict();
    let view = AuditView {
        verdict,
        leases: &claims,
        audit: &audit,
        problems: &report.problems,
        notes: &report.notes,
        pairs: pairs.iter().map(PairView::from).collect(),
    };
    session.format.print(&view, || view.text())?;
    for problem in &report.problems {
        words::warning(&problem.to_string());
    }
    for blind in alike(audit.blind.clone()) {
        words::warning(&format!("could not be seen: {blind}"));
    }
    for note in &report.notes {
        words::note(note);
    }
    Ok(match verdict {
        Verdict::Holds => Answer::Holds,
        Verdict::Violated => Answer::DoesNotHold,
        Verdict::Unknown => Answer::Unknown,
    })
}

fn claim(lease: &Lease) -> LeaseClaim {
    LeaseClaim {
        holder: holder_name(lease),
        state: lease.state_name().to_owned(),
        uids: lease.uids.span(),
        gids: lease.gids.span(),
        live: matches!(lease.state, State::Leased | State::Draining),
        shared: lease.members.is_some(),
    }
}

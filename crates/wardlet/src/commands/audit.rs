use census::{Audit, Finding, LeaseClaim, Owner, Problem, Severity, Verdict, audit};
use ids::allocator::State;
use ids::witness::Hold;
use ids::{HostSpan, IdKind};
use ledger::Lease;
use serde::Serialize;

use super::Session;
use crate::failure::{Answer, Failure};
use crate::lease_view::holder_name;
use crate::output::{table, wrapped};
use crate::words;

#[derive(Serialize)]
struct AuditView<'a> {
    verdict: Verdict,
    leases: &'a [LeaseClaim],
    #[serde(flatten)]
    audit: &'a Audit,
    problems: &'a [Problem],
    notes: &'a [String],
}

pub(super) fn run(session: &Session) -> Result<Answer, Failure> {
    let leases = session.node.with_existing_ledger(|ledger| match ledger {
        Some(ledger) => Ok(ledger.list()?),
        None => Ok(Vec::new()),
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
    };
    session.format.print(&view, || text(&view))?;
    for problem in &report.problems {
        words::warning(&problem.to_string());
    }
    for blind in &audit.blind {
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

fn text(view: &AuditView<'_>) -> String {
    let leases = view.leases.iter().map(|l| {
        let ids = [l.uids.to_string(), l.gids.to_string()];
        row(ids, &l.state, &format!("lease of {}", l.holder))
    });
    let owners = view.audit.owners.iter().map(|o| {
        let hold = if o.hold == Hold::Live { "live" } else { "claimed" };
        row([spans(o, IdKind::Uid), spans(o, IdKind::Gid)], hold, &o.name)
    });
    let rows: Vec<_> = leases.chain(owners).collect();
    let mut text = if rows.is_empty() {
        "nobody on this host has IDs from 65536 up\n".to_owned()
    } else {
        table(["UIDS", "GIDS", "HOLD", "OWNER"], &rows)
    };
    text.push('\n');
    view.audit.findings.iter().for_each(|f| text.push_str(&finding(f)));
    text.push_str(&conclusion(view));
    text
}

fn row([uids, gids]: [String; 2], hold: &str, owner: &str) -> [String; 4] {
    let gids = if gids == uids { "same".to_owned() } else { gids };
    [uids, gids, hold.to_owned(), owner.to_owned()]
}

fn spans(owner: &Owner, kind: IdKind) -> String {
    let span = |s: &HostSpan| if s.length() == 1 { s.first().to_string() } else { s.to_string() };
    match owner.ids(kind) {
        [] => "-".to_owned(),
        ids => ids.iter().map(span).collect::<Vec<_>>().join(","),
    }
}

fn finding(finding: &Finding) -> String {
    let word = match finding.severity {
        Severity::Violation => "violation",
        Severity::Note => "note",
    };
    wrapped(&format!("{word}: {}", finding.detail), 2) + &wrapped(&format!("  hint: {}", finding.hint), 4)
}

fn conclusion(view: &AuditView<'_>) -> String {
    let violations = view.audit.findings.iter().filter(|f| f.severity == Severity::Violation).count();
    match view.verdict {
        Verdict::Holds => "holds: nobody has IDs of another\n".to_owned(),
        Verdict::Violated => format!("does not hold: violations found: {violations}\n"),
        Verdict::Unknown => {
            let unseen = view.audit.blind.len();
            format!("unknown: nothing wrong was seen, but {unseen} things could not be seen\n")
        }
    }
}

use census::{Audit, Finding, LeaseClaim, Owner, Problem, Severity, Verdict};
use ids::witness::Hold;
use ids::{HostSpan, IdKind};
use serde::Serialize;

use super::PairView;
use crate::{table, wrapped};

/// What an audit found, for programs: the owners of host IDs, and overlaps.
#[derive(Debug, Serialize)]
pub struct AuditView<'a> {
    /// Whether no block of IDs has two users.
    pub verdict: Verdict,
    /// The leases of the ledger.
    pub leases: &'a [LeaseClaim],
    /// Owners that the census found, findings, and what could not be seen.
    #[serde(flatten)]
    pub audit: &'a Audit,
    /// What is wrong with files that claim IDs.
    pub problems: &'a [Problem],
    /// What was taken for granted.
    pub notes: &'a [String],
    /// Category pairs of sandboxes and containers that have no block.
    #[serde(rename = "categoryPairs")]
    pub pairs: Vec<PairView>,
}

impl AuditView<'_> {
    /// The same as a table, the findings below it, the verdict in the last line.
    #[must_use]
    pub fn text(&self) -> String {
        let leases = self.leases.iter().map(|l| {
            let ids = [l.uids.to_string(), l.gids.to_string()];
            row(ids, &l.state, &format!("lease of {}", l.holder))
        });
        let owners = self.audit.owners.iter().map(|o| {
            let hold = if o.hold == Hold::Live { "live" } else { "claimed" };
            row([spans(o, IdKind::Uid), spans(o, IdKind::Gid)], hold, &o.name)
        });
        let rows: Vec<_> = leases.chain(owners).collect();
        let mut text = if rows.is_empty() {
            "no process, record or file on this host uses IDs from 65536 up\n".to_owned()
        } else {
            table(["UIDS", "GIDS", "HOLD", "OWNER"], &rows)
        };
        text.push('\n');
        self.audit.findings.iter().for_each(|f| text.push_str(&finding(f)));
        text.push_str(&conclusion(self));
        text
    }
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
        Verdict::Holds => "OK: no owner has IDs of another\n".to_owned(),
        Verdict::Violated => format!("FAILED: violations found: {violations}\n"),
        Verdict::Unknown => {
            let unseen = view.audit.blind.len();
            format!("unknown: nothing wrong was seen, but {unseen} things could not be seen\n")
        }
    }
}

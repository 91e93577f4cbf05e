//! What is wrong with the host's ID space: a judgement on a [`Report`] and the ledger's leases.
//!
//! Pure: everything overlapping is found by one sweep over all parties, and each pair is judged by
//! what the two are.

mod host_ids;
mod judge;
mod party;
mod sweep;
mod unclaimed;

use ids::{HostSpan, IdKind};
use serde::Serialize;

use crate::owner::{Owner, Report};
use party::{Ground, Party};

/// A lease as the ledger has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LeaseClaim {
    /// Its holder; for pods, the pod's UID.
    pub holder: String,
    /// The ledger's word for its state.
    pub state: String,
    /// User IDs.
    pub uids: HostSpan,
    /// Group IDs.
    pub gids: HostSpan,
    /// Leased or draining: the IDs may be in use.
    pub live: bool,
    /// One block that several holders joined.
    pub shared: bool,
}

/// How bad.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Severity {
    /// Isolation does not hold.
    Violation,
    /// Good to know.
    Note,
}

/// What was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum What {
    /// Two have the same IDs.
    Overlap,
    /// A process has IDs of a block that its user namespace does not map.
    ForeignProcess,
    /// IDs of the host itself, or the last ID, were given away.
    HostIds,
    /// IDs are in use without any claim.
    Leak,
    /// A kubelet record whose IDs are not in use.
    UnusedRecord,
}

/// One thing found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// What.
    pub what: What,
    /// How bad.
    pub severity: Severity,
    /// Those concerned.
    pub between: Vec<String>,
    /// User or group IDs.
    pub kind: IdKind,
    /// Which.
    pub ids: HostSpan,
    /// One sentence.
    pub detail: String,
    /// What to do.
    pub hint: String,
}

/// The answer as exit codes know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Verdict {
    /// No violation, and nothing was out of sight.
    Holds,
    /// There is a violation.
    Violated,
    /// No violation was seen, but not everything could be seen.
    Unknown,
}

/// The judgement.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Audit {
    /// Violations first.
    pub findings: Vec<Finding>,
    /// What could not be looked into.
    pub blind: Vec<String>,
    /// Every user and every claim of IDs on the host.
    pub owners: Vec<Owner>,
}

impl Audit {
    /// Does isolation hold?
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        if self.findings.iter().any(|f| f.severity == Severity::Violation) {
            Verdict::Violated
        } else if self.blind.is_empty() {
            Verdict::Holds
        } else {
            Verdict::Unknown
        }
    }

    /// No violation, and nothing out of sight.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.verdict() == Verdict::Holds
    }
}

/// Judges the host. Leases that are not live are as if they were not there.
#[must_use]
pub fn audit(report: &Report, leases: &[LeaseClaim]) -> Audit {
    let leases = leases.iter().filter(|l| l.live).map(Party::Lease);
    let parties: Vec<_> = leases.chain(report.owners.iter().map(Party::Owner)).collect();
    let ground = Ground::new(&parties);
    let mut findings = host_ids::findings(report);
    for kind in [IdKind::Uid, IdKind::Gid] {
        let pairs = sweep::overlapping(&parties, kind);
        findings.extend(pairs.iter().filter_map(|pair| judge::finding(pair, &ground)));
        findings.extend(unclaimed::leaks(&parties, kind, &ground));
        findings.extend(unclaimed::unused_records(&parties, kind, &pairs));
    }
    findings.sort_by(|a, b| {
        (a.severity, a.what, a.kind, a.ids, &a.between).cmp(&(b.severity, b.what, b.kind, b.ids, &b.between))
    });
    Audit { findings, blind: report.blind.clone(), owners: report.owners.clone() }
}

#[cfg(test)]
mod tests;

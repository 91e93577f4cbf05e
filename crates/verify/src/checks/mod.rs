//! What is checked, one file each. Every check reads one scan and adds its findings.

mod credentials;
mod files;
mod foreign;
mod host_programs;
mod labels;
mod mounts;
mod overlap;
mod powers;
mod records;
mod views;

use crate::scan::HostScan;
use crate::violation::Findings;

/// What the checks have come to, and how much they looked at.
#[derive(Debug, Default)]
pub(super) struct Checked {
    pub(super) findings: Findings,
    pub(super) tally: Tally,
}

/// How many mounts of each pod, by its UID, were judged, and how many files on all of them.
#[derive(Debug, Clone, Default)]
pub(super) struct Tally {
    pub(super) mounts: std::collections::BTreeMap<String, usize>,
    pub(super) files: usize,
    /// Mounts with more files than were looked at.
    pub(super) in_part: usize,
}

pub(super) fn all(scan: &HostScan) -> Checked {
    let mut checked = Checked::default();
    credentials::check(scan, &mut checked.findings);
    overlap::check(scan, &mut checked.findings);
    foreign::check(scan, &mut checked.findings);
    powers::check(scan, &mut checked.findings);
    labels::check(scan, &mut checked.findings);
    records::check(scan, &mut checked.findings);
    views::check(scan, &mut checked);
    host_programs::check(scan, &mut checked.findings);
    checked
}

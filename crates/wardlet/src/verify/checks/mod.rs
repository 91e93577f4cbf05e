//! What is checked, one file each. Every check takes one look and adds what it finds.

mod books;
mod credentials;
mod files;
mod foreign;
mod host_programs;
mod labels;
mod mounts;
mod overlap;
mod powers;
mod views;

use super::look::Look;
use super::violation::Findings;

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

pub(super) fn all(look: &Look) -> Checked {
    let mut checked = Checked::default();
    credentials::check(look, &mut checked.findings);
    overlap::check(look, &mut checked.findings);
    foreign::check(look, &mut checked.findings);
    powers::check(look, &mut checked.findings);
    labels::check(look, &mut checked.findings);
    books::check(look, &mut checked.findings);
    views::check(look, &mut checked);
    host_programs::check(look, &mut checked.findings);
    checked
}

//! No two pods have IDs in common, unless the ledger gave them one block together.

use crate::pods::Pod;
use crate::scan::HostScan;
use crate::violation::{Findings, Violation, What};

pub(super) fn check(scan: &HostScan, findings: &mut Findings) {
    let pods: Vec<&Pod> = scan.isolated().collect();
    for (at, one) in pods.iter().enumerate() {
        for two in pods.iter().skip(at + 1) {
            let Some((kind, ids)) = one.maps.meets(&two.maps) else { continue };
            if scan.share_a_lease(one, two) {
                findings.note(one, format!("shares {kind}s {ids} with {}, as the ledger says", two.title()));
                continue;
            }
            if one.is_podmans() && two.is_podmans() {
                findings.note(one, format!("shares {kind}s {ids} with {}", two.title()));
                continue;
            }
            let same = if one.home == two.home { "is in the same user namespace and " } else { "" };
            let found = format!("{} {same}has {kind}s {ids} as well", two.title());
            let expected = format!("{} for {} alone", one.maps, one.title());
            findings.violated(Violation::new(What::Overlap, expected, found).of(one).and(two));
        }
    }
}

//! SELinux levels, where the kernel has them: as leased, and no two pods with the same.

use std::collections::{BTreeMap, BTreeSet};

use crate::pods::Pod;
use crate::scan::{HostScan, SharedPair};
use crate::violation::{Findings, Violation, What};

pub(super) fn check(scan: &HostScan, findings: &mut Findings) {
    for SharedPair { pair, holder, other } in &scan.records.shared_pairs {
        let violation = Violation::new(
            What::Label,
            format!("categories {pair} of {holder} alone"),
            format!("{other} has them"),
        );
        findings.violated(violation);
    }
    let mut levels: BTreeMap<String, Vec<&Pod>> = BTreeMap::new();
    for pod in scan.isolated() {
        let mut own = BTreeSet::new();
        for process in pod.at_home(&scan.walk) {
            let Some(label) = process.label.as_deref() else { continue };
            let level = level_of(label);
            if let Some(expected) =
                leased(scan, pod).filter(|leased| categories(level) != Some(leased.as_str()))
            {
                let expected = format!("categories {expected}, as leased");
                let violation =
                    Violation::new(What::Label, expected, format!("{} has {label}", process.name()));
                findings.violated(violation.of(pod).by(process.pid));
            }
            own.insert(level.to_owned());
        }
        for level in own.into_iter().filter(|level| categories(level).is_some()) {
            levels.entry(level).or_default().push(pod);
        }
    }
    for (level, pods) in levels {
        if let [first, rest @ ..] = pods.as_slice() {
            for other in rest {
                findings.note(first, format!("has SELinux level {level}, as {} has", other.title()));
            }
        }
    }
}

fn leased(scan: &HostScan, pod: &Pod) -> Option<String> {
    let leases = scan.records.leases.iter().flatten();
    leases
        .filter(|lease| lease.holders().iter().any(|holder| pod.holds_as(holder)))
        .find_map(|lease| lease.categories.clone())
}

/// `s0:c1,c2` of `user:role:type:s0:c1,c2`.
fn level_of(label: &str) -> &str {
    label.splitn(4, ':').nth(3).unwrap_or_default()
}

/// `c1,c2` of `s0:c1,c2`.
fn categories(level: &str) -> Option<&str> {
    level.split_once(':').map(|(_, categories)| categories).filter(|categories| !categories.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_level_of_a_label_is_all_behind_its_type() {
        let level = level_of("system_u:system_r:container_t:s0:c1,c2");
        assert_eq!((level, categories(level)), ("s0:c1,c2", Some("c1,c2")));
        assert_eq!(categories(level_of("system_u:system_r:spc_t:s0")), None);
        assert_eq!(level_of("unconfined"), "");
    }
}

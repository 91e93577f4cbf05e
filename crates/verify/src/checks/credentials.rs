//! Each process of a pod is inside its user namespace and has no ID but those of its block.

use std::collections::BTreeSet;

use ids::{HostSpan, IdKind, UNIT};
use kernel::NamespaceKind;

use crate::identity::Identity;
use crate::pods::{Pod, is_the_hosts};
use crate::scan::HostScan;
use crate::violation::{Findings, Violation, What};
use crate::walk::Process;

pub(super) fn check(scan: &HostScan, findings: &mut Findings) {
    for pod in scan.isolated() {
        host_ids(pod, findings);
        for process in pod.at_home(&scan.walk) {
            if let Some(found) = strangers(pod, process) {
                let expected = format!("only IDs of {}", pod.maps);
                let violation = Violation::new(What::Credentials, expected, found);
                findings.violated(violation.of(pod).by(process.pid));
            }
        }
        for process in pod.outside.iter().filter_map(|at| scan.walk.processes.get(*at)) {
            findings.violated(outside(scan, pod, process));
        }
    }
}

/// The IDs that are not the pod's.
fn strangers(pod: &Pod, process: &Process) -> Option<String> {
    let of = |kind| {
        let ids: BTreeSet<u32> =
            process.status.ids(kind).iter().copied().filter(|id| !pod.maps.holds(kind, *id)).collect();
        let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
        (!ids.is_empty()).then(|| format!("{kind} {}", ids.join(",")))
    };
    let found: Vec<String> = [IdKind::Uid, IdKind::Gid].into_iter().filter_map(of).collect();
    (!found.is_empty()).then(|| format!("{} has {}", process.name(), found.join(" and ")))
}

fn outside(scan: &HostScan, pod: &Pod, process: &Process) -> Violation {
    let home = pod.home.unwrap_or_default();
    let found = match process.space(NamespaceKind::User) {
        Some(user) if is_the_hosts(&scan.walk, user) => "the host's user namespace".to_owned(),
        Some(user) => format!("user namespace [{user}]"),
        None => "an unknown user namespace".to_owned(),
    };
    let found = format!("{} is in {found}", process.name());
    let expected = format!("in user namespace [{home}], or in one made in it");
    Violation::new(What::OutsideNamespace, expected, found).of(pod).by(process.pid)
}

/// Rootless podman rightly maps its user's own ID; a pod of Kubernetes never maps one of the host's.
fn host_ids(pod: &Pod, findings: &mut Findings) {
    let Ok(hosts) = HostSpan::new(0, UNIT) else { return };
    for kind in [IdKind::Uid, IdKind::Gid] {
        let Some(ids) = pod.maps.meets_spans(kind, &[hosts]) else { continue };
        let found = format!("{kind}s {ids} of the host in its map");
        if matches!(pod.identity, Identity::Libpod(_)) {
            findings.note(pod, found);
        } else {
            let expected = "no ID below 65536";
            findings.violated(Violation::new(What::HostIds, expected, found).of(pod));
        }
    }
}

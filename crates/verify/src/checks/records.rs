//! What is written down agrees with what is: the ledger's leases, the kubelet's records, what was asked for.

use ids::{HostSpan, IdKind};

use crate::pods::Pod;
use crate::scan::{HostScan, LeaseFact};
use crate::violation::{Findings, Violation, What};

pub(super) fn check(scan: &HostScan, findings: &mut Findings) {
    // Podman keeps books of its own, which the census reads as claims.
    for pod in scan.pods.iter().filter(|pod| !pod.is_podmans()) {
        if pod.home.is_some() {
            isolated(scan, pod, findings);
        } else if pod.unread.is_none() {
            on_the_host(scan, pod, findings);
        }
    }
    leases(scan, findings);
}

fn isolated(scan: &HostScan, pod: &Pod, findings: &mut Findings) {
    let record = scan.records.kubelet_records.get(pod.uid());
    if let Some(record) = record.filter(|record| !is(**record, pod)) {
        let violation = Violation::new(What::RecordDiffers, record.to_string(), pod.maps.to_string());
        findings.violated(violation.of(pod).at(format!("pods/{}/userns", pod.uid())));
    }
    let lease = named_lease(scan, pod);
    if let Some(lease) = lease.filter(|lease| !lease.is(&pod.maps)) {
        let expected = format!("{}, as the ledger says", lease.uids);
        findings.violated(Violation::new(What::LeaseDiffers, expected, pod.maps.to_string()).of(pod));
    }
    if record.is_some() || lease.is_some() || lease_of_block(scan, pod).is_some() {
        return;
    }
    if scan.records.leases.is_some() || scan.records.kubelet {
        let expected = "a lease in the ledger, or a kubelet's record";
        let found = format!("nothing is written down about {}", pod.maps);
        findings.violated(Violation::new(What::PodWithoutLease, expected, found).of(pod));
    } else {
        findings.note(pod, "there is neither a ledger nor a kubelet here that could know of its block");
    }
}

fn is(record: HostSpan, pod: &Pod) -> bool {
    [IdKind::Uid, IdKind::Gid].into_iter().all(|kind| pod.maps.spans(kind) == [record])
}

fn on_the_host(scan: &HostScan, pod: &Pod, findings: &mut Findings) {
    let reported =
        scan.reported.iter().find(|reported| reported.asked && is_reported(pod, &reported.uid, &reported.id));
    let expected = match (scan.records.kubelet_records.get(pod.uid()), named_lease(scan, pod), reported) {
        (Some(record), ..) => format!("{record}, as the kubelet's record says"),
        (_, Some(lease), _) => format!("{}, as the ledger says", lease.uids),
        (.., Some(_)) => "a user namespace, as the pod asked for".to_owned(),
        (None, None, None) => return,
    };
    let found = "its processes are in the host's user namespace";
    let first = pod.processes.first().and_then(|at| scan.walk.processes.get(*at));
    let violation = Violation::new(What::NotIsolated, expected, found).of(pod);
    findings.violated(match first {
        Some(process) => violation.by(process.pid),
        None => violation,
    });
}

fn is_reported(pod: &Pod, uid: &str, id: &str) -> bool {
    pod.uid() == uid || pod.identity.key() == id
}

fn live(scan: &HostScan) -> impl Iterator<Item = &LeaseFact> {
    scan.records.leases.iter().flatten().filter(|lease| lease.leased)
}

fn named_lease<'a>(scan: &'a HostScan, pod: &Pod) -> Option<&'a LeaseFact> {
    live(scan).find(|lease| lease.holders().iter().any(|holder| pod.holds_as(holder)))
}

/// The lease of the pod's block under any holder name: a client of the ledger may choose its own.
fn lease_of_block<'a>(scan: &'a HostScan, pod: &Pod) -> Option<&'a LeaseFact> {
    let of_another = |lease: &LeaseFact| {
        lease.holders().iter().any(|holder| scan.pods.iter().any(|other| other.holds_as(holder)))
    };
    live(scan).find(|lease| lease.is(&pod.maps) && !of_another(lease))
}

fn leases(scan: &HostScan, findings: &mut Findings) {
    for lease in live(scan) {
        let taken = scan.isolated().any(|pod| lease.is(&pod.maps) && named_lease(scan, pod).is_none());
        for holder in lease.holders() {
            if scan.pods.iter().any(|pod| pod.holds_as(holder)) || (taken && lease.members.is_none()) {
                continue;
            }
            if scan.records.know(holder)
                || scan.reported.iter().any(|reported| reported.ready && reported.is_called(holder))
            {
                // It is about to start, or to go.
                continue;
            }
            let found =
                format!("no process, no pod and no sandbox of {holder}, which has a lease of {}", lease.uids);
            let mut violation = Violation::new(What::LeaseWithoutPod, "a pod for every lease", found);
            violation.pod = Some(holder.to_owned());
            violation.touches.push(holder.to_owned());
            findings.violated(violation);
        }
    }
}

//! What is written down agrees with what is: the ledger's leases, the kubelet's records, what was asked for.

use ids::{HostSpan, IdKind};

use crate::verify::look::{LeaseFact, Look};
use crate::verify::pods::Pod;
use crate::verify::violation::{Findings, Violation, What};

pub(super) fn check(look: &Look, findings: &mut Findings) {
    // Podman keeps books of its own, which the census reads as claims.
    for pod in look.pods.iter().filter(|pod| !pod.is_podmans()) {
        if pod.home.is_some() {
            isolated(look, pod, findings);
        } else {
            on_the_host(look, pod, findings);
        }
    }
    leases(look, findings);
}

fn isolated(look: &Look, pod: &Pod, findings: &mut Findings) {
    let record = look.books.records.get(pod.uid());
    if let Some(record) = record.filter(|record| !is(**record, pod)) {
        let violation = Violation::new(What::RecordDiffers, record.to_string(), pod.maps.to_string());
        findings.violated(violation.of(pod).at(format!("pods/{}/userns", pod.uid())));
    }
    let lease = named_lease(look, pod);
    if let Some(lease) = lease.filter(|lease| !lease.is(&pod.maps)) {
        let expected = format!("{}, as the ledger says", lease.uids);
        findings.violated(Violation::new(What::LeaseDiffers, expected, pod.maps.to_string()).of(pod));
    }
    if record.is_some() || lease.is_some() || lease_of_block(look, pod).is_some() {
        return;
    }
    if look.books.leases.is_some() || look.books.kubelet {
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

fn on_the_host(look: &Look, pod: &Pod, findings: &mut Findings) {
    let told = look.told.iter().find(|told| told.asked && is_told(pod, &told.uid, &told.id));
    let expected = match (look.books.records.get(pod.uid()), named_lease(look, pod), told) {
        (Some(record), ..) => format!("{record}, as the kubelet's record says"),
        (_, Some(lease), _) => format!("{}, as the ledger says", lease.uids),
        (.., Some(_)) => "a user namespace, as the pod asked for".to_owned(),
        (None, None, None) => return,
    };
    let found = "its processes are in the host's user namespace";
    let first = pod.processes.first().and_then(|at| look.walk.processes.get(*at));
    let violation = Violation::new(What::NotIsolated, expected, found).of(pod);
    findings.violated(match first {
        Some(process) => violation.by(process.pid),
        None => violation,
    });
}

fn is_told(pod: &Pod, uid: &str, id: &str) -> bool {
    pod.uid() == uid || pod.identity.key() == id
}

fn live(look: &Look) -> impl Iterator<Item = &LeaseFact> {
    look.books.leases.iter().flatten().filter(|lease| lease.leased)
}

fn named_lease<'a>(look: &'a Look, pod: &Pod) -> Option<&'a LeaseFact> {
    live(look).find(|lease| lease.holders().iter().any(|holder| pod.holds_as(holder)))
}

/// Whoever leases for others may use names of its own.
fn lease_of_block<'a>(look: &'a Look, pod: &Pod) -> Option<&'a LeaseFact> {
    let of_another = |lease: &LeaseFact| {
        lease.holders().iter().any(|holder| look.pods.iter().any(|other| other.holds_as(holder)))
    };
    live(look).find(|lease| lease.is(&pod.maps) && !of_another(lease))
}

fn leases(look: &Look, findings: &mut Findings) {
    for lease in live(look) {
        let taken = look.isolated().any(|pod| lease.is(&pod.maps) && named_lease(look, pod).is_none());
        for holder in lease.holders() {
            if look.pods.iter().any(|pod| pod.holds_as(holder)) || (taken && lease.members.is_none()) {
                continue;
            }
            if look.books.know(holder) || look.told.iter().any(|told| told.ready && told.is_called(holder)) {
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

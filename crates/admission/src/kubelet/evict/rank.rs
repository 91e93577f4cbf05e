//! The order in which pods are ended.

use std::cmp::Reverse;

use super::super::priority;
use super::super::requests::{EPHEMERAL_STORAGE, MEMORY};
use super::{Candidate, DiskParts, PodUse, Starved};

/// The places of the pods in the order in which they are ended. Pods of which it is not known what they use come first. Then
/// those that use more than they request, those with a lower priority, and those that use more beyond their requests. For
/// process IDs, which pods cannot request, priority is what counts first. `parts` is what counts for a disk.
///
/// A pod with a container whose writable layer or logs are not known uses what is known of it at least. If that is not more than
/// it requests, it comes after the pods that use more, and before those that do not.
#[must_use]
pub fn rank(pods: &[Candidate<'_>], starved: Starved, parts: DiskParts) -> Vec<usize> {
    let mut order: Vec<usize> = (0..pods.len()).collect();
    order.sort_by_cached_key(|index| pods.get(*index).map(|pod| key(pod, starved, parts)));
    order
}

/// The least comes first.
type Key = (u8, i64, u8, Reverse<i128>);

fn key(pod: &Candidate<'_>, starved: Starved, parts: DiskParts) -> Key {
    let priority = i64::from(priority(pod.pod).unwrap_or(0));
    let Some(used) = pod.used else {
        return match starved {
            // Priority comes before what is known.
            Starved::Pids => (1, priority, 0, Reverse(0)),
            _ => (0, priority, 0, Reverse(0)),
        };
    };
    let beyond = beyond_request(pod, used, starved, parts);
    match starved {
        Starved::Pids => (1, priority, 1, Reverse(beyond)),
        _ if beyond > 0 => (1, priority, 0, Reverse(beyond)),
        Starved::EphemeralStorage | Starved::Inodes if !used.knows(parts) => {
            (2, priority, 0, Reverse(beyond))
        }
        _ => (3, priority, 0, Reverse(beyond)),
    }
}

/// How much more than it requests a pod uses.
fn beyond_request(pod: &Candidate<'_>, used: &PodUse, starved: Starved, parts: DiskParts) -> i128 {
    match starved {
        Starved::Memory => i128::from(used.memory) - pod.request(MEMORY),
        Starved::EphemeralStorage => i128::from(used.disk(parts).bytes) - pod.request(EPHEMERAL_STORAGE),
        Starved::Inodes => i128::from(used.disk(parts).inodes),
        Starved::Pids => i128::from(used.processes),
    }
}

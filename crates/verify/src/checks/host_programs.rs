//! Files of the host that an isolated pod can write to, and that the host runs with the rights of their owners: a note
//! for each, since upstream allows it and the node's policy decides.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use kernel::{MountEntry, MountTable, NamespaceKind};
use node::setuid::{Files, places};

use crate::pods::Pod;
use crate::scan::HostScan;
use crate::violation::Findings;
use crate::walk::text;

/// Where a process of the host sees the host's mounts.
const HOSTS: u32 = 1;

pub(super) fn check(scan: &HostScan, findings: &mut Findings) {
    let Some(host) = table(scan, HOSTS) else { return };
    for pod in scan.isolated() {
        for place in left_by(scan, pod, &host) {
            findings.note(
                pod,
                format!(
                    "the pod can write to {place}, which is not nosuid on the host: set-user-ID and set-group-ID programs \
                     and file capabilities that it leaves there count on the host"
                ),
            );
        }
    }
}

/// Where the host runs what a pod can write.
fn left_by(scan: &HostScan, pod: &Pod, host: &MountTable) -> BTreeSet<String> {
    let mut seen = BTreeSet::new();
    let mut found = BTreeSet::new();
    for process in pod.at_home(&scan.walk) {
        let Some(mounts) = process.space(NamespaceKind::Mnt) else { continue };
        if !seen.insert(mounts) {
            continue;
        }
        let table = table(scan, process.pid);
        let writable = |mount: &&MountEntry| mount.idmapped() && !mount.read_only();
        for mount in table.iter().flat_map(MountTable::iter).filter(writable) {
            let files = Files { device: mount.device, root: &mount.root };
            let places = places(host, files).into_iter().filter(|place| others_can_reach(scan, place));
            found.extend(places.map(|place| place.display().to_string()));
        }
    }
    found
}

fn table(scan: &HostScan, pid: u32) -> Option<MountTable> {
    MountTable::parse(&text(&scan.proc_dir(pid).join("mountinfo")).ok()?).ok()
}

/// Whether any user of the host passes all directories above it. The node's own directories, of volumes that end with
/// their pods, let none pass.
fn others_can_reach(scan: &HostScan, place: &Path) -> bool {
    const PASS: u32 = 0o001;
    place.ancestors().skip(1).all(|above| {
        let mode = std::fs::metadata(scan.root.path(above)).map(|found| found.permissions().mode());
        mode.is_ok_and(|mode| mode & PASS != 0)
    })
}

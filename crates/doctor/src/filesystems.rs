//! Whether files can be shown under other owners: each filesystem in use, and the ways that pods need.

use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use kernel::MountEntry;
use kernel::probe;
use node::mounts::{Mounts, is_seen, nearest_existing};

use crate::check::{Check, Fault};
use crate::trial::{self, FILES};

/// The places whose filesystems pods depend on.
pub(crate) struct Places {
    pub(crate) state_dir: PathBuf,
    pub(crate) kubelet_dir: PathBuf,
    /// Where the runtime keeps layers and writable files.
    pub(crate) runtime_root: Option<PathBuf>,
}

pub(crate) fn checks(places: &Places) -> Vec<Check> {
    let mut checks = vec![state_dir(&places.state_dir)];
    if places.kubelet_dir.is_dir() {
        checks.push(kubelet_dir(&places.kubelet_dir));
    }
    checks.extend(places.runtime_root.as_deref().filter(|root| root.is_dir()).map(runtime_root));
    checks.extend(others(&Mounts::read()));
    checks.extend(ways(&places.state_dir));
    checks
}

fn state_dir(dir: &Path) -> Check {
    let need = format!("the state directory {} can be idmapped", dir.display());
    idmap(&need, dir, "choose one on ext4, xfs or btrfs: wardlet --state-dir DIR")
}

fn kubelet_dir(dir: &Path) -> Check {
    let need = format!("the kubelet's directory {} can be idmapped", dir.display());
    idmap(&need, dir, "choose one on ext4, xfs or btrfs: kubelet --root-dir DIR")
}

fn runtime_root(dir: &Path) -> Check {
    let need = format!("containerd's directory {} can be idmapped", dir.display());
    let fix = "set root = \"DIR\" in /etc/containerd/config.toml with DIR on ext4, xfs or btrfs, then: systemctl \
               restart containerd";
    idmap(&need, dir, fix)
}

/// The filesystem under a place, whether or not the place is there yet.
fn idmap(need: &str, place: &Path, fix: &str) -> Check {
    let Some(existing) = nearest_existing(place) else {
        return FILES.open(need, Fault::new(format!("{} cannot be reached", place.display()), fix));
    };
    let check = trial::check(FILES, need, probe::idmap(&existing), |name| format!("yes, on {name}"));
    if check.holds { check } else { Check { fix: Some(fix.to_owned()), ..check } }
}

/// Volumes may lie anywhere; a pod whose volume cannot be idmapped is refused unless the policy says otherwise.
fn others(mounts: &Mounts) -> Vec<Check> {
    let of = |(name, mounts): (&str, Vec<&MountEntry>)| other(name, mounts.into_iter().cloned().collect());
    mounts.kept_on().into_iter().filter_map(of).collect()
}

/// How long a filesystem may take: one whose server is gone takes for ever.
const PATIENCE: Duration = Duration::from_secs(5);

/// `None` if no mount of it can be seen.
fn other(name: &str, mounts: Vec<MountEntry>) -> Option<Check> {
    let need = format!("volumes on {name} can be idmapped");
    let first = mounts.first()?.point.clone();
    let (tell, told) = mpsc::channel();
    // Left behind where it waits; it ends with this process.
    std::thread::spawn(move || {
        let seen: Vec<PathBuf> = mounts.into_iter().filter(is_seen).map(|mount| mount.point).collect();
        let tried = seen.first().map(|place| probe::idmap(place));
        let _ = tell.send((seen, tried));
    });
    let Ok((seen, tried)) = told.recv_timeout(PATIENCE) else {
        let cause = format!("{} did not respond within {} s", first.display(), PATIENCE.as_secs());
        let fix = format!("check its server, or: umount -l {}", first.display());
        return Some(FILES.open(need, Fault::new(cause, fix)).useful());
    };
    let more = if seen.len() > 1 { format!(" and {} more places", seen.len() - 1) } else { String::new() };
    let found = format!("yes, tried at {}{more}", seen.first()?.display());
    let check = trial::check(FILES, &need, tried?, |_| found);
    let fix = format!(
        "to run pods with volumes there, add to policy.volumes.rules in /etc/wardlet/config.yaml: {{filesystems: \
         [{name}], rule: sharedBlock}} (or chownOnce)"
    );
    Some(if check.holds { check } else { Check { fix: Some(fix), ..check } }.useful())
}

/// What pods are made with, beyond the filesystem itself.
fn ways(state_dir: &Path) -> Vec<Check> {
    let Some(scratch) = nearest_existing(state_dir) else { return Vec::new() };
    let overlay = trial::check(
        FILES,
        "image layers on the state directory's filesystem can be idmapped under an overlay",
        probe::overlay_idmap(&scratch),
        |given| format!("yes, layers given {given}"),
    );
    let yes = |()| "yes".to_owned();
    let tmpfs = trial::check(FILES, "volumes in memory can be idmapped", probe::tmpfs_idmap(), yes).useful();
    let need = "an idmapped mount can be idmapped again (open_tree_attr)";
    let again = trial::check(FILES, need, probe::open_tree_attr(&scratch), yes).useful();
    let again = if again.holds { again } else { Check { fix: Some(AGAIN.to_owned()), ..again } };
    let need = "a mount can be made read-only with all below it";
    let read_only = trial::check(FILES, need, probe::recursive_read_only(&scratch), yes).useful();
    vec![overlay, tmpfs, again, read_only]
}

const AGAIN: &str =
    "boot Linux 6.15 or newer; until then a volume that is idmapped on the host itself is refused";

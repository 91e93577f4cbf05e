//! What the kernel can do, by trying it; nothing that is tried outlives the trial.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use census::HostRoot;
use kernel::probe::{self, Answer};
use plan::{FilesystemFacts, KernelFacts, SetuidFacts, Support, VolumeKind};

use super::Assumptions;
use crate::mounts::{Mounts, is_root, nearest_existing};

const MAX_USER_NAMESPACES: &str = "/proc/sys/user/max_user_namespaces";

/// What the trials are about.
pub(super) struct Subject<'a> {
    pub(super) host_root: &'a HostRoot,
    /// Where the node makes the pods' own volumes.
    pub(super) state_dir: &'a Path,
    /// Paths of the host that pods name.
    pub(super) host_paths: BTreeSet<&'a str>,
}

pub(super) type Tried = (KernelFacts, FilesystemFacts);

/// Tries what is asked about; what cannot be tried from here is taken to work, with a note.
pub(super) fn tried(subject: &Subject<'_>, notes: &mut Assumptions) -> Tried {
    let cause = if !subject.host_root.is_own() {
        "--host-root is not /"
    } else if !is_root() {
        "that takes root"
    } else {
        return on_own_kernel(subject, notes);
    };
    notes.of_isolation(format!(
        "the kernel was not tried, for {cause}: it is taken to support user namespaces, and whether volumes can be idmapped is open"
    ));
    let kernel = KernelFacts {
        user_namespaces: Support::Yes,
        max_user_namespaces: max_user_namespaces(subject.host_root).unwrap_or(u32::MAX.into()),
        idmapped_mounts: Support::Yes,
    };
    // Paths of another host root are not ours to look at.
    let mounts = if subject.host_root.is_own() { Mounts::read() } else { Mounts::default() };
    (kernel, FilesystemFacts { setuid: setuid(subject, &mounts), ..FilesystemFacts::default() })
}

/// Whether set-user-ID bits count at the paths that pods name: by the mount table, which any user can read.
fn setuid(subject: &Subject<'_>, mounts: &Mounts) -> BTreeMap<String, SetuidFacts> {
    let of = |path: &&str| {
        let place = nearest_existing(Path::new(path))?;
        Some(((*path).to_owned(), crate::setuid::facts(mounts.table()?, &place)))
    };
    subject.host_paths.iter().filter_map(of).collect()
}

fn max_user_namespaces(host_root: &HostRoot) -> Option<u64> {
    std::fs::read_to_string(host_root.path(MAX_USER_NAMESPACES)).ok()?.trim().parse().ok()
}

fn on_own_kernel(subject: &Subject<'_>, notes: &mut Assumptions) -> Tried {
    let max_user_namespaces = max_user_namespaces(subject.host_root).unwrap_or_else(|| {
        notes.of_isolation(format!("{MAX_USER_NAMESPACES} cannot be read: no limit is assumed"));
        u32::MAX.into()
    });
    let (mut filesystems, places) = filesystems(subject);
    let user_namespaces = support(probe::user_namespaces());
    let mut idmapped_mounts = Support::Yes;
    if user_namespaces == Support::Yes {
        let tried = |(name, place): (&String, &PathBuf)| (name.clone(), support(probe::idmap(place)));
        filesystems.idmap = places.iter().map(tried).collect();
        idmapped_mounts = any(&filesystems.idmap);
    }
    (KernelFacts { user_namespaces, max_user_namespaces, idmapped_mounts }, filesystems)
}

fn support<T>(answer: Answer<T>) -> Support {
    match answer {
        Answer::Works(_) => Support::Yes,
        Answer::Refused(refusal) => Support::No(refusal.error.to_string()),
    }
}

/// Whether any filesystem at all could be idmapped; where none was there to try, nothing speaks against.
fn any(tried: &BTreeMap<String, Support>) -> Support {
    let works = tried.values().any(|support| *support == Support::Yes);
    match tried.values().next() {
        Some(failed) if !works => failed.clone(),
        _ => Support::Yes,
    }
}

/// Which filesystems lie under what is asked about, and a place to try each.
fn filesystems(subject: &Subject<'_>) -> (FilesystemFacts, BTreeMap<String, PathBuf>) {
    const TMPFS: &str = "tmpfs";
    let mounts = Mounts::read();
    let mut facts = FilesystemFacts { setuid: setuid(subject, &mounts), ..FilesystemFacts::default() };
    let mut places = BTreeMap::new();
    let mut under = |path: &Path| {
        let place = nearest_existing(path)?;
        let filesystem = mounts.filesystem_under(&place)?.to_owned();
        places.entry(filesystem.clone()).or_insert(place);
        Some(filesystem)
    };
    if let Some(filesystem) = under(subject.state_dir) {
        facts.kinds.insert(VolumeKind("emptyDir".to_owned()), filesystem);
    }
    for path in &subject.host_paths {
        if let Some(filesystem) = under(Path::new(path)) {
            facts.paths.insert((*path).to_owned(), filesystem);
        }
    }
    if let Some(place) = mounts.place_of(TMPFS) {
        places.entry(TMPFS.to_owned()).or_insert_with(|| place.to_owned());
    }
    (facts, places)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_filesystem_that_works_proves_the_kernel() {
        let no = || Support::No("EINVAL".to_owned());
        let of =
            |list: &[(&str, Support)]| any(&list.iter().map(|(n, s)| ((*n).into(), s.clone())).collect());
        assert_eq!(of(&[("nfs", no()), ("xfs", Support::Yes)]), Support::Yes);
        assert_eq!(of(&[("nfs", no())]), no());
        assert_eq!(of(&[]), Support::Yes);
    }
}

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{Gid, Mode, OFlags, Uid, chownat, openat};
use rustix::io::Errno;

use super::{Answer, NOBODY, trial_maps, unlike};
use crate::{
    Access, Charge, DetachedMount, Dir, DirMode, Error, LastLink, LayersGiven, MountPoints, Overlay,
    PrivateMountNamespace, Result, Submounts, UsernsFd, Within, in_private_mount_namespace,
};

const OWN: DirMode = DirMode { mode: 0o700, owner: None };
/// Names of trials have the PID of their process after this, and a number.
const PREFIX: &str = ".probe-";

/// Whether an overlay can be made of idmapped layers that lie on the filesystem of `scratch`, and in
/// which way; what is made there is removed again. It is tried in a mount namespace of its own.
#[must_use]
pub fn overlay_idmap(scratch: &Path) -> Answer<LayersGiven> {
    in_private_mount_namespace(|namespace| in_a_directory_of_its_own(scratch, namespace))
        .and_then(|outcome| outcome)
        .into()
}

fn in_a_directory_of_its_own(scratch: &Path, namespace: &PrivateMountNamespace) -> Result<LayersGiven> {
    let parent = Dir::open(scratch)?;
    remove_leftovers(&parent)?;
    let (name, trial) = make(&parent)?;
    let outcome = try_in(&trial, &scratch.join(&name), namespace);
    // The mount namespace has the trial's mounts until it ends; they are in the way before.
    let lifted = crate::unmount(&scratch.join(&name).join("merged"), crate::Unmount::Lazy);
    let removed = parent.remove_tree(&name);
    let given = outcome?;
    lifted?;
    removed?;
    Ok(given)
}

/// Removes the trials of processes that were killed, or lost their power.
fn remove_leftovers(parent: &Dir) -> Result<()> {
    let leftovers = parent.entries()?.into_iter().filter(|entry| {
        let process = process_of(&entry.name);
        process.is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists())
    });
    for leftover in leftovers {
        parent.remove_tree(&leftover.name)?;
    }
    Ok(())
}

fn process_of(name: &OsStr) -> Option<u32> {
    let (pid, _) = name.to_str()?.strip_prefix(PREFIX)?.split_once('-')?;
    pid.parse().ok()
}

/// Makes a directory with a name that is free: a process of an earlier boot may have had the PID of this one.
fn make(parent: &Dir) -> Result<(OsString, Dir)> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    loop {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = OsString::from(format!("{PREFIX}{}-{number}", std::process::id()));
        match parent.make_dir(&name, OWN) {
            Ok(trial) => return Ok((name, trial)),
            Err(Error::MakeDir { errno: Errno::EXIST, .. }) => {}
            Err(error) => return Err(error),
        }
    }
}

fn try_in(trial: &Dir, path: &Path, namespace: &PrivateMountNamespace) -> Result<LayersGiven> {
    for name in ["lower", "upper", "work", "merged"] {
        trial.make_dir(name.as_ref(), OWN)?;
    }
    let lower = trial.open_below(Path::new("lower"), Within::NoLinks)?;
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    let own = |errno| Error::Open { path: path.join("lower/file"), errno };
    openat(&lower, "file", flags, Mode::RUSR).map_err(own)?;
    chownat(&lower, "file", Some(Uid::ROOT), Some(Gid::ROOT), rustix::fs::AtFlags::SYMLINK_NOFOLLOW)
        .map_err(own)?;

    let userns = UsernsFd::charged(&trial_maps()?, Charge::Caller)?;
    let layer = DetachedMount::idmapped(&path.join("lower"), &userns, Access::ReadOnly, Submounts::Without)?;
    let (upper, work, merged) = (path.join("upper"), path.join("work"), path.join("merged"));
    let overlay = Overlay { lowers: vec![layer], upper: &upper, work: &work, label: None, options: &[] };
    let (made, given) = overlay.make(MountPoints::new(&merged, namespace))?;
    made.attach(&merged)?;
    let seen = Dir::open(&merged)?.node(Path::new("file"), Within::NoLinks, LastLink::Keep)?.stat()?.owner();
    if seen.uid == NOBODY {
        Ok(given)
    } else {
        Err(unlike("see translated owners", &format!("owner {seen}")))
    }
}

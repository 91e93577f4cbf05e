use std::ffi::OsString;
use std::path::Path;

use rustix::fs::{Gid, Mode, OFlags, Uid, chownat, openat};

use super::{Answer, NOBODY, trial_maps, unlike};
use crate::{
    Access, Charge, DetachedMount, Dir, DirMode, LastLink, LayersGiven, MountPoints, Overlay,
    PrivateMountNamespace, Result, Submounts, UsernsFd, Within, in_private_mount_namespace,
};

const OWN: DirMode = DirMode { mode: 0o700, owner: None };

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
    let name = OsString::from(format!(".probe-{}-{:?}", std::process::id(), std::thread::current().id()));
    let trial = parent.make_dir(&name, OWN)?;
    let outcome = try_in(&trial, &scratch.join(&name), namespace);
    // The mount namespace has the trial's mounts until it ends; they are in the way before.
    let lifted = crate::unmount(&scratch.join(&name).join("merged"), crate::Unmount::Lazy);
    let removed = parent.remove_tree(&name);
    let given = outcome?;
    lifted?;
    removed?;
    Ok(given)
}

fn try_in(trial: &Dir, path: &Path, namespace: &PrivateMountNamespace) -> Result<LayersGiven> {
    for name in ["lower", "upper", "work", "merged"] {
        trial.make_dir(name.as_ref(), OWN)?;
    }
    let lower = trial.open_below(Path::new("lower"), Within::NoLinks)?;
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    let own = |errno| crate::Error::Open { path: path.join("lower/file"), errno };
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

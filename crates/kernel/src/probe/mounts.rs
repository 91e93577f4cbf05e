use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::{Answer, NOBODY, Unsupported, trial_maps, unlike};
use crate::{
    Access, Attributes, Charge, DetachedMount, Dir, DirMode, Error, Filesystem, FilesystemKind, MountTable,
    Node, Owner, Result, Source, Submounts, UsernsFd, in_private_mount_namespace,
};

fn trial_userns() -> Result<UsernsFd> {
    UsernsFd::charged(&trial_maps()?, Charge::Caller)
}

pub(super) fn small_tmpfs() -> Filesystem {
    let size = Some(1 << 20);
    Filesystem::new(FilesystemKind::Tmpfs { size, inodes: None, mode: 0o700, owner: Owner::ROOT })
}

/// Whether the filesystem that `path` is on can be idmapped; which that is. Nothing is attached.
#[must_use]
pub fn idmap(path: &Path) -> Answer<String> {
    let name = filesystem_of(path);
    let tried = trial_userns().and_then(|userns| {
        DetachedMount::idmapped(path, &userns, Access::ReadOnly, Submounts::Without).map(drop)
    });
    match (tried, name) {
        (Ok(()), name) => name.into(),
        (Err(error), Ok(name)) => Answer::Refused(named(error, path, &name)),
        (Err(error), Err(_)) => Answer::Refused(error.into()),
    }
}

/// The same for the mount at `path` and for each one below: a clone with all of them can be idmapped
/// only if every one can.
pub fn idmap_tree(path: &Path) -> Result<Vec<(PathBuf, Answer<String>)>> {
    let table = MountTable::read()?;
    let points = table.below(path).map(|mount| mount.point.clone());
    let all = std::iter::once(path.to_owned()).chain(points);
    Ok(all.map(|point| (point.clone(), idmap(&point))).collect())
}

fn filesystem_of(path: &Path) -> Result<String> {
    let id = Node::open(path)?.mount_id()?;
    let table = MountTable::read()?;
    let mount = table.by_id(id).ok_or_else(|| Error::NotMounted { path: path.to_owned() })?;
    Ok(mount.filesystem.clone())
}

fn named(error: Error, path: &Path, name: &str) -> Unsupported {
    let plain = Unsupported::from(error);
    match &plain.error {
        Error::Idmap { errno: Errno::INVAL, .. } => Unsupported {
            cause: format!("{name}, which {} is on, cannot be idmapped by this kernel", path.display()),
            ..plain
        },
        _ => plain,
    }
}

/// Whether a tmpfs can be idmapped (Linux 6.3).
#[must_use]
pub fn tmpfs_idmap() -> Answer<()> {
    let tried = || -> Result<()> {
        let mut tmpfs = small_tmpfs().make()?;
        let userns = trial_userns()?;
        tmpfs.set(&Attributes { idmap: Some(&userns), ..Attributes::default() })?;
        shows_owner(&tmpfs, NOBODY)
    };
    match tried() {
        Err(error @ Error::Idmap { errno: Errno::INVAL, .. }) => Answer::Refused(Unsupported {
            error,
            cause: "this kernel cannot idmap a tmpfs".to_owned(),
            fix: Some(
                "that takes Linux 6.3; until then such volumes are owned by the block's IDs".to_owned(),
            ),
        }),
        outcome => outcome.into(),
    }
}

/// Whether an idmapped mount can be given another map (Linux 6.15).
#[must_use]
pub fn open_tree_attr(path: &Path) -> Answer<()> {
    let tried = || -> Result<()> {
        let userns = trial_userns()?;
        let mut clone = DetachedMount::clone_of(Source::Path(path), Submounts::Without)?;
        for _ in 0..2 {
            clone.set(&Attributes { idmap: Some(&userns), ..Attributes::default() })?;
        }
        Ok(())
    };
    tried().into()
}

fn shows_owner(mount: &DetachedMount, uid: u32) -> Result<()> {
    let found = mount.root()?.stat()?.owner();
    if found.uid == uid { Ok(()) } else { Err(unlike("see translated owners", &format!("owner {found}"))) }
}

/// Whether a mount with all below it can be made read-only at once (Linux 5.12). `scratch` is a directory
/// that is covered for the moment, in a mount namespace of its own.
#[must_use]
pub fn recursive_read_only(scratch: &Path) -> Answer<()> {
    in_private_mount_namespace(|_| -> Result<()> {
        small_tmpfs().make()?.attach(scratch)?;
        let dir = Dir::open(scratch)?;
        dir.make_dir("below".as_ref(), DirMode { mode: 0o700, owner: None })?;
        small_tmpfs().make()?.attach(&scratch.join("below"))?;
        let mut clone = DetachedMount::clone_of(Source::Path(scratch), Submounts::Included)?;
        let submounts = Submounts::Included;
        clone.set(&Attributes { access: Access::ReadOnly, submounts, ..Attributes::default() })?;
        clone.attach(scratch)?;
        ["file", "below/file"].into_iter().try_for_each(|file| is_read_only(&scratch.join(file)))
    })
    .and_then(|outcome| outcome)
    .into()
}

fn is_read_only(path: &Path) -> Result<()> {
    match rustix::fs::open(path, OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC, Mode::RUSR) {
        Err(Errno::ROFS) => Ok(()),
        Err(errno) => Err(unlike("be refused to write", &errno)),
        Ok(_) => Err(unlike("be refused to write", &format!("{} was written", path.display()))),
    }
}

/// Whether a mount can have this SELinux label for all its files, and shows it. `scratch` is as above.
#[must_use]
pub fn context_mounts(scratch: &Path, label: &str) -> Answer<()> {
    in_private_mount_namespace(|_| {
        let tmpfs = Filesystem { context: Some(label.to_owned()), ..small_tmpfs() };
        tmpfs.make()?.attach(scratch)
    })
    .and_then(|outcome| outcome)
    .into()
}

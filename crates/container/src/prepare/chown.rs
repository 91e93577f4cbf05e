//! The files of an image, chowned to the users of a container, for kernels and filesystems that cannot idmap them.
//!
//! Each file is chowned through an overlay that copies up metadata only. The new owner is computed from the image,
//! never from what is found: so it makes no difference how far an earlier process came that was killed.

use std::fs::{self, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown};
use std::path::{Path, PathBuf};
use std::time::Instant;

use kernel::{Kernel, Owner};
use rustix::fs::{XattrFlags, lsetxattr};
use serde::{Deserialize, Serialize};

use super::attribute::{self, NAMING_IDS};
use super::overlay::Plain;
use super::owner::NewOwner;
use super::{Stage, image};
use crate::container_spec::ContainerSpec;
use crate::error::{Error, Result};
use ids::IdMappings;

const VERSION: u32 = 1;

/// The cost of the `chown` of an image's files. It is recorded beside the container's upper directory when the `chown` is
/// complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ChownCost {
    version: u32,
    /// The number of files and directories.
    pub files: u64,
    /// The time that it took, without earlier attempts that were interrupted.
    pub millis: u64,
}

impl durable::Record for ChownCost {
    const VERSION: u32 = VERSION;
}

/// The number of files and directories that a `chown` would change, at most: files that an upper layer hides are counted,
/// too. It changes nothing and needs no mount.
pub fn chown_estimate(start: &ContainerSpec) -> Result<u64> {
    let mut found = 0;
    let mut left: Vec<PathBuf> = start.rootfs.lowers.clone();
    while let Some(dir) = left.pop() {
        for entry in entries(&dir)? {
            found += 1;
            if look(&entry)?.is_dir() {
                left.push(entry);
            }
        }
    }
    Ok(found)
}

/// The recorded cost of this container's `chown`; `None` if it is not complete.
pub fn chown_cost(start: &ContainerSpec) -> Result<Option<ChownCost>> {
    read(&record(start))
}

/// The container's `/` at `point`, in which every file is its users'.
pub(super) fn mount(
    kernel: &dyn Kernel,
    start: &ContainerSpec,
    ids: &IdMappings,
    at: At<'_>,
) -> Result<ChownCost> {
    let lowers = &start.rootfs.lowers;
    Plain { lowers, changes: Some(&start.rootfs), label: start.rootfs.label.as_deref() }
        .mount_at(at.point)?;
    if let Some(cost) = chown_cost(start)? {
        return Ok(cost);
    }
    let since = Instant::now();
    let image = image::attach(kernel, start, at.stage)?;
    let files = give(Trees { image: &image, merged: at.point }, NewOwner::Mapped(ids))?;
    let millis = u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX);
    let cost = ChownCost { version: VERSION, files, millis };
    durable::write_record(&record(start), &cost)?;
    Ok(cost)
}

/// Where the container's `/` is made.
#[derive(Clone, Copy)]
pub(super) struct At<'a> {
    pub(super) point: &'a Path,
    pub(super) stage: Stage<'a>,
}

/// The same files, as they are in the image and as the container will see them.
#[derive(Clone, Copy)]
struct Trees<'a> {
    image: &'a Path,
    merged: &'a Path,
}

/// No other process changes either tree: the image never changes, and the container has not started.
fn give(trees: Trees<'_>, owner: NewOwner<'_>) -> Result<u64> {
    let mut files = 0;
    let mut left = vec![PathBuf::new()];
    while let Some(dir) = left.pop() {
        for entry in entries(&trees.image.join(&dir))? {
            let Some(name) = entry.file_name() else { continue };
            let rel = dir.join(name);
            let metadata = look(&entry)?;
            if metadata.is_dir() {
                left.push(rel.clone());
            }
            give_one(trees, &rel, &metadata, owner)?;
            files += 1;
        }
    }
    Ok(files)
}

/// A change of owner takes away what a program may do beyond its user, which is given back.
fn give_one(trees: Trees<'_>, rel: &Path, wanted: &Metadata, owner: NewOwner<'_>) -> Result<()> {
    let (from, to) = (trees.image.join(rel), trees.merged.join(rel));
    let failed = |what: &'static str| {
        let path = to.clone();
        move |cause| Error::File { what, path, cause }
    };
    let new = owner.of(Owner { uid: wanted.uid(), gid: wanted.gid() }, rel)?;
    let present = look(&to)?;
    if (present.uid(), present.gid()) != (new.uid, new.gid) {
        lchown(&to, Some(new.uid), Some(new.gid)).map_err(failed("change the owner of"))?;
    }
    if wanted.is_symlink() {
        return Ok(());
    }
    let mode = wanted.permissions().mode() & 0o7777;
    if look(&to)?.permissions().mode() & 0o7777 != mode {
        fs::set_permissions(&to, Permissions::from_mode(mode)).map_err(failed("set the mode of"))?;
    }
    for name in NAMING_IDS {
        let Some(raw) = attribute::read(&from, name)? else { continue };
        let new = owner.attribute(name, raw, rel)?;
        if attribute::read(&to, name)?.as_ref() != Some(&new) {
            lsetxattr(&to, name, &new, XattrFlags::empty())
                .map_err(|errno| failed("set the attributes of")(errno.into()))?;
        }
    }
    Ok(())
}

fn look(path: &Path) -> Result<Metadata> {
    fs::symlink_metadata(path).map_err(|cause| Error::File { what: "look at", path: path.to_owned(), cause })
}

fn entries(dir: &Path) -> Result<Vec<PathBuf>> {
    let failed = |cause| Error::File { what: "read", path: dir.to_owned(), cause };
    let paths = |entry: io::Result<fs::DirEntry>| entry.map(|entry| entry.path());
    fs::read_dir(dir).map_err(failed)?.map(paths).collect::<io::Result<_>>().map_err(failed)
}

fn record(start: &ContainerSpec) -> PathBuf {
    start.rootfs.upper.with_file_name("owners.json")
}

/// A record that is damaged or of another version says nothing: all files are looked at again.
fn read(path: &Path) -> Result<Option<ChownCost>> {
    match durable::read_record(path) {
        Err(durable::Error::Io { cause, .. }) => {
            Err(Error::File { what: "read", path: path.to_owned(), cause })
        }
        found => Ok(found.unwrap_or_default()),
    }
}

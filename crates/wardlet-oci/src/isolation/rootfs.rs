//! Mounts the root filesystem again, with the pod's ID mappings.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use container::prepare::{Layers, Parts};
use ids::IdMappings;
use kernel::{
    Attributes, Flags, Kernel, MountEntry, MountTable, Node, Propagation, Source, Submounts, Target,
};
use serde_json::{Map, Value, json};

use super::adopt::adopt;
use super::layers::{self, Named};
use super::{Error, Order, Result, json, points};

/// The first host ID that a pod can have; the IDs below are the host's own.
const FIRST_OF_PODS: u32 = 65_536;

/// A container's root filesystem, as the caller mounted it.
#[derive(Debug, Clone)]
pub struct Rootfs {
    at: PathBuf,
    overlay: Option<MountEntry>,
}

impl Rootfs {
    /// Finds the root filesystem that a configuration names. It is an error if it does not exist, if it is a directory
    /// of an overlay, or if a symlink in it could lead the runtime's mounts out of it.
    pub fn find(bundle: &Path, spec: &Value) -> Result<Self> {
        let at = bundle.join(json::text(spec.get("root").unwrap_or(&Value::Null), "path")?);
        let overlay = overlay_at(&at)?;
        points::check(&at, spec)?;
        Ok(Self { overlay, at })
    }

    /// The upper directory, if it is an overlay: its files will belong to the pod's IDs.
    #[must_use]
    pub fn changes(&self) -> Option<PathBuf> {
        let named = layers::named(self.overlay.as_ref()?).ok()?;
        named.upper.filter(|upper| upper.is_absolute())
    }
}

/// Mounts the root filesystem in the staging directory, which the container's root user can traverse, and writes its
/// path into the configuration.
pub(super) fn put(
    order: &Order,
    kernel: &dyn Kernel,
    parts: &Parts<'_>,
    spec: &mut Map<String, Value>,
) -> Result<()> {
    let Rootfs { at, overlay: found } = &order.rootfs;
    let made = match found {
        Some(mount) => overlay(order, parts, at, mount)?,
        None => plain(order, kernel, parts, at)?,
    };
    json::object(spec, "root")?.insert("path".to_owned(), json!(made));
    Ok(())
}

/// The overlay that is mounted at `at`, if there is one.
fn overlay_at(at: &Path) -> Result<Option<MountEntry>> {
    let node = Node::open(at)?;
    let stat = node.stat()?;
    let found = MountTable::read_one(stat.mount_id)?;
    let Some(mount) = found.filter(|mount| mount.filesystem == "overlay") else { return Ok(None) };
    if stat.is_mount_root && mount.root == Path::new("/") {
        return Ok(Some(mount));
    }
    Err(failed(at, "it is a directory of an overlay, which cannot be idmapped"))
}

/// Mounts a second overlay of the same layers, each idmapped for the pod. The caller's overlay stays mounted until the
/// caller unmounts it; no process may write through it until then, and none does.
fn overlay(order: &Order, parts: &Parts<'_>, at: &Path, mount: &MountEntry) -> Result<PathBuf> {
    let named = layers::named(mount).map_err(|why| failed(at, why))?;
    let lowers = resolve(at, &named)?;
    let (Some(upper), Some(work)) = (&named.upper, &named.work) else {
        return Err(failed(at, "the overlay has no upperdir or no workdir"));
    };
    if lowers.is_empty() || upper.is_relative() || work.is_relative() {
        return Err(failed(at, "the overlay has no lowerdir, or its upperdir or workdir is relative"));
    }
    if is_fresh(at, upper, &order.ids)? {
        adopt(upper, &order.ids)?;
    }
    let work = &if named.is_volatile { own_work(work)? } else { work.clone() };
    Ok(parts.overlay(Layers { lowers: &lowers, upper, work, label: None, options: &named.options })?)
}

/// A workdir beside that of the caller, which removes both with the upper directory.
fn own_work(work: &Path) -> Result<PathBuf> {
    let own = work.with_file_name("wardlet-work");
    match fs::DirBuilder::new().mode(0o700).create(&own) {
        Err(cause) if cause.kind() != io::ErrorKind::AlreadyExists => {
            Err(Error::File { what: "create", path: own, cause })
        }
        _ => Ok(own),
    }
}

/// Whether no container has used the upper directory yet. It is an error if it belongs to another block: the owners of
/// its files would not be in this pod's ID mappings.
fn is_fresh(at: &Path, upper: &Path, ids: &IdMappings) -> Result<bool> {
    let found = fs::metadata(upper).map_err(|cause| Error::File {
        what: "read the owner of",
        path: upper.to_owned(),
        cause,
    })?;
    let (user, group) = (found.uid(), found.gid());
    let ours = (ids.host_user(0), ids.host_group(0)) == (Some(user), Some(group));
    if ours || (user < FIRST_OF_PODS && group < FIRST_OF_PODS) {
        return Ok(!ours);
    }
    let upper = upper.display();
    Err(failed(at, format!("{upper} belongs to {user}:{group}: it was used with another block of IDs")))
}

/// The absolute paths of the lower directories. Those of relative names are guessed, and the guess is verified.
fn resolve(at: &Path, named: &Named) -> Result<Vec<PathBuf>> {
    if !named.is_relative() {
        return Ok(named.lowers.clone());
    }
    let base =
        named.base().ok_or_else(|| failed(at, "its lowerdir is relative to a directory that is unknown"))?;
    let lowers: Vec<PathBuf> = named.lowers.iter().map(|lower| base.join(lower)).collect();
    if let Some(lower) = lowers.iter().find(|lower| !lower.is_dir()) {
        return Err(failed(at, format!("its layer {} is not there", lower.display())));
    }
    prove(at, named.upper.as_deref(), &lowers)?;
    Ok(lowers)
}

/// Verifies the lower directories by inode numbers: an overlay on one filesystem shows the inode number of the
/// uppermost layer that has a file. Every name in the overlay's root that is not in the upper directory must have the
/// inode number that the lower directories show.
fn prove(at: &Path, upper: Option<&Path>, lowers: &[PathBuf]) -> Result<()> {
    let cannot = |cause| Error::File { what: "read", path: at.to_owned(), cause };
    let mut proven = 0;
    for entry in fs::read_dir(at).map_err(cannot)? {
        let entry = entry.map_err(cannot)?;
        let name = entry.file_name();
        let there = |dir: &Path| fs::symlink_metadata(dir.join(&name)).ok();
        if upper.is_some_and(|upper| there(upper).is_some()) {
            continue;
        }
        let expected = lowers.iter().find_map(|lower| there(lower)).map(|found| found.ino());
        let shown = fs::symlink_metadata(entry.path()).map_err(cannot)?.ino();
        if expected != Some(shown) {
            let name = name.display();
            return Err(failed(
                at,
                format!("its layers are not where they seem to be: {name} is another file"),
            ));
        }
        proven += 1;
    }
    if proven == 0 { Err(failed(at, "nothing in it shows where its lowerdir is")) } else { Ok(()) }
}

/// Mounts a directory or a filesystem that can be idmapped as a whole: what the container writes has the container's
/// IDs on disk.
fn plain(order: &Order, kernel: &dyn Kernel, parts: &Parts<'_>, at: &Path) -> Result<PathBuf> {
    let mut clone = kernel.clone_mount(Source::Path(at), Submounts::Included)?;
    let attributes = Attributes {
        idmap: Some(parts.users()),
        submounts: Submounts::Included,
        propagation: Some(Propagation::Private),
        flags: Flags::NODEV,
        ..Attributes::default()
    };
    kernel.set_attributes(&mut clone, &attributes).map_err(|cause| Error::NotIdmappable {
        source_path: at.to_owned(),
        target: "/".into(),
        policy: order.on_refusal,
        cause: Box::new(cause.into()),
    })?;
    let point = parts.dir("rootfs")?;
    kernel.attach(clone, Target::Path(&point))?;
    Ok(point)
}

fn failed(root: &Path, why: impl Into<String>) -> Error {
    Error::Root { root: root.to_owned(), why: why.into() }
}

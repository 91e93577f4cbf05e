//! The root filesystem, made anew so that its files are the pod's.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use bundle::IdLines;
use bundle::ready::{Layers, Parts};
use kernel::{
    Attributes, Flags, Kernel, MountEntry, MountTable, Node, Propagation, Source, Submounts, Target,
};
use serde_json::{Map, Value, json};

use super::adopt::adopt;
use super::layers::{self, Named};
use super::{Error, Order, Result, json};

/// Below it, IDs are the host's own: no pod ever has them.
const FIRST_OF_PODS: u32 = 65_536;

/// A container's `/` as its caller has made it.
#[derive(Debug, Clone)]
pub struct Rootfs {
    at: PathBuf,
    overlay: Option<MountEntry>,
}

impl Rootfs {
    /// The one that a configuration names.
    pub fn find(bundle: &Path, spec: &Value) -> Result<Self> {
        let at = bundle.join(json::text(spec.get("root").unwrap_or(&Value::Null), "path")?);
        Ok(Self { overlay: overlay_at(&at)?, at })
    }

    /// The directory that takes the container's changes, which will be owned by the pod's IDs.
    #[must_use]
    pub fn changes(&self) -> Option<PathBuf> {
        let named = layers::named(self.overlay.as_ref()?).ok()?;
        named.upper.filter(|upper| upper.is_absolute())
    }
}

/// Makes the container's `/` below the stage, where its root can pass to, and says so in the configuration.
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

/// The overlay that is mounted at `at`, if one is.
fn overlay_at(at: &Path) -> Result<Option<MountEntry>> {
    let node = Node::open(at)?;
    let stat = node.stat()?;
    let found = MountTable::read_one(stat.mount_id)?;
    let Some(mount) = found.filter(|mount| mount.filesystem == "overlay") else { return Ok(None) };
    if stat.is_mount_root && mount.root == Path::new("/") {
        return Ok(Some(mount));
    }
    Err(failed(at, "it is a part of an overlay, which cannot be idmapped"))
}

/// Another overlay of the same layers, each seen through the pod's maps. The one that is there stays the
/// caller's, who takes it away in the end; until then nobody is to write through it, as nobody does.
fn overlay(order: &Order, parts: &Parts<'_>, at: &Path, mount: &MountEntry) -> Result<PathBuf> {
    let named = layers::named(mount).map_err(|why| failed(at, why))?;
    let lowers = resolve(at, &named)?;
    let (Some(upper), Some(work)) = (&named.upper, &named.work) else {
        return Err(failed(at, "it is an overlay that nothing can be written to"));
    };
    if lowers.is_empty() || upper.is_relative() || work.is_relative() {
        return Err(failed(at, "it does not say where its layers are"));
    }
    if is_fresh(at, upper, &order.ids)? {
        adopt(upper, &order.ids)?;
    }
    let work = &if named.is_volatile { own_work(work)? } else { work.clone() };
    Ok(parts.overlay(Layers { lowers: &lowers, upper, work, label: None, options: &named.options })?)
}

/// A directory for work beside the maker's, who removes both with the container's changes.
fn own_work(work: &Path) -> Result<PathBuf> {
    let own = work.with_file_name("wardlet-work");
    match fs::DirBuilder::new().mode(0o700).create(&own) {
        Err(cause) if cause.kind() != io::ErrorKind::AlreadyExists => {
            Err(Error::File { what: "make", path: own, cause })
        }
        _ => Ok(own),
    }
}

/// Whether no container has used it yet. What was written by users of another block would be nobody's in this one.
fn is_fresh(at: &Path, upper: &Path, ids: &IdLines) -> Result<bool> {
    let found = fs::metadata(upper).map_err(|cause| Error::File {
        what: "look at",
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

/// The layers' places. Those of relative names are guessed, and the guess is proven.
fn resolve(at: &Path, named: &Named) -> Result<Vec<PathBuf>> {
    if !named.is_relative() {
        return Ok(named.lowers.clone());
    }
    let base =
        named.base().ok_or_else(|| failed(at, "its layers are relative to a place that is not known"))?;
    let lowers: Vec<PathBuf> = named.lowers.iter().map(|lower| base.join(lower)).collect();
    if let Some(lower) = lowers.iter().find(|lower| !lower.is_dir()) {
        return Err(failed(at, format!("its layer {} is not there", lower.display())));
    }
    prove(at, named.upper.as_deref(), &lowers)?;
    Ok(lowers)
}

/// An overlay on one filesystem shows the number of a file as the uppermost layer that has it does. Each
/// name of the overlay's root that is not of the container's own changes has to have the number that the
/// layers say.
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
    if proven == 0 { Err(failed(at, "nothing in it tells where its layers are")) } else { Ok(()) }
}

/// A directory or a filesystem that can be idmapped as a whole: what the container writes has the numbers
/// of the container on disk.
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

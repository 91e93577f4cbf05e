//! A container's files prepared in a mount namespace of ours: what it will see as `/`, and each of its bind mounts
//! with its owners, access and submounts.
//!
//! The host sees none of it. The OCI runtime runs inside, and everything is gone with the last process there.

mod attach;
mod attribute;
mod binds;
mod capabilities;
mod chown;
mod copy;
mod devices;
mod dirs;
mod host;
mod image;
mod links;
mod overlay;
mod owner;
mod parts;
mod rootfs;
mod shown;
mod targets;
mod volumes;

use std::fs;
use std::path::Path;
use std::sync::Arc;

use kernel::{
    Access, Dir, Filesystem, FilesystemKind, Flags, IdMaps, Kernel, Owner, PrivateMountNamespace, Target,
    UsernsFd,
};

use crate::container_spec::ContainerSpec;
use crate::error::{Error, Result};
use crate::spec::{PreparedPaths, parts};
use ids::IdMappings;

pub use attach::{Attached, attach};
pub use chown::{ChownCost, chown_cost, chown_estimate};
pub use host::{FromHost, from_host};
pub use parts::{Begin, Parts};
pub use rootfs::{Layers, LayersMapped};

/// The outcome of [`prepare_rootfs`].
#[derive(Debug)]
pub struct PreparedRootfs {
    /// The prepared paths, for [`crate::spec::of`].
    pub ready: PreparedPaths,
    /// How the layers got the IDs of the container's user namespace.
    pub layers: LayersMapped,
}

/// Where a root filesystem is prepared.
#[derive(Debug, Clone, Copy)]
pub struct Stage<'a> {
    /// An empty directory that every user can search: the container's root, an unprivileged user of the host, must reach
    /// it. A tmpfs is mounted over it, and nothing is written to it.
    pub dir: &'a Path,
    /// The mount namespace that the calling thread is in.
    pub namespace: &'a PrivateMountNamespace,
}

/// Prepares the root filesystem, volumes, bind mounts and devices of `start` below the stage, with the mounts that
/// [`from_host`] took before. Fails if a layer or source is missing, the kernel refuses a mount, the user is unknown in
/// the image, or a mount target lies outside of the root filesystem.
pub fn prepare_rootfs(
    kernel: &dyn Kernel,
    start: &ContainerSpec,
    held: FromHost,
    stage: Stage<'_>,
) -> Result<PreparedRootfs> {
    let capabilities = capabilities::given(start)?;
    let label = start.rootfs.label.as_deref();
    cover(kernel, stage, Cover { size: SMALL, label })?;
    let users = start.ids.as_ref().map(|ids| user_namespace(kernel, ids)).transpose()?;
    let (rootfs, layers) = rootfs::make(kernel, start, users.as_deref(), stage)?;
    let namespace = users.as_deref();
    let volumes = volumes::make(kernel, start, volumes::Users { namespace, layers }, stage)?;
    let binds = binds::make(kernel, start, held, stage)?;
    let devices = devices::make(kernel, start, stage)?;
    let (user, home) = crate::user::resolve(&Dir::open(&rootfs)?, &start.process.user)?;
    let ready = PreparedPaths { rootfs, binds, volumes, devices, user, home, capabilities };
    // Whatever engine it is for.
    dirs::check(start, &ready.rootfs)?;
    parts(start, &ready).into_iter().try_for_each(|part| targets::check(part).map(drop))?;
    Ok(PreparedRootfs { ready, layers })
}

/// More than mount points take.
const SMALL: u64 = 1 << 20;

/// What lies over the stage.
#[derive(Debug, Clone, Copy)]
struct Cover<'a> {
    size: u64,
    label: Option<&'a str>,
}

/// Every user can search it.
fn cover(kernel: &dyn Kernel, stage: Stage<'_>, cover: Cover<'_>) -> Result<()> {
    let kind =
        FilesystemKind::Tmpfs { size: Some(cover.size), inodes: None, mode: 0o755, owner: Owner::ROOT };
    let flags = Flags::NODEV | Flags::NOSUID;
    let small =
        Filesystem { kind, context: cover.label.map(str::to_owned), access: Access::ReadWrite, flags };
    Ok(kernel.attach(kernel.make_filesystem(&small)?, Target::Path(stage.dir))?)
}

fn user_namespace(kernel: &dyn Kernel, ids: &IdMappings) -> Result<Arc<UsernsFd>> {
    Ok(kernel.user_namespace(&IdMaps::new(&ids.uids, &ids.gids))?)
}

fn make_dir(path: &Path) -> Result<()> {
    fs::create_dir(path).map_err(|cause| Error::File { what: "make", path: path.to_owned(), cause })
}

//! A container's files made ready in a mount namespace of ours: what it will see as `/`, and each of
//! its binds with owners, access and submounts as they are to be.
//!
//! The host sees none of it. Whoever runs the OCI runtime does so inside, and all is gone with the
//! last process there.

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

use crate::error::{Error, Result};
use crate::spec::{Ready, parts};
use crate::start::{IdLines, Start};

pub use attach::{Attached, attach};
pub use chown::{ChownCost, chown_cost, chown_estimate};
pub use host::{FromHost, from_host};
pub use parts::{Begin, Parts};
pub use rootfs::{Layers, LayersMapped};

/// What was made, and how.
#[derive(Debug)]
pub struct MadeReady {
    /// For [`crate::spec::of`].
    pub ready: Ready,
    /// How the layers' owners were made the pod's.
    pub layers: LayersMapped,
}

/// Where things are made ready.
#[derive(Debug, Clone, Copy)]
pub struct Stage<'a> {
    /// An empty directory that every user can pass to: the container's root goes through it when it
    /// is host user 65536 and up already. It is covered, and nothing is written to it.
    pub dir: &'a Path,
    /// The namespace that the calling thread is in.
    pub namespace: &'a PrivateMountNamespace,
}

/// Makes `start` ready below the stage, with what [`from_host`] took for it before.
pub fn make_ready(kernel: &dyn Kernel, start: &Start, held: FromHost, stage: Stage<'_>) -> Result<MadeReady> {
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
    let ready = Ready { rootfs, binds, volumes, devices, user, home, capabilities };
    // Whatever engine it is for.
    dirs::check(start, &ready.rootfs)?;
    parts(start, &ready).into_iter().try_for_each(|part| targets::check(part).map(drop))?;
    Ok(MadeReady { ready, layers })
}

/// More than mount points take.
const SMALL: u64 = 1 << 20;

/// What lies over the stage.
#[derive(Debug, Clone, Copy)]
struct Cover<'a> {
    size: u64,
    label: Option<&'a str>,
}

/// Passable for everybody.
fn cover(kernel: &dyn Kernel, stage: Stage<'_>, cover: Cover<'_>) -> Result<()> {
    let kind =
        FilesystemKind::Tmpfs { size: Some(cover.size), inodes: None, mode: 0o755, owner: Owner::ROOT };
    let flags = Flags::NODEV | Flags::NOSUID;
    let small =
        Filesystem { kind, context: cover.label.map(str::to_owned), access: Access::ReadWrite, flags };
    Ok(kernel.attach(kernel.make_filesystem(&small)?, Target::Path(stage.dir))?)
}

fn user_namespace(kernel: &dyn Kernel, ids: &IdLines) -> Result<Arc<UsernsFd>> {
    Ok(kernel.user_namespace(&IdMaps::new(&ids.uids, &ids.gids))?)
}

fn make_dir(path: &Path) -> Result<()> {
    fs::create_dir(path).map_err(|cause| Error::File { what: "make", path: path.to_owned(), cause })
}

//! What a pod's files are made of, carried out without touching a file that is not ours.
//!
//! - [`Wanted`]: a pod's volumes as planned, with what it takes to make them; [`kinds`] are what they
//!   are made of.
//! - [`PodVolumes`]: makes them so, whatever is there already, and takes them away again. What it makes is
//!   written down first, so that a crash anywhere leaves nothing that is not found again.
//! - [`Presented`], [`HostMount`]: what a container is given, as a mount or as a path.
//! - [`sub_path`]: the part of a volume that a container sees, and never anything outside of it.
//! - [`payload`], [`writer`]: the files of configMap, secret, downwardAPI and projected volumes, exchanged
//!   all at once.
//! - [`ownership`]: whose files are.
//! - [`chown_once`]: a tree that cannot be idmapped, given to a pod and taken back.

pub mod chown_once;
mod error;
mod filesystems;
pub mod kinds;
mod layout;
mod lock;
pub mod ownership;
pub mod payload;
mod pod;
mod present;
mod probe;
mod record;
pub mod sub_path;
mod usage;
mod wanted;
pub mod writer;

pub use error::{Error, Result};
pub use pod::PodVolumes;
pub use present::{HostMount, Presented};
pub use probe::Notice;
pub use types::{ContainerName, PodUid, VolumeName};
pub use usage::Usage;
pub use wanted::{MountAccess, Relabel, Source, Wanted, WantedMount, WantedVolume};

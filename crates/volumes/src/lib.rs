//! Sets up and tears down the volumes of pods, without touching a file of another program.
//!
//! - [`Wanted`]: a pod's volumes as planned, with what it takes to create them; [`kinds`] are their sources.
//! - [`PodVolumes`]: sets them up, whatever exists already, and tears them down. Everything is recorded before it is
//!   created, so that the next run finds what a crash left.
//! - [`MadeKind`]: a kind of volume that has a directory in its pod's.
//! - [`VolumeManager`]: the asynchronous side: a driver for each kind of volume, one operation on a volume at a time.
//! - [`Presented`], [`HostMount`]: a volume for a container, as a mount or as a path.
//! - [`sub_path`]: the part of a volume that a container sees, and never anything outside of it.
//! - [`payload`], [`writer`]: the files of configMap, secret, downwardAPI and projected volumes, replaced atomically.
//! - [`ownership`]: owners of files, and fsGroup.
//! - [`chown_once`]: a tree that cannot be idmapped, given to a pod and taken back.

pub mod chown_once;
mod driver;
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
mod wanted;
pub mod writer;

pub use driver::{DriverFuture, LocalDriver, VolumeDriver, VolumeManager};
pub use error::{Error, Result};
pub use layout::MadeKind;
pub use pod::PodVolumes;
pub use present::{HostMount, Presented};
pub use probe::{About, Notice};
pub use types::{ContainerName, PodUid, VolumeName};
pub use wanted::{MountAccess, Relabel, Source, Wanted, WantedMount, WantedVolume};

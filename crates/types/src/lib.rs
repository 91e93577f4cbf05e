//! Types and names that several crates share, each defined once.
//!
//! - [`PodUid`], [`ContainerName`], [`VolumeName`]: names that are safe as names of directories.
//! - [`Quantity`]: an amount of a resource, as Kubernetes writes it. [`binary_si`], [`decimal_si`]: in its canonical form.
//! - [`Refusal`]: a request that is refused: field, cause, hint.
//! - [`MountPropagation`], [`AccessMode`], [`ChangePolicy`]: what pods and volumes say about mounts.
//! - [`ImageName`], [`ImagePattern`]: the name of an image, and a pattern of names. [`DockerConfig`], [`registry_of`]: credentials for registries, as files and
//!   secrets hold them; [`CredentialProvider`]: a plugin that knows them.
//! - [`GoDuration`]: a duration as Go writes it.
//! - [`keys`]: annotations and labels; [`reason`]: why a container waits or has ended.
//! - [`masked_paths`], [`READ_ONLY_PATHS`]: paths of `/proc` and `/sys` that a container sees empty, or cannot write.
//! - [`is_extended_resource`]: whether a resource is one of a device plugin or of an administrator.
//! - [`time`]: dates, timestamps and ages as text.
//!
//! The crate is pure and stands below all others: it reads no file, no clock and no environment. A type that only
//! one crate uses belongs into that crate.

mod credential_provider;
mod duration;
mod image_name;
mod image_pattern;
pub mod keys;
mod name;
mod paths;
mod quantity;
pub mod reason;
mod refusal;
mod registry;
mod resource;
mod si;
pub mod time;
mod volume;

pub use credential_provider::{CredentialProvider, EnvironmentVariable, ProviderToken, TokenCache};
pub use duration::{GoDuration, NotADuration};
pub use image_name::{ImageName, NotAnImageName};
pub use image_pattern::{ImagePattern, NotAPattern};
pub use name::{BadName, ContainerName, PodUid, VolumeName};
pub use paths::{READ_ONLY_PATHS, masked_paths};
pub use quantity::{NotAQuantity, Quantity};
pub use refusal::Refusal;
pub use registry::{DockerAuth, DockerConfig, registry_of};
pub use resource::is_extended_resource;
pub use si::{binary_si, decimal_si};
pub use volume::{AccessMode, ChangePolicy, MountPropagation};

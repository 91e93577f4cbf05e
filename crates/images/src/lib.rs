//! Images: pulled or imported, verified, unpacked once for all mappings.
//!
//! [`Images`] is a store on disk, shared by any number of processes. An image comes in from a file
//! ([`Images::import`]) or from a registry ([`Images::pull`]); either way each digest and size is verified
//! while its bytes are read, each layer is unpacked beside its place, is on disk before it is renamed in,
//! and is shared by all images that have the same layers up to it. Files keep the owners they have inside:
//! a mapping is laid over them later, by an idmapped mount, and so needs no copy of its own.
//!
//! What is hostile is refused with the entry's name ([`Fault`]), and leaves the store as it was. [`Limits`]
//! say what one image may take.
//!
//! - `reference`, `digest`, `platform`, `manifest`, `config`: what images are made of, as values.
//! - `layer`: from an archive to a directory that an overlay takes.
//! - `store`: the store on disk.
//! - `import`, `pull`: the two ways in; `install` is what they share.
//! - [`Registries`], [`read_credentials`]: the files that say how registries are reached, and with which credentials.

mod config;
mod credentials;
mod digest;
mod error;
mod fault;
#[doc(hidden)]
pub mod fuzzing;
mod image;
mod images;
mod import;
mod install;
mod json;
mod layer;
mod limits;
mod manifest;
mod platform;
mod progress;
mod pull;
mod reference;
mod registries;
mod store;

pub use config::{Configuration, ImageConfig};
pub use credentials::{CredentialsError, read_credentials};
pub use digest::Digest;
pub use error::{Error, Result};
pub use fault::Fault;
pub use image::Image;
pub use images::{Images, Listing, Removed, Usage};
pub use layer::compression::uncompressed;
pub use layer::entry::{Entry, Modified, What};
pub use layer::highest::{Highest, Owned};
pub use layer::name::EntryPath;
pub use layer::read::{Sink, read_entries};
pub use limits::{AbsoluteNames, Limits};
pub use manifest::{Descriptor, Document, Manifest, choose};
pub use platform::Platform;
pub use progress::{Progress, Quiet, Step};
pub use pull::remote::{Credentials, Endpoint, NotAnAuth, Registry, Remote, Scheme};
pub use reference::Reference;
pub use registries::{Registries, RegistriesError};
pub use store::collect::Collected;

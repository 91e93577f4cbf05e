//! Images from registries.
//!
//! - [`remote`]: which registries, by which ways, with which credentials.
//! - [`challenge`]: what a registry says when it wants credentials.
//! - [`session`]: requests to one registry, logged in as it asks.
//! - [`blob`]: a layer's archive, fetched in as many pieces as it takes.
//! - [`image`]: a whole image.

mod blob;
pub(crate) mod challenge;
mod image;
pub(crate) mod remote;
mod session;

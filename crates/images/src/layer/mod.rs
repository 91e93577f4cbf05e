//! A layer from its archive to a directory that an overlay takes.
//!
//! - [`compression`]: plain, gzip or zstd, detected by the first bytes.
//! - [`meter`]: what limits a hostile archive while it is read.
//! - [`name`]: names of entries that stay inside, and whiteouts.
//! - [`entry`]: one entry of the archive, checked, nothing written yet.
//! - [`read`]: all entries of an archive, handed to a [`Sink`](read::Sink).
//! - [`tree`]: the directory that they become; [`place`] finds an entry's directory in it, [`lowers`] what
//!   the layers below have there, [`content`] keeps holes, [`highest`] the highest owners.
//! - [`unpack`]: all of it, with both digests.

pub(crate) mod compression;
mod content;
pub(crate) mod entry;
pub(crate) mod highest;
mod lowers;
mod meter;
pub(crate) mod name;
pub(crate) mod overlay;
mod place;
pub(crate) mod read;
mod tree;
pub(crate) mod unpack;

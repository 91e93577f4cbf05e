//! The objects that are watched, as slim types: what is not needed is not kept while a page is read.
//!
//! - [`PodObject`], [`ClaimObject`], [`DriverObject`], [`NodeObject`]: the slim types.
//! - [`details`]: of persistent volumes, which are read as the API's type because drivers of volumes that were built in
//!   are found by many fields.
//! - [`Watched`]: the resources, and what is missing without one of them.

mod claim;
pub(crate) mod details;
mod driver;
mod meta;
mod node;
mod pod;
mod watched;

pub(crate) use claim::ClaimObject;
pub(crate) use driver::DriverObject;
pub(crate) use meta::name;
pub(crate) use node::NodeObject;
pub(crate) use pod::{LabelOptions, PodObject};
pub(crate) use watched::Watched;

//! The ConfigMaps and Secrets that pods of this node reference.

mod payload;
mod references;
mod store;

pub use references::{ObjectKey, ObjectKind, references};
pub use store::ApiObjects;

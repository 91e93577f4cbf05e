//! What pods of this node get from objects of the API server: ConfigMaps, Secrets, tokens, variables of services.

mod payload;
mod references;
mod store;

pub use references::{ObjectKey, ObjectKind, references};
pub use store::ApiObjects;

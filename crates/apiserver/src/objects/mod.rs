//! What pods of this node get from objects of the API server: ConfigMaps, Secrets, tokens, certificates, trust bundles, variables of
//! services.

mod payload;
mod references;
mod store;

pub use crate::pod_certificates::Requester;
pub use references::{ObjectKey, ObjectKind, references};
pub use store::ApiObjects;

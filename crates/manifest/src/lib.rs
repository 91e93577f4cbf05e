//! Kubernetes objects from text: read strictly, checked by the API's rules, and pods lowered to intents.
//!
//! - [`read`]: bytes to [`Object`]s. YAML and JSON become a tree by Kubernetes' own rules, with a
//!   [`Position`] for every value; the tree becomes the API's types, and what has no place in them is a
//!   [`Finding`] with line, path and suggestion. Nothing that is in doubt is read.
//! - [`validate`]: the API server's rules under given feature gates.
//! - [`unsupported`]: what the API takes and we do not run.
//! - [`violations`]: the Pod Security Standards, with and without user namespaces.
//! - [`defaulted`], [`static_pod`]: what holds where a pod says nothing.
//! - [`lower`]: a pod and the objects it names to an intent of the planner's.
//! - [`migrated_volume`], [`migrated_inline`]: volumes of plugins that were built in, as CSI drivers have them.
//! - [`Schema`]: every field that the API's types have.
//!
//! Reading works on bytes that the caller has; nothing here touches the machine.

mod defaults;
mod finding;
mod lower;
mod migration;
mod object;
mod place;
mod read;
mod reading;
mod standards;
mod tree;
mod typed;
mod unsupported;
mod validate;

pub use defaults::{StaticSource, defaulted, static_pod};
pub use finding::{Finding, Problem};
pub use lower::{Cluster, DEVICES, devices, lower, lower_volume};
pub use migration::{CsiVolume, migrated_inline, migrated_provisioner, migrated_volume};
pub use object::{Object, PodRef, Resource};
pub use place::Position;
pub use read::{MAX_ALIASED, MAX_BYTES, MAX_DEPTH, MAX_VALUES};
pub use reading::{Listed, Reading, Skipped, Unknowns, read, read_listed, read_with};
pub use standards::{Level, Violation, violations};
pub use tree::{Key, Node, Value};
pub use typed::{Field, Schema};
pub use unsupported::unsupported;
pub use validate::{as_container, validate};

/// The API's types, for callers that work with what was read.
pub use k8s_openapi;

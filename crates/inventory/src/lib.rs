//! The objects of a cluster, or of a directory of manifests, as far as questions about isolation need them.
//!
//! [`stream::parts`] cuts a text of any size into [`Piece`]s, and [`Objects::take`] keeps of each piece what is needed,
//! never the object itself: a dump of any size fits into memory. [`Objects::workloads`] groups pods with the objects that
//! made them, and [`Scene`] sets up the conflict engine with the pods and volumes.
//!
//! | module | contents |
//! |---|---|
//! | `piece`, [`stream`] | texts in parts, with the position of each part |
//! | `objects`, `object` | everything that was read; names and positions of objects |
//! | `template`, `resources`, `pods`, `placement`, `driver_signs` | what is kept of pods and of objects that make pods |
//! | `volumes`, `storage`, `nodes` | claims, volumes and storage classes; what nodes say of their runtime handlers |
//! | `workloads`, `scene` | pods by workload; pods and volumes as the conflict engine takes them |
//!
//! The crate is pure: the caller opens files and connections.

mod driver_signs;
mod nodes;
mod object;
mod objects;
mod piece;
mod placement;
mod pods;
mod resources;
mod scene;
mod storage;
pub mod stream;
mod template;
mod volumes;
mod workloads;

pub use driver_signs::DriverSigns;
pub use object::{ObjectRef, PodSecurity, Problem, SourcePosition, Violation};
pub use objects::Objects;
pub use piece::{Lens, Origin, Piece};
pub use resources::WorkloadResource;
pub use scene::{EquivalentPods, Scene, VolumeFacts};
pub use template::{Annotation, Device, Sysctl, Template};
pub use volumes::Claim;
pub use workloads::KnownWorkload;

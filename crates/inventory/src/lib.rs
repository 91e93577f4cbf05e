//! The objects of a cluster, or of a directory of manifests, as far as questions about isolation need them.
//!
//! [`stream::parts`] cuts a text of any size into [`ManifestChunk`]s, and [`Objects::take`] keeps of each chunk what is
//! needed, never the object itself: a dump of any size fits into memory. [`Objects::workloads`] groups pods with the
//! objects that made them, and [`ClusterSnapshot`] sets up the conflict engine with the pods and volumes.
//!
//! | module | contents |
//! |---|---|
//! | `chunk`, [`stream`] | manifests in chunks, with the position of each chunk |
//! | `objects`, `object` | everything that was read; names and positions of objects |
//! | `template`, `resources`, `pods`, `placement`, `driver_signs` | what is kept of pods and of objects that make pods |
//! | `volumes`, `storage`, `nodes` | claims, volumes and storage classes; what nodes say of their runtime handlers |
//! | `workloads`, `snapshot` | pods by workload; pods and volumes as the conflict engine takes them |
//!
//! The crate is pure: the caller opens files and connections.

mod chunk;
mod driver_signs;
mod nodes;
mod object;
mod objects;
mod placement;
mod pods;
mod resources;
mod snapshot;
mod storage;
pub mod stream;
mod template;
mod volumes;
mod workloads;

pub use chunk::{Lens, ManifestChunk, Origin};
pub use driver_signs::DriverSigns;
pub use object::{ObjectRef, PodSecurity, Problem, SourcePosition, Violation};
pub use objects::Objects;
pub use resources::WorkloadResource;
pub use snapshot::{ClusterSnapshot, EquivalentPods, VolumeFacts};
pub use template::{Annotation, Device, Sysctl, Template};
pub use volumes::{Claim, engine_volume};
pub use workloads::KnownWorkload;

//! SELinux labels, read and compared as text; nothing here asks the kernel.
//!
//! - [`Label`], [`Level`]: a whole label in the one form that the kernel prints.
//! - [`SelinuxOptions`], [`effective`]: the requested label, part by part.
//! - [`HostDefaults`]: the host's own contexts file; fills in what was not asked for, and says which
//!   label a process's files get. No level means no volume label: categories are never made up here.
//! - [`PartialLabel`]: comparison where some parts are known to the node alone.
//! - [`MountDecision`]: whether a volume is mounted with its pod's label, as the kubelet decides it.
//! - [`CategoryPairs`]: the allocator of a node's category pairs, as runtimes see it.
//! - [`CategoryPair`]: two categories, what tells one pod from another.

mod categories;
mod compare;
mod contexts;
mod label;
mod level;
mod mounting;
mod options;
mod pairs;

pub use categories::{CategoryPair, NotAPair};
pub use compare::{Comparison, PartialLabel};
pub use contexts::{ContextsError, HostDefaults};
pub use label::{Label, LabelError, Name, Part};
pub use level::{Categories, Level, Sensitivity};
pub use mounting::{LabelCount, MountCase, MountDecision, MountGates, Reach, Scope};
pub use options::{SelinuxOptions, effective};
pub use pairs::{CategoryPairs, PairError, PairInUse, PairSource, PairUser};

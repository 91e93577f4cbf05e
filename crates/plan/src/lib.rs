//! Decides what happens to a pod on this node, and why, in one pure function.
//!
//! - [`Intent`]: what a pod asks for, free of Kubernetes types; [`Volume`] and its kinds.
//! - [`Facts`]: what the node can do, as probed.
//! - [`Policy`]: the operator's choices: feature [`Gates`] and [`Rules`].
//! - [`plan`]: from these three to a [`Plan`] with its reasons, or to [`Refusal`]s.
//! - [`selinux`]: the one table that decides how a volume gets its label, and what happens to a second pod that asks
//!   for another one.
//!
//! Nothing here reads a file, a clock or an environment: the same input gives the same plan.

mod facts;
mod gate;
mod gates;
mod host_programs;
mod intent;
mod isolation;
mod labelling;
mod notes;
mod outcome;
mod plan;
mod policy;
mod safe;
pub mod selinux;
mod userns;
mod volume;
mod volumes;
mod warning;

pub use facts::{
    Facts, FilesystemFacts, HandlerFacts, KernelFacts, PoolFacts, RuntimeFacts, SelinuxFacts, SelinuxState,
    SetuidFacts, Support,
};
pub use gate::{Gate, KubernetesVersion, UnknownVersion};
pub use gates::{GateError, GateOrigin, GateRequests, GateSettings, GateState, Gates, ResolvedGates};
pub use intent::{
    Capabilities, Container, Device, HostNamespaces, Intent, Mount, PodIdentity, ProcMount,
    RecursiveReadOnly, Stage, VolumeChoice,
};
pub use outcome::{
    HowLabelled, Idmap, LabelPlan, MountPlan, Namespaces, Owner, Owners, Plan, UserNamespaceMode,
    UserNamespacePlan, VolumePlan,
};
pub use plan::{plan, plan_running};
pub use policy::{
    CannotIdmap, HostSetuid, Isolate, OnClosedGate, Policy, Rules, VolumePolicy, VolumeRule, VolumeRuleFor,
};
pub use types::{AccessMode, ChangePolicy, MountPropagation, Refusal};
pub use volume::{
    InTreeVolume, Medium, PersistentSource, PersistentVolume, Volume, VolumeKind, VolumeSource,
};
pub use warning::Warning;

//! Whether a pod may run on this node, decided before anything is made.
//!
//! [`consider`] takes the objects of the manifests and keeps those with pods as [`Candidate`]s; a candidate knows what
//! the API does not allow in its pod. [`Candidate::judge`] plans the pod on the facts of a node: a [`Verdict`] is a plan or
//! every reason to refuse, among them what wardlet does not run and what is meant for another node. `explain` shows verdicts;
//! [`admit`] takes them for all pods of one request and returns those that the agent may run as [`Admitted`]. [`runnable`] is
//! for pods that were not admitted here, such as an update.
//!
//! | module | contents |
//! |---|---|
//! | `candidate` | a pod before and after planning, with the reasons of the reader and of the planner as one list |
//! | `admit` | the decision for all pods of a request |
//! | `unsupported`, `placement`, `hostname` | fields that are not run, fields for another node, the name in the UTS namespace |
//! | `origin` | whether pods come from manifests or from an API server |
//! | [`kubelet`] | the kubelet's own admission of a cluster's pods: terminal rejections, preemption |
//! | `sysctls` | sysctls that are neither safe nor allowed by the node's configuration |
//!
//! The crate is pure: it reads no file, asks no runtime and keeps no state.

mod admit;
mod candidate;
mod error;
mod hostname;
pub mod kubelet;
mod origin;
mod placement;
mod sysctls;
mod unsupported;

pub use admit::{
    Admitted, Decision, RefusedPod, RunningPods, admit, consider, doubts, has_pods, is_workload, runnable,
};
pub use candidate::{Candidate, Refused, Verdict};
pub use error::Error;
pub use hostname::Hostname;
pub use origin::PodOrigin;
pub use sysctls::dotted as sysctl_name;

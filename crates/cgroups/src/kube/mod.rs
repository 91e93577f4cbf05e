//! The cgroups of a node of Kubernetes: `kubepods`, one cgroup for each QoS class below it, and one for each pod, with
//! the kubelet's names and values.
//!
//! `names` and `values` are pure; `tree` works on the kernel, and `effect` reads what it has.

mod effect;
mod names;
mod tree;
mod values;

pub use effect::PodLimits;
pub use names::{KubeNames, QosClass};
pub use tree::{KubePods, PodCgroup, PodCgroupOwner};
pub use values::{
    BURSTABLE_OOM_SCORES, MIN_SHARES, NodeLimits, QUOTA_PERIOD, cpu_quota, cpu_shares, cpu_weight,
    oom_score_adj,
};

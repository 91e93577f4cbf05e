//! Where the sandbox and the containers of a pod are, and how their CPU is limited.

use cgroups::kube::QUOTA_PERIOD;

/// How long a container may use a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CpuLimits {
    /// Limits are enforced by a CFS quota in each period of so many microseconds.
    Quota {
        /// The period.
        period: u64,
    },
    /// Limits are not enforced (`cpuCFSQuota: false`).
    Unenforced,
}

impl CpuLimits {
    /// The kubelet's default.
    pub const DEFAULT: Self = Self::Quota { period: QUOTA_PERIOD };

    /// The period in microseconds; `None` where limits are not enforced.
    pub(crate) fn period(self) -> Option<u64> {
        match self {
            Self::Quota { period } => Some(period),
            Self::Unenforced => None,
        }
    }
}

/// Where the sandbox and the containers of a pod are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PodParent {
    /// CRI's `cgroup_parent`.
    pub(crate) path: String,
    pub(crate) cpu: CpuLimits,
}

/// What the kernel kills when a container runs out of memory: the kubelet's singleProcessOOMKill. cgroup v1 has only
/// `Process`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OomKill {
    /// One process.
    #[default]
    Process,
    /// All processes of the container.
    Container,
}

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Limits of a cgroup, in the units of the OCI runtime spec. A field that is `None` is left unchanged.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Resources {
    /// CPU shares as in cgroup v1 (2 to 262144). On v2 they are converted to `cpu.weight`.
    pub cpu_shares: Option<u64>,
    /// CFS quota: microseconds of CPU time in each period; negative is unlimited.
    pub cpu_quota: Option<i64>,
    /// CFS period in microseconds.
    pub cpu_period: Option<u64>,
    /// CPUs, as a list of ranges such as `0-3,8`.
    pub cpuset_cpus: Option<String>,
    /// Memory nodes, as a list of ranges.
    pub cpuset_mems: Option<String>,
    /// Bytes of memory; negative is unlimited.
    pub memory: Option<i64>,
    /// Bytes of memory and swap together; negative is unlimited.
    pub memory_swap: Option<i64>,
    /// Processes and threads; negative is unlimited.
    pub pids: Option<i64>,
    /// Bytes of huge pages by page size as the kernel names it (`2MB`).
    pub hugepages: BTreeMap<String, u64>,
    /// Files of the unified hierarchy, by name.
    pub unified: BTreeMap<String, String>,
}

//! The limits that the kernel has for the cgroup of a pod.

use std::cmp::Ordering;

use super::names::QosClass;
use super::tree::KubePods;
use super::values::{cpu_shares_of, cpu_weight};
use crate::error::Result;
use crate::files::read;
use crate::find::Kind;
use crate::group::Group;

/// A limit of version 1 above this is none: the kernel rounds "unlimited" to pages.
const UNLIMITED: u64 = 1 << 62;

/// The limits of the cgroup of a pod, as the kernel has them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PodLimits {
    /// Bytes of memory; `None` if unlimited.
    pub memory: Option<u64>,
    /// CFS quota in microseconds; `None` if unlimited.
    pub quota: Option<i64>,
    /// CPU shares. On cgroup v2 those that its weight stands for, which are not exact.
    pub shares: Option<u64>,
    /// `cpu.weight` of cgroup v2.
    weight: Option<u64>,
}

impl PodLimits {
    /// Whether these shares are more or less than the cgroup has.
    #[must_use]
    pub fn compare_shares(&self, wanted: u64) -> Ordering {
        match self.weight {
            Some(weight) => cpu_weight(wanted).cmp(&weight),
            None => wanted.cmp(&self.shares.unwrap_or(0)),
        }
    }

    fn of(group: &Group) -> Result<Self> {
        let memory = match value(group, "memory", ["memory.limit_in_bytes", "memory.max"])? {
            Some(text) => text.parse().ok().filter(|limit| *limit < UNLIMITED),
            None => None,
        };
        let quota = match value(group, "cpu", ["cpu.cfs_quota_us", "cpu.max"])? {
            Some(text) => text.split_whitespace().next().and_then(|quota| quota.parse().ok()),
            None => None,
        };
        let shares = value(group, "cpu", ["cpu.shares", "cpu.weight"])?.and_then(|text| text.parse().ok());
        let is_unified = group.with("cpu").is_some_and(|place| place.hierarchy.kind == Kind::Unified);
        let weight = shares.filter(|_| is_unified);
        let shares = if is_unified { weight.map(cpu_shares_of) } else { shares };
        Ok(Self { memory, quota: quota.filter(|quota: &i64| *quota >= 0), shares, weight })
    }
}

/// The content of a file of a controller: by its name in version 1, and in version 2.
fn value(group: &Group, controller: &str, names: [&str; 2]) -> Result<Option<String>> {
    let Some(place) = group.with(controller) else { return Ok(None) };
    let [split, unified] = names;
    let name = if place.hierarchy.kind == Kind::Unified { unified } else { split };
    Ok(read(&place.dir.join(name))?.map(|text| text.trim().to_owned()))
}

impl KubePods {
    /// The limits of the cgroup of a pod. One that does not exist has none.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn pod_limits(&self, class: QosClass, uid: &str) -> Result<PodLimits> {
        PodLimits::of(&self.groups.open(&self.names().pod(class, uid))?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_compared_as_the_kernel_keeps_them() {
        let unified = PodLimits { weight: Some(cpu_weight(1000)), ..PodLimits::default() };
        // They have the same weight.
        assert_eq!(unified.compare_shares(1001), Ordering::Equal);
        assert_eq!(
            (unified.compare_shares(2000), unified.compare_shares(2)),
            (Ordering::Greater, Ordering::Less)
        );
        let split = PodLimits { shares: Some(1000), ..PodLimits::default() };
        assert_eq!(
            (split.compare_shares(1001), split.compare_shares(1000)),
            (Ordering::Greater, Ordering::Equal)
        );
    }
}

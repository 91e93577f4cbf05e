//! Limits of a container, and the control group that has them.

use std::collections::BTreeMap;

use cgroups::systemd::{Unit, container_path, slice_path};
use container::Resources;
use cri::LinuxContainerResources;
use types::Refusal;

use super::{CgroupVersion, ContainerRequest, NodeFacts};

const FIELD: &str = "linux.resources";
const PIDS: &str = "pids.max";
/// The kernel's range of `oom_score_adj`.
const OOM_SCORES: std::ops::RangeInclusive<i64> = -1000..=1000;

pub(super) fn of(asked: &ContainerRequest<'_>) -> Result<Resources, Refusal> {
    let given = asked.config.linux.as_ref().and_then(|linux| linux.resources.clone()).unwrap_or_default();
    limits(&given, asked.node).map_err(|refusal| refusal.below(FIELD))
}

/// The limits of a container's control group. Fields are named as they are in `given`.
///
/// # Errors
/// With the field that asks for what this node cannot limit.
pub fn limits(given: &LinuxContainerResources, node: &NodeFacts) -> Result<Resources, Refusal> {
    let (unified, pids) = unified(&given.unified, node)?;
    Ok(Resources {
        cpu_shares: positive("cpu_shares", given.cpu_shares)?,
        cpu_quota: Some(given.cpu_quota).filter(|quota| *quota != 0),
        cpu_period: positive("cpu_period", given.cpu_period)?,
        cpuset_cpus: Some(given.cpuset_cpus.clone()).filter(|cpus| !cpus.is_empty()),
        cpuset_mems: Some(given.cpuset_mems.clone()).filter(|mems| !mems.is_empty()),
        memory: Some(given.memory_limit_in_bytes).filter(|limit| *limit != 0),
        memory_swap: swap(given, node)?,
        pids,
        hugepages: hugepages(given, node)?,
        unified,
    })
}

fn positive(name: &str, number: i64) -> Result<Option<u64>, Refusal> {
    let number = u64::try_from(number).map_err(|_| Refusal::new(name, format!("{number} is negative")))?;
    Ok(Some(number).filter(|number| *number != 0))
}

/// A container with a memory limit does not swap unless the request sets a swap limit.
fn swap(given: &LinuxContainerResources, node: &NodeFacts) -> Result<Option<i64>, Refusal> {
    let (memory, swap) = (given.memory_limit_in_bytes, given.memory_swap_limit_in_bytes);
    if !node.swap_limits {
        // Asking for no swap is what holds where nothing is said, here and there.
        if swap == 0 || swap == memory {
            return Ok(None);
        }
        let cause = "this node's control groups cannot limit swap";
        return Err(Refusal::new("memory_swap_limit_in_bytes", cause).with_hint("leave it out"));
    }
    if swap > 0 && memory > 0 && swap < memory {
        let cause = format!("{swap} bytes of memory and swap are less than the {memory} of memory alone");
        return Err(Refusal::new("memory_swap_limit_in_bytes", cause));
    }
    Ok(Some(if swap == 0 { memory } else { swap }).filter(|limit| *limit != 0))
}

fn hugepages(given: &LinuxContainerResources, node: &NodeFacts) -> Result<BTreeMap<String, u64>, Refusal> {
    if node.hugepage_limits {
        return Ok(given.hugepage_limits.iter().map(|page| (page.page_size.clone(), page.limit)).collect());
    }
    // The kubelet sends 0 for every page size, also where the host has no hugetlb controller.
    match given.hugepage_limits.iter().position(|page| page.limit > 0) {
        Some(index) => {
            let cause = "this node's control groups cannot limit huge pages";
            Err(Refusal::new(format!("hugepage_limits[{index}]"), cause))
        }
        None => Ok(BTreeMap::new()),
    }
}

type Unified = (BTreeMap<String, String>, Option<i64>);

/// Files of the unified hierarchy, and the number of processes, which every hierarchy can limit.
fn unified(given: &BTreeMap<String, String>, node: &NodeFacts) -> Result<Unified, Refusal> {
    let refused = |name: &str, cause: &str| Err(Refusal::new(format!("unified[{name}]"), cause));
    for name in given.keys() {
        if name.is_empty() || name.contains('/') || name.starts_with('.') {
            return refused(name, "is no file of a control group");
        }
        if node.cgroups == CgroupVersion::V1 && name != PIDS {
            return refused(name, "this node's control groups are of version 1");
        }
    }
    let pids = match given.get(PIDS).map(|text| text.trim()) {
        None => node.pids,
        Some("max") => Some(-1),
        Some(text) => match text.parse::<u32>() {
            Ok(number) => Some(number.into()),
            Err(_) => return refused(PIDS, "is neither a number nor \"max\""),
        },
    };
    let others = given.iter().filter(|(name, _)| *name != PIDS);
    Ok((others.map(|(name, value)| (name.clone(), value.clone())).collect(), pids))
}

pub(super) fn oom_score_of(asked: &ContainerRequest<'_>) -> Result<Option<i32>, Refusal> {
    let given = asked.config.linux.as_ref().and_then(|linux| linux.resources.as_ref());
    given.map(|given| oom_score(given.oom_score_adj, asked.node)).transpose().map_err(|r| r.below(FIELD))
}

/// How soon its processes are killed when memory runs out: not later than ours, where we may not say so.
///
/// # Errors
/// If the kernel knows no such score.
pub fn oom_score(given: i64, node: &NodeFacts) -> Result<i32, Refusal> {
    let score = i32::try_from(given).ok().filter(|_| OOM_SCORES.contains(&given));
    let cause = || format!("{given} is not between -1000 and 1000");
    let score = score.ok_or_else(|| Refusal::new("oom_score_adj", cause()))?;
    Ok(node.lowest_oom_score.map_or(score, |lowest| score.max(lowest)))
}

/// Below the sandbox's; in a slice it is in a scope.
pub(super) fn cgroup_path(asked: &ContainerRequest<'_>) -> Result<String, Refusal> {
    let given = &asked.place.cgroup_parent;
    let parent = parent(given, asked.node).map_err(|refusal| refusal.below("sandbox_config.linux"))?;
    Ok(if is_slice(&parent) { container_path(&parent, asked.id) } else { format!("{parent}/{}", asked.id) })
}

/// The path of the control group that a caller names: as a path, or as a slice where process 1 is systemd.
///
/// # Errors
/// If it is no such path.
pub fn parent(given: &str, node: &NodeFacts) -> Result<String, Refusal> {
    let parent = given.trim_matches('/');
    let refused = |cause: &str| Refusal::new("cgroup_parent", cause);
    if parent.contains(':') || (is_slice(parent) && !node.systemd) {
        return Err(refused("is in systemd's form").with_hint(
            "give the path of a control group: the cgroup driver of this runtime is what RuntimeConfig says",
        ));
    }
    if is_slice(parent) {
        return slice(parent).map_err(|error| refused(&error.to_string()));
    }
    let mut parts = parent.split('/');
    if parent.is_empty() || parts.any(|part| matches!(part, "" | "." | "..")) || parent.contains('\0') {
        return Err(refused("is no path of a control group"));
    }
    Ok(format!("/{parent}"))
}

fn is_slice(path: &str) -> bool {
    path.ends_with(".slice")
}

/// A slice by its name alone, or by the path of its control group, as kubelets give it.
fn slice(given: &str) -> cgroups::Result<String> {
    let path = match given.contains('/') {
        true => format!("/{given}"),
        false => slice_path(given)?,
    };
    Unit::of(&path)?;
    Ok(path)
}

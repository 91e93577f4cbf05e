use std::sync::Arc;

use container::Job;
use cri::{LinuxContainerConfig, LinuxContainerResources};
use tracing::info;

use super::called;
use crate::container_state::ContainerState;
use crate::error::{Error, Result};
use crate::files;
use crate::node::Node;
use crate::spec;
use crate::store::Container;
use crate::work::blocking;

/// Gives a container other limits: at once if it runs, with its start if it was created.
pub(crate) async fn update(node: Arc<Node>, id: String, wanted: LinuxContainerResources) -> Result<()> {
    let container = node.store.container(&id)?;
    let sandbox = node.store.sandbox(container.sandbox.as_str())?;
    let _gate = sandbox.gate.lock().await;
    if let ContainerState::Exited(_) = container.state() {
        return Err(Error::State {
            what: "container",
            id: container.id.to_string(),
            state: "exited",
            needed: "only one that will run or runs has limits",
        });
    }
    blocking(move || change(&node, &container, &wanted)).await
}

fn change(node: &Node, container: &Container, wanted: &LinuxContainerResources) -> Result<()> {
    let limits = spec::limits(wanted, &node.facts).map_err(|refusal| refusal.below("linux"))?;
    // First what a later start reads.
    let path = container.places.job();
    if let Some(mut job) = files::read::<Job>(&path)? {
        job.start.cgroup.resources = merged(&job.start.cgroup.resources, &limits);
        files::write(&path, &job)?;
    }
    if let ContainerState::Running(_) = container.state() {
        node.groups.apply(&container.record().cgroup, &limits)?;
    }
    container.change(|record| {
        let linux = record.config.linux.get_or_insert_with(LinuxContainerConfig::default);
        let known = linux.resources.get_or_insert_with(LinuxContainerResources::default);
        overwrite(known, wanted);
    })?;
    info!(parent: &node.span(container), container = %container.id, "{} has other limits", called(container));
    Ok(())
}

/// What is said counts, the rest stays.
fn merged(before: &container::Resources, wanted: &container::Resources) -> container::Resources {
    let wanted = wanted.clone();
    container::Resources {
        cpu_shares: wanted.cpu_shares.or(before.cpu_shares),
        cpu_quota: wanted.cpu_quota.or(before.cpu_quota),
        cpu_period: wanted.cpu_period.or(before.cpu_period),
        cpuset_cpus: wanted.cpuset_cpus.or_else(|| before.cpuset_cpus.clone()),
        cpuset_mems: wanted.cpuset_mems.or_else(|| before.cpuset_mems.clone()),
        memory: wanted.memory.or(before.memory),
        memory_swap: wanted.memory_swap.or(before.memory_swap),
        pids: wanted.pids.or(before.pids),
        hugepages: before.hugepages.clone().into_iter().chain(wanted.hugepages).collect(),
        unified: before.unified.clone().into_iter().chain(wanted.unified).collect(),
    }
}

/// The same for what is shown.
fn overwrite(known: &mut LinuxContainerResources, wanted: &LinuxContainerResources) {
    let number = |known: &mut i64, wanted: i64| {
        if wanted != 0 {
            *known = wanted;
        }
    };
    number(&mut known.cpu_period, wanted.cpu_period);
    number(&mut known.cpu_quota, wanted.cpu_quota);
    number(&mut known.cpu_shares, wanted.cpu_shares);
    number(&mut known.memory_limit_in_bytes, wanted.memory_limit_in_bytes);
    number(&mut known.memory_swap_limit_in_bytes, wanted.memory_swap_limit_in_bytes);
    number(&mut known.oom_score_adj, wanted.oom_score_adj);
    for (known, wanted) in
        [(&mut known.cpuset_cpus, &wanted.cpuset_cpus), (&mut known.cpuset_mems, &wanted.cpuset_mems)]
    {
        if !wanted.is_empty() {
            known.clone_from(wanted);
        }
    }
    if !wanted.hugepage_limits.is_empty() {
        known.hugepage_limits.clone_from(&wanted.hugepage_limits);
    }
    known.unified.extend(wanted.unified.clone());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_said_stays_as_it_was() {
        let before = container::Resources { cpu_shares: Some(2), memory: Some(64), ..Default::default() };
        let wanted = container::Resources { memory: Some(128), ..Default::default() };
        let after = merged(&before, &wanted);
        assert_eq!((after.cpu_shares, after.memory), (Some(2), Some(128)));
        let mut shown =
            LinuxContainerResources { cpu_shares: 2, memory_limit_in_bytes: 64, ..Default::default() };
        let asked = LinuxContainerResources { memory_limit_in_bytes: 128, ..Default::default() };
        overwrite(&mut shown, &asked);
        assert_eq!((shown.cpu_shares, shown.memory_limit_in_bytes), (2, 128));
    }
}

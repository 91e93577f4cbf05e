//! What eviction observes of a node.

use std::collections::BTreeMap;

use ::node::kubelet::EvictionSignal;
use admission::kubelet::NodeCondition;
use admission::kubelet::evict::Starved;
use kubelet_api::{Filesystem, NodeUsage};

/// How much there is of something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Observation {
    /// What is available.
    pub(super) available: u64,
    /// What percentages are of.
    pub(super) capacity: u64,
}

/// By signal. One that cannot be observed is missing.
pub(super) type Observations = BTreeMap<EvictionSignal, Observation>;

/// What a node has.
pub(super) fn observe(node: &NodeUsage) -> Observations {
    let space = |of: &Filesystem| Observation { available: of.available, capacity: of.capacity };
    let inodes = |of: &Filesystem| Observation { available: of.inodes_free, capacity: of.inodes };
    let [nodefs, imagefs, containerfs] =
        [&node.filesystem, &node.images, &node.containers].map(Option::as_ref);
    let processes = node.tasks.map(|tasks| Observation {
        available: tasks.limit.saturating_sub(tasks.count),
        capacity: tasks.limit,
    });
    let all = [
        (EvictionSignal::MemoryAvailable, memory(node)),
        (EvictionSignal::AllocatableMemoryAvailable, allocatable_memory(node)),
        (EvictionSignal::NodeFsAvailable, nodefs.map(space)),
        (EvictionSignal::NodeFsInodesFree, nodefs.and_then(has_inodes).map(inodes)),
        (EvictionSignal::ImageFsAvailable, imagefs.map(space)),
        (EvictionSignal::ImageFsInodesFree, imagefs.and_then(has_inodes).map(inodes)),
        (EvictionSignal::ContainerFsAvailable, containerfs.map(space)),
        (EvictionSignal::ContainerFsInodesFree, containerfs.and_then(has_inodes).map(inodes)),
        (EvictionSignal::PidAvailable, processes),
    ];
    all.into_iter().filter_map(|(signal, observed)| Some((signal, observed?))).collect()
}

/// Some filesystems, such as btrfs, make inodes as they need them and count none.
fn has_inodes(of: &Filesystem) -> Option<&Filesystem> {
    (of.inodes > 0).then_some(of)
}

fn memory(node: &NodeUsage) -> Option<Observation> {
    let working_set = node.used.counters.memory.working_set()?;
    Some(Observation { available: node.memory.saturating_sub(working_set), capacity: node.memory })
}

/// What is available to the pods together: only with a limit of theirs.
fn allocatable_memory(node: &NodeUsage) -> Option<Observation> {
    let pods = node.parts.iter().find(|part| part.name == "pods")?;
    let memory = &pods.used.counters.memory;
    Some(Observation { available: memory.available()?, capacity: memory.limit? })
}

/// What a node runs short of.
pub(super) fn starved(signal: EvictionSignal) -> Starved {
    match signal {
        EvictionSignal::MemoryAvailable | EvictionSignal::AllocatableMemoryAvailable => Starved::Memory,
        EvictionSignal::NodeFsAvailable
        | EvictionSignal::ImageFsAvailable
        | EvictionSignal::ContainerFsAvailable => Starved::EphemeralStorage,
        EvictionSignal::NodeFsInodesFree
        | EvictionSignal::ImageFsInodesFree
        | EvictionSignal::ContainerFsInodesFree => Starved::Inodes,
        EvictionSignal::PidAvailable => Starved::Pids,
    }
}

/// The condition of a node that runs short of it.
pub(super) fn condition(signal: EvictionSignal) -> NodeCondition {
    match starved(signal) {
        Starved::Memory => NodeCondition::MemoryPressure,
        Starved::EphemeralStorage | Starved::Inodes => NodeCondition::DiskPressure,
        Starved::Pids => NodeCondition::PidPressure,
    }
}

#[cfg(test)]
mod tests {
    use cgroups::{Counters, Memory};
    use kubelet_api::{PartUsage, TaskLimit, Used};

    use super::*;

    fn used(usage: u64, inactive_file: u64, limit: Option<u64>) -> Used {
        let memory =
            Memory { usage: Some(usage), inactive_file: Some(inactive_file), limit, ..Memory::default() };
        Used { counters: Counters { memory, ..Counters::default() }, ..Used::default() }
    }

    #[test]
    fn page_cache_that_can_be_reclaimed_is_available() {
        let node = NodeUsage {
            memory: 800,
            used: used(500, 100, None),
            parts: vec![PartUsage { name: "pods", used: used(300, 50, Some(600)), ..PartUsage::default() }],
            tasks: Some(TaskLimit { count: 40, limit: 100 }),
            ..NodeUsage::default()
        };
        let found = observe(&node);
        let of = |signal| found.get(&signal).map(|one| (one.available, one.capacity));
        assert_eq!(of(EvictionSignal::MemoryAvailable), Some((400, 800)));
        assert_eq!(of(EvictionSignal::AllocatableMemoryAvailable), Some((350, 600)));
        assert_eq!(of(EvictionSignal::PidAvailable), Some((60, 100)));
        assert_eq!(of(EvictionSignal::NodeFsAvailable), None);
        // Pods without a limit together have no allocatable memory of their own.
        let parts = vec![PartUsage { name: "pods", used: used(300, 50, None), ..PartUsage::default() }];
        let found = observe(&NodeUsage { parts, ..node });
        assert!(!found.contains_key(&EvictionSignal::AllocatableMemoryAvailable));
    }

    #[test]
    fn each_filesystem_has_space_and_inodes_if_it_counts_them() {
        let filesystem = |available: u64, inodes: u64| {
            let (capacity, inodes_free) = (100, inodes / 2);
            Some(Filesystem { available, capacity, inodes, inodes_free, ..Filesystem::default() })
        };
        let node = NodeUsage {
            filesystem: filesystem(10, 1000),
            images: filesystem(20, 0),
            containers: filesystem(30, 10),
            ..NodeUsage::default()
        };
        let found = observe(&node);
        let of = |signal| found.get(&signal).map(|one| (one.available, one.capacity));
        assert_eq!(of(EvictionSignal::NodeFsAvailable), Some((10, 100)));
        assert_eq!(of(EvictionSignal::NodeFsInodesFree), Some((500, 1000)));
        assert_eq!(of(EvictionSignal::ImageFsAvailable), Some((20, 100)));
        assert_eq!(of(EvictionSignal::ImageFsInodesFree), None);
        assert_eq!(of(EvictionSignal::ContainerFsInodesFree), Some((5, 10)));
    }
}

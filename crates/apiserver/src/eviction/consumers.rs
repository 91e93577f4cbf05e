//! What pods use, as eviction ranks them.

use std::collections::HashMap;

use admission::kubelet::evict::{ContainerUse, DiskUse, PodUse, VolumeUse};
use kubelet_api::{ContainerUsage, Filesystem, NodeUsage, PodUsage};

/// What each pod uses, by UID.
pub(super) fn consumers(node: &NodeUsage) -> HashMap<String, PodUse> {
    node.pods.iter().map(|pod| (pod.uid.clone(), of_pod(pod))).collect()
}

fn of_pod(pod: &PodUsage) -> PodUse {
    let counters = &pod.used.counters;
    let volumes = pod.volumes.iter().map(|volume| {
        let used = DiskUse { at_least: volume.at_least, ..taken(&volume.filesystem) };
        let is_ephemeral_storage = volume.is_ephemeral_storage;
        (volume.name.clone(), VolumeUse { used, is_ephemeral_storage })
    });
    PodUse {
        memory: counters.memory.working_set().unwrap_or(0),
        processes: pod.processes.or(counters.tasks).unwrap_or(0),
        containers: pod.containers.iter().map(of_container).collect(),
        volumes: volumes.collect(),
        files: pod.files.as_ref().map(taken).unwrap_or_default(),
    }
}

fn of_container(container: &ContainerUsage) -> ContainerUse {
    ContainerUse {
        name: container.name.clone(),
        memory: container.used.counters.memory.working_set(),
        layer: container.layer.as_ref().map(taken),
        logs: container.logs.map(|logs| DiskUse { at_least: container.logs_at_least, ..taken(&logs) }),
    }
}

fn taken(of: &Filesystem) -> DiskUse {
    DiskUse { bytes: of.used, inodes: of.inodes_used, at_least: false }
}

#[cfg(test)]
mod tests {
    use cgroups::{Counters, Memory};
    use kubelet_api::{Used, VolumeUsage};

    use super::*;

    #[test]
    fn a_pod_uses_what_its_cgroup_counts_and_what_it_has_written() {
        let filesystem = |used: u64| Filesystem { used, inodes_used: used / 10, ..Filesystem::default() };
        let used = |usage: u64| {
            let memory = Memory { usage: Some(usage), inactive_file: Some(10), ..Memory::default() };
            Used { counters: Counters { memory, tasks: Some(3), ..Counters::default() }, ..Used::default() }
        };
        let pod = PodUsage {
            uid: "u-1".to_owned(),
            used: used(100),
            containers: vec![ContainerUsage {
                name: "app".to_owned(),
                used: used(60),
                layer: Some(filesystem(70)),
                logs: Some(filesystem(30)),
                logs_at_least: true,
                ..ContainerUsage::default()
            }],
            volumes: vec![VolumeUsage {
                name: "v".to_owned(),
                filesystem: filesystem(500),
                at_least: true,
                is_ephemeral_storage: true,
            }],
            files: Some(filesystem(20)),
            ..PodUsage::default()
        };
        let all = consumers(&NodeUsage { pods: vec![pod], ..NodeUsage::default() });
        let found = &all["u-1"];
        assert_eq!((found.memory, found.processes), (90, 3));
        let app = &found.containers[0];
        assert_eq!((app.memory, app.layer.map(|layer| layer.bytes)), (Some(50), Some(70)));
        assert_eq!(app.logs, Some(DiskUse { bytes: 30, inodes: 3, at_least: true }));
        assert!(found.volumes["v"].used.at_least);
        assert_eq!(found.ephemeral_storage().bytes, 620);
    }
}

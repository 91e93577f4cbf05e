//! Which pods are ended when, and how long they may take.

use std::time::Duration;

use ::node::kubelet::KubeletConfig;
use k8s_openapi::api::core::v1::PodSpec;

/// The priority of pods that the cluster or the node needs.
const CRITICAL: i32 = 2_000_000_000;

/// Pods from this priority on are ended together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Group {
    /// The lowest priority.
    pub(crate) priority: i32,
    /// How long they may take, in seconds.
    pub(crate) seconds: u64,
}

/// The groups of the configuration, the lowest priority first; none if a shutdown does not wait for pods.
pub(crate) fn groups(config: &KubeletConfig) -> Vec<Group> {
    if !config.is_gate_on("GracefulNodeShutdown") {
        return Vec::new();
    }
    let listed = config.shutdown_grace_period_by_pod_priority.iter();
    let mut groups: Vec<Group> = listed
        .filter(|_| config.is_gate_on("GracefulNodeShutdownBasedOnPodPriority"))
        .map(|one| Group {
            priority: one.priority,
            seconds: u64::try_from(one.shutdown_grace_period_seconds).unwrap_or(0),
        })
        .collect();
    if groups.is_empty() {
        let all = config.shutdown_grace_period.to_std();
        let critical = config.shutdown_grace_period_critical_pods.to_std();
        let Some(others) = all.checked_sub(critical).filter(|_| !all.is_zero()) else { return groups };
        groups.push(Group { priority: 0, seconds: others.as_secs() });
        groups.push(Group { priority: CRITICAL, seconds: critical.as_secs() });
    }
    groups.sort_unstable();
    groups
}

/// How long all groups may take together.
pub(crate) fn total(groups: &[Group]) -> Duration {
    Duration::from_secs(groups.iter().map(|group| group.seconds).fold(0, u64::saturating_add))
}

/// The index of the group that a pod is in: the last one that it has the priority for, else the first.
pub(crate) fn group_of(groups: &[Group], spec: &PodSpec) -> usize {
    let priority = spec.priority.unwrap_or(0);
    groups.iter().rposition(|group| group.priority <= priority).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use ::node::kubelet::KubeletFlags;

    use super::*;

    fn of(fields: &str) -> Vec<(i32, u64)> {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("config.yaml");
        let kind = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";
        std::fs::write(&file, format!("{kind}{fields}")).unwrap();
        let loaded = KubeletConfig::load(Some(&file), None, &KubeletFlags::default()).unwrap();
        groups(&loaded.config).into_iter().map(|group| (group.priority, group.seconds)).collect()
    }

    #[test]
    fn two_periods_are_two_groups_and_a_list_is_sorted_by_priority() {
        assert_eq!(of(""), []);
        assert_eq!(of("shutdownGracePeriod: 30s\n"), [(0, 30), (CRITICAL, 0)]);
        let both = "shutdownGracePeriod: 30s\nshutdownGracePeriodCriticalPods: 10s\n";
        assert_eq!(of(both), [(0, 20), (CRITICAL, 10)]);
        let list = "shutdownGracePeriodByPodPriority: [{priority: 100000, shutdownGracePeriodSeconds: 10}, \
                    {priority: 0, shutdownGracePeriodSeconds: 60}]\n";
        assert_eq!(of(list), [(0, 60), (100_000, 10)]);
    }

    #[test]
    fn a_pod_is_in_the_last_group_that_it_has_the_priority_for() {
        let groups: Vec<Group> = [(0, 60), (1000, 30), (CRITICAL, 10)]
            .map(|(priority, seconds)| Group { priority, seconds })
            .into();
        let index = |priority: Option<i32>| group_of(&groups, &PodSpec { priority, ..PodSpec::default() });
        let priorities = [None, Some(-5), Some(999), Some(1000), Some(CRITICAL - 1), Some(i32::MAX)];
        assert_eq!(priorities.map(index), [0, 0, 0, 1, 1, 2]);
        assert_eq!(total(&groups), Duration::from_secs(100));
    }
}

//! Thresholds of eviction, and which of them are met for how long.

use std::time::Duration;

use ::node::kubelet::{EvictionSignal, KubeletConfig};
use admission::kubelet::NodeCondition;
use admission::kubelet::evict::Amounts;
use tokio::time::Instant;
use tracing::warn;

use super::layout::DiskLayout;
use super::signals::{Observations, condition};
use crate::node::Threshold;

/// The value of `enforceNodeAllocatable` by which the memory of all pods together is limited.
const PODS: &str = "pods";

/// A threshold below which the node runs short of something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct EvictionThreshold {
    pub(super) signal: EvictionSignal,
    value: Threshold,
    /// How long it must be met before pods are ended; zero for a hard threshold.
    pub(super) grace: Duration,
    /// How much more must be available before it is no longer met.
    minimum_reclaim: Option<Threshold>,
}

impl EvictionThreshold {
    pub(super) fn is_hard(&self) -> bool {
        self.grace.is_zero()
    }

    /// The threshold and what is available; `None` if that is not known.
    pub(super) fn amounts(&self, observed: &Observations) -> Option<Amounts> {
        let found = observed.get(&self.signal)?;
        Some(Amounts { threshold: self.value.of(found.capacity), available: found.available })
    }

    fn is_met(&self, observed: &Observations) -> bool {
        self.amounts(observed).is_some_and(|found| found.available < found.threshold)
    }

    /// Whether it is met, or less than the minimum was reclaimed.
    fn is_unresolved(&self, observed: &Observations) -> bool {
        let Some(found) = observed.get(&self.signal) else { return false };
        let reclaim = self.minimum_reclaim.map_or(0, |reclaim| reclaim.of(found.capacity));
        found.available < self.value.of(found.capacity).saturating_add(reclaim)
    }
}

/// The thresholds of a configuration on these disks. Those of the filesystem of containers follow from the other ones.
pub(super) fn thresholds(config: &KubeletConfig, layout: DiskLayout) -> Vec<EvictionThreshold> {
    let minimum_reclaim = |signal| config.eviction_minimum_reclaim.get(&signal).map(Threshold::from);
    let hard = config.eviction_hard.iter().map(|(signal, value)| (*signal, value, Duration::ZERO));
    let soft = config.eviction_soft.iter().filter_map(|(signal, value)| {
        // Without one the configuration was refused.
        let grace = config.eviction_soft_grace_period.get(signal)?;
        Some((*signal, value, grace.to_std()))
    });
    let all = hard.chain(soft).filter(|(signal, ..)| !is_ignored(*signal));
    let mut all: Vec<EvictionThreshold> = all
        .map(|(signal, value, grace)| EvictionThreshold {
            signal,
            value: Threshold::from(value),
            grace,
            minimum_reclaim: minimum_reclaim(signal),
        })
        .collect();
    let is_enforced = config.enforce_node_allocatable.iter().any(|name| name == PODS);
    let copies: Vec<EvictionThreshold> = all
        .iter()
        .filter_map(|threshold| {
            let signal = match threshold.signal {
                EvictionSignal::MemoryAvailable if is_enforced && threshold.is_hard() => {
                    EvictionSignal::AllocatableMemoryAvailable
                }
                other => layout.like_containers(other)?,
            };
            Some(EvictionThreshold { signal, ..*threshold })
        })
        .collect();
    all.extend(copies);
    all
}

fn is_ignored(signal: EvictionSignal) -> bool {
    let is_ignored =
        matches!(signal, EvictionSignal::ContainerFsAvailable | EvictionSignal::ContainerFsInodesFree);
    if is_ignored {
        warn!(
            "the eviction threshold {} is ignored: the filesystem of containers has that of nodefs, or of imagefs where \
             containers and images are on a filesystem of their own; set that",
            signal.name()
        );
    }
    is_ignored
}

/// Which thresholds are met, and since when.
#[derive(Debug)]
pub(super) struct ThresholdState {
    thresholds: Vec<EvictionThreshold>,
    /// How long a condition stays after it was observed.
    transition: Duration,
    /// The thresholds that are met, and since when.
    met: Vec<Met>,
    /// The thresholds for which pods were ended, until enough is reclaimed.
    acted_on: Vec<EvictionThreshold>,
    /// The conditions that were observed, and when that was last.
    seen: Vec<Seen>,
}

#[derive(Debug, Clone, Copy)]
struct Met {
    threshold: EvictionThreshold,
    since: Instant,
}

#[derive(Debug, Clone, Copy)]
struct Seen {
    condition: NodeCondition,
    last: Instant,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Assessment {
    /// The conditions of the node.
    pub(super) conditions: Vec<NodeCondition>,
    /// The thresholds that are met for long enough: those of memory first.
    pub(super) due: Vec<EvictionThreshold>,
}

impl ThresholdState {
    pub(super) fn new(thresholds: Vec<EvictionThreshold>, transition: Duration) -> Self {
        Self { thresholds, transition, met: Vec::new(), acted_on: Vec::new(), seen: Vec::new() }
    }

    /// Takes note of what the node has now.
    pub(super) fn assess(&mut self, observed: &Observations, now: Instant) -> Assessment {
        let mut met: Vec<EvictionThreshold> =
            self.thresholds.iter().filter(|threshold| threshold.is_met(observed)).copied().collect();
        let is_unresolved =
            |threshold: &&EvictionThreshold| threshold.is_unresolved(observed) && !met.contains(threshold);
        let unresolved: Vec<EvictionThreshold> =
            self.acted_on.iter().filter(is_unresolved).copied().collect();
        met.extend(unresolved);
        let known = std::mem::take(&mut self.met);
        let since = |threshold: &EvictionThreshold| {
            let known = known.iter().find(|known| known.threshold == *threshold);
            known.map_or(now, |known| known.since)
        };
        self.met =
            met.iter().map(|threshold| Met { threshold: *threshold, since: since(threshold) }).collect();
        for threshold in &met {
            let condition = condition(threshold.signal);
            self.seen.retain(|seen| seen.condition != condition);
            self.seen.push(Seen { condition, last: now });
        }
        let is_on = |seen: &Seen| seen.last == now || now.duration_since(seen.last) < self.transition;
        self.seen.retain(is_on);
        let is_due = |met: &&Met| now.duration_since(met.since) >= met.threshold.grace;
        let mut due: Vec<EvictionThreshold> =
            self.met.iter().filter(is_due).map(|met| met.threshold).collect();
        due.sort_by_key(|threshold| condition(threshold.signal) != NodeCondition::MemoryPressure);
        self.acted_on.clone_from(&due);
        Assessment { conditions: self.seen.iter().map(|seen| seen.condition).collect(), due }
    }

    /// Whether the node has enough of everything, with what must be reclaimed at least.
    pub(super) fn is_satisfied(&self, observed: &Observations) -> bool {
        !self.thresholds.iter().any(|threshold| threshold.is_unresolved(observed))
    }
}

#[cfg(test)]
mod tests;

//! Which pods are ended so that a critical pod fits.

use manifest::k8s_openapi::api::core::v1::{Pod, PodSpec};

use super::requests::{self, Amounts, CPU, MEMORY, PODS, QosClass};
use super::{is_critical, priority};

/// An amount of a resource that must become free: processors in thousandths, everything else in units.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requirement {
    /// The resource.
    pub resource: String,
    /// How much.
    pub amount: i64,
}

/// No pods that may be ended have enough.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "preemption: error finding a set of pods to preempt: no set of running pods found to reclaim resources: {0}"
)]
pub struct CannotPreempt(String);

/// A pod that may be ended.
struct Victim {
    /// Its place among the admitted pods.
    index: usize,
    requests: Amounts,
    class: QosClass,
}

impl Victim {
    fn frees(&self, resource: &str) -> i64 {
        if resource == PODS { 1 } else { self.requests.of(resource) }
    }
}

/// The pods, by their place among the admitted ones, that are ended so that so much is free for a critical pod: as few as
/// possible of the higher QoS classes, and in each class those that fit the requirements best.
///
/// # Errors
/// If all pods that may be ended together do not have enough.
pub fn victims(
    critical: &Pod,
    required: &[Requirement],
    admitted: &[&Pod],
) -> Result<Vec<usize>, CannotPreempt> {
    let default = PodSpec::default();
    let may_end = |other: &Pod| {
        let is_higher = priority(critical).zip(priority(other)).is_some_and(|(own, other)| own > other);
        !is_critical(other) || is_higher
    };
    let all = admitted.iter().enumerate().filter(|(_, pod)| may_end(pod)).map(|(index, pod)| {
        let spec = pod.spec.as_ref().unwrap_or(&default);
        Victim { index, requests: requests::of_pod(spec), class: QosClass::of(spec) }
    });
    let all: Vec<Victim> = all.collect();
    let open = without(required, all.iter());
    if !open.is_empty() {
        return Err(CannotPreempt(listed(&open)));
    }
    let mut chosen: Vec<&Victim> = Vec::new();
    for class in [QosClass::Guaranteed, QosClass::Burstable, QosClass::BestEffort] {
        // As if all pods of the lower classes were ended already.
        let lower = all.iter().filter(|victim| victim.class < class);
        let open = without(required, lower.chain(chosen.iter().copied()));
        let of_class = all.iter().filter(|victim| victim.class == class).collect();
        chosen.extend(nearest(of_class, open));
    }
    chosen.sort_by_key(|victim| victim.class);
    Ok(chosen.iter().map(|victim| victim.index).collect())
}

/// What is still required once these pods are ended.
fn without<'a>(required: &[Requirement], ended: impl Iterator<Item = &'a Victim>) -> Vec<Requirement> {
    let ended: Vec<&Victim> = ended.collect();
    let left = required.iter().map(|one| {
        let freed = ended.iter().fold(0_i64, |sum, victim| sum.saturating_add(victim.frees(&one.resource)));
        Requirement { resource: one.resource.clone(), amount: one.amount.saturating_sub(freed) }
    });
    left.filter(|one| one.amount > 0).collect()
}

/// Takes the pod that comes nearest to the requirements, and then the next, until they are met.
fn nearest(mut pods: Vec<&Victim>, mut open: Vec<Requirement>) -> Vec<&Victim> {
    let mut chosen = Vec::new();
    while !open.is_empty() {
        let best = pods.iter().enumerate().min_by(|(_, one), (_, other)| {
            let size = |victim: &Victim| (victim.requests.of(MEMORY), victim.requests.of(CPU));
            let by_distance = distance(&open, one).cmp(&distance(&open, other));
            by_distance.then_with(|| size(one).cmp(&size(other)))
        });
        let Some((index, _)) = best else { break };
        let victim = pods.swap_remove(index);
        open = without(&open, std::iter::once(victim));
        chosen.push(victim);
    }
    chosen
}

/// How far a pod is from the requirements: the sum of the squares of the parts that it leaves open, in millionths.
fn distance(required: &[Requirement], victim: &Victim) -> i128 {
    let open = required.iter().map(|one| {
        let left = one.amount.saturating_sub(victim.frees(&one.resource)).max(0);
        let part = i128::from(left) * 1_000_000 / i128::from(one.amount.max(1));
        part * part
    });
    open.sum()
}

fn listed(required: &[Requirement]) -> String {
    let each = required.iter().map(|one| format!("(res: {}, q: {}), ", one.resource, one.amount));
    format!("[{}]", each.collect::<String>())
}

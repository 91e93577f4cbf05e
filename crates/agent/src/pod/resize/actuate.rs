//! The calls to the kernel and to the runtime that give a running pod other resources.
//!
//! Memory comes first, then CPU. What grows is set at the pod's cgroup before its containers, what shrinks after them, so that
//! at no time a container may use more than its pod. Containers that get less come before those that get more. The first
//! error ends the try; each step can be repeated.

use std::cmp::Ordering;
use std::sync::Arc;
use std::time::Instant;

use cgroups::kube::PodLimits;
use cgroups::{CounterSet, Resources};
use cri::LinuxContainerResources;
use manifest::k8s_openapi::api::core::v1::Container;
use tokio::sync::OwnedMutexGuard;

use crate::cri::resources;
use crate::error::{Error, Result};
use crate::pod::cgroups::PodCgroups;
use crate::pod::context::PodContext;
use crate::pod::resize::amounts::{Amounts, Resource};
use crate::pod::resources::PodResources;
use crate::shared::{Shared, blocking};

/// A running container that gets other resources.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    /// The runtime's ID.
    pub(crate) id: String,
    pub(crate) attempt: u32,
    pub(crate) container: Container,
    pub(crate) has: Amounts,
    pub(crate) wanted: Amounts,
}

/// How a try went.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// The generation of the definition that it was for.
    pub(crate) generation: Option<i64>,
    /// What instances of containers have now, by name and attempt.
    pub(crate) applied: Vec<(String, u32, Amounts)>,
    /// Why not everything was done.
    pub(crate) failed: Option<String>,
}

/// One try.
pub(crate) struct Actuation {
    pub(crate) shared: Arc<Shared>,
    pub(crate) context: Arc<PodContext>,
    /// The generation of the definition that the resize is for.
    pub(crate) generation: Option<i64>,
    /// The runtime's ID of the pod's sandbox, if it has one.
    pub(crate) sandbox: Option<String>,
    pub(crate) steps: Vec<Step>,
}

impl Actuation {
    /// Tries it. No container of the pod is started meanwhile.
    pub(crate) async fn run(mut self, gate: OwnedMutexGuard<()>) -> Outcome {
        let begun = Instant::now();
        let done = self.all().await;
        drop(gate);
        self.shared.metrics.resizes.tried(begun, done.is_ok());
        let applied = self.steps.iter().map(|step| (step.container.name.clone(), step.attempt, step.has));
        Outcome {
            generation: self.generation,
            applied: applied.collect(),
            failed: done.err().map(|error| error.to_string()),
        }
    }

    async fn all(&mut self) -> Result<()> {
        let mut pod = match self.shared.cgroups.clone() {
            Some(cgroups) => Some(OfPod::read(cgroups, &self.context).await?),
            None => None,
        };
        self.check_memory(pod.as_ref()).await?;
        for resource in [Resource::Memory, Resource::Cpu] {
            if let Some(pod) = &mut pod {
                pod.set(resource, Ordering::Greater, self).await?;
            }
            self.resize_containers(resource).await?;
            if let Some(pod) = &mut pod {
                pod.set(resource, Ordering::Less, self).await?;
            }
        }
        Ok(())
    }

    /// Refuses a limit of memory below what is in use: the kernel would kill processes to enforce it.
    async fn check_memory(&self, pod: Option<&OfPod>) -> Result<()> {
        let of_pod = pod.and_then(OfPod::lower_memory);
        let lowered = |step: &&Step| step.wanted.memory.lowers_limit(step.has.memory);
        let lower: Vec<Step> = self.steps.iter().filter(lowered).cloned().collect();
        if of_pod.is_none() && lower.is_empty() {
            return Ok(());
        }
        let Some(cgroups) = self.shared.cgroups.clone() else { return Ok(()) };
        let context = Arc::clone(&self.context);
        let read = move || {
            let ids: Vec<&str> = lower.iter().map(|step| step.id.as_str()).collect();
            let (used, containers) =
                cgroups.pod_counters(&context.uid, &context.spec, &ids, CounterSet::CpuAndMemory)?;
            let of = |id: &str| containers.get(id).and_then(|counters| counters.memory.usage);
            let containers = lower.iter().map(|step| Lowered {
                what: format!("container {:?}", step.container.name),
                limit: step.wanted.memory.limit,
                usage: of(&step.id),
            });
            let pod = of_pod.map(|limit| Lowered { what: "pod".to_owned(), limit, usage: used.memory.usage });
            Ok(pod.into_iter().chain(containers).collect::<Vec<_>>())
        };
        let lowered = blocking("reading how much memory a pod uses", read).await?;
        match too_low(&lowered) {
            Some(cause) => Err(Error::Resize { cause }),
            None => Ok(()),
        }
    }

    /// Gives the containers one resource. Those that get less come first.
    async fn resize_containers(&mut self, resource: Resource) -> Result<()> {
        let order =
            |step: &Step| step.wanted.of_resource(resource).compared_to(step.has.of_resource(resource));
        self.steps.sort_by_key(order);
        for step in &mut self.steps {
            if step.wanted.of_resource(resource) == step.has.of_resource(resource) {
                continue;
            }
            let next = step.has.with(resource, step.wanted);
            let container = Container {
                resources: Some(next.written_into(step.container.resources.as_ref())),
                ..step.container.clone()
            };
            let wanted = resources::of(&self.context, &container);
            self.shared.cri.update_container(&step.id, wanted).await?;
            step.has = next;
        }
        Ok(())
    }
}

/// A limit of memory that is lowered.
#[derive(Debug)]
struct Lowered {
    what: String,
    limit: u64,
    /// Bytes in use; `None` if they cannot be read.
    usage: Option<u64>,
}

/// Why these limits cannot be set, in the kubelet's words; `None` if they can.
fn too_low(lowered: &[Lowered]) -> Option<String> {
    let wrong = lowered.iter().filter_map(|Lowered { what, limit, usage }| match usage {
        None => Some(format!("missing {what} memory usage")),
        Some(usage) if usage >= limit => {
            Some(format!("attempting to set {what} memory limit ({limit}) below current usage ({usage})"))
        }
        Some(_) => None,
    });
    let wrong: Vec<String> = wrong.collect();
    match wrong.as_slice() {
        [] => None,
        [one] => Some(format!("cannot decrease memory limits: {one}")),
        all => Some(format!("cannot decrease memory limits: [{}]", all.join(", "))),
    }
}

/// The cgroup of the pod: what it has, and what it is to have.
struct OfPod {
    cgroups: Arc<PodCgroups>,
    wanted: Resources,
    has: PodLimits,
    /// What the runtime knows as the sandbox's resources.
    told: LinuxContainerResources,
}

impl OfPod {
    async fn read(cgroups: Arc<PodCgroups>, context: &Arc<PodContext>) -> Result<Self> {
        let (of_pod, read) = (Arc::clone(context), Arc::clone(&cgroups));
        let both = move || Ok((read.limits(&of_pod.spec), read.in_effect(&of_pod.uid, &of_pod.spec)?));
        let (wanted, has) = blocking("reading the cgroup of a pod", both).await?;
        let told = PodResources::of(&context.spec).of_sandbox(context.cpu_limits());
        let told = LinuxContainerResources {
            cpu_shares: has.shares.map_or(told.cpu_shares, signed),
            cpu_quota: has.quota.unwrap_or(told.cpu_quota),
            memory_limit_in_bytes: has.memory.map_or(told.memory_limit_in_bytes, signed),
            ..told
        };
        Ok(Self { cgroups, wanted, has, told })
    }

    /// The limit of memory that it gets, if that is lower than the one that it has. A limit is never taken away.
    fn lower_memory(&self) -> Option<u64> {
        let wanted = u64::try_from(self.wanted.memory?).ok()?;
        Some(wanted).filter(|wanted| self.has.memory.is_none_or(|has| *wanted < has))
    }

    /// Sets what of a resource changes in this direction: a limit before the request if they grow, after it if they shrink.
    async fn set(&mut self, resource: Resource, direction: Ordering, of: &Actuation) -> Result<()> {
        let mut due = match resource {
            Resource::Memory => vec![self.memory()],
            Resource::Cpu => vec![self.quota(), self.shares()],
        };
        if direction == Ordering::Less {
            due.reverse();
        }
        for (change, limits) in due.into_iter().flatten() {
            if change == direction {
                self.apply(limits, of).await?;
            }
        }
        Ok(())
    }

    fn memory(&self) -> Option<(Ordering, Resources)> {
        let wanted = self.wanted.memory?;
        let change = u64::try_from(wanted).ok()?.cmp(&self.has.memory.unwrap_or(u64::MAX));
        Some((change, Resources { memory: Some(wanted), ..Resources::default() }))
    }

    fn quota(&self) -> Option<(Ordering, Resources)> {
        let unlimited = |quota: Option<i64>| quota.filter(|quota| *quota >= 0).unwrap_or(i64::MAX);
        let wanted = self.wanted.cpu_quota?;
        let change = unlimited(Some(wanted)).cmp(&unlimited(self.has.quota));
        let (cpu_quota, cpu_period) = (Some(wanted), self.wanted.cpu_period);
        Some((change, Resources { cpu_quota, cpu_period, ..Resources::default() }))
    }

    fn shares(&self) -> Option<(Ordering, Resources)> {
        let wanted = self.wanted.cpu_shares?;
        let change = self.has.compare_shares(wanted);
        Some((change, Resources { cpu_shares: Some(wanted), ..Resources::default() }))
    }

    /// Tells the runtime, which may refuse it, and then sets the limits.
    async fn apply(&mut self, limits: Resources, of: &Actuation) -> Result<()> {
        let told = LinuxContainerResources {
            cpu_shares: limits.cpu_shares.map_or(self.told.cpu_shares, signed),
            cpu_quota: limits.cpu_quota.unwrap_or(self.told.cpu_quota),
            memory_limit_in_bytes: limits.memory.unwrap_or(self.told.memory_limit_in_bytes),
            ..self.told.clone()
        };
        let overhead = PodResources::of(&of.context.spec).overhead(of.context.cpu_limits());
        if let Some(sandbox) = &of.sandbox {
            let without = without_overhead(&told, &overhead);
            of.shared.cri.update_sandbox(sandbox, overhead.clone(), without).await?;
        }
        let (cgroups, context) = (Arc::clone(&self.cgroups), Arc::clone(&of.context));
        let set = move || cgroups.resize(&context.uid, &context.spec, &limits);
        if let Err(error) = blocking("setting limits of a pod's cgroup", set).await {
            if let Some(sandbox) = &of.sandbox {
                let before = without_overhead(&self.told, &overhead);
                // The runtime may believe what it likes if it refuses this too: the kernel has the limits that it had.
                let _ = of.shared.cri.update_sandbox(sandbox, overhead, before).await;
            }
            return Err(error);
        }
        self.told = told;
        Ok(())
    }
}

/// The resources of a pod's cgroup without what the sandbox itself needs, as the runtime counts them.
fn without_overhead(
    all: &LinuxContainerResources,
    overhead: &LinuxContainerResources,
) -> LinuxContainerResources {
    let less = |all: i64, overhead: i64| if all > overhead { all - overhead } else { all };
    let shares = |shares: i64| if shares > 2 { shares } else { 0 };
    LinuxContainerResources {
        cpu_shares: less(all.cpu_shares, shares(overhead.cpu_shares)),
        cpu_quota: less(all.cpu_quota, overhead.cpu_quota),
        memory_limit_in_bytes: less(all.memory_limit_in_bytes, overhead.memory_limit_in_bytes),
        ..all.clone()
    }
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_below_what_is_used_is_refused_in_the_kubelets_words() {
        let lowered =
            |what: &str, limit: u64, usage: Option<u64>| Lowered { what: what.to_owned(), limit, usage };
        assert_eq!(too_low(&[lowered("pod", 10, Some(9))]), None);
        assert_eq!(
            too_low(&[lowered("pod", 10, Some(10)), lowered("container \"b\"", 9, Some(3))]).unwrap(),
            "cannot decrease memory limits: attempting to set pod memory limit (10) below current usage (10)"
        );
        let all = [lowered("container \"a\"", 5, Some(7)), lowered("pod", 10, None)];
        assert_eq!(
            too_low(&all).unwrap(),
            "cannot decrease memory limits: [attempting to set container \"a\" memory limit (5) below current usage (7), \
             missing pod memory usage]"
        );
    }

    #[test]
    fn the_runtime_is_told_of_containers_and_sandbox_apart() {
        let of = |shares: i64, quota: i64, memory: i64| LinuxContainerResources {
            cpu_shares: shares,
            cpu_quota: quota,
            memory_limit_in_bytes: memory,
            ..LinuxContainerResources::default()
        };
        assert_eq!(without_overhead(&of(1280, 125_000, 80), &of(256, 25_000, 16)), of(1024, 100_000, 64));
        assert_eq!(without_overhead(&of(512, -1, 0), &of(2, 0, 0)), of(512, -1, 0));
    }
}

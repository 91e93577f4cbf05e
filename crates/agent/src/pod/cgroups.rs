//! The cgroups of the pods of a node: made before the sandbox, removed after the pod's end.
//!
//! Only a node of a cluster has them. Pods of `wardlet run` are where the runtime puts them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use cgroups::kube::{NodeLimits, PodCgroup, PodCgroupOwner, PodLimits};
use cgroups::{CounterSet, Counters, KubeNames, KubePods, QosClass, Resources, Version};
use cri::IdMapping;
use manifest::k8s_openapi::api::core::v1::PodSpec;
use telemetry::metrics::Registry;
use tracing::{info, warn};
use types::PodUid;

use crate::cri::resources::PAGE_SIZES;
use crate::error::{Error, Result, with_cause};
use crate::instance::InstanceId;
use crate::metrics::cgroups::{CgroupMetrics, CgroupOperation};
use crate::pod::parent::{CpuLimits, PodParent};
use crate::pod::resources::PodResources;

/// How cgroups are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CgroupDriver {
    /// As directories.
    Cgroupfs,
    /// By systemd.
    Systemd,
}

/// How often a process is looked at again that is outside of its pod's user namespace.
const LOOKS: u32 = 5;
/// The time between two looks.
const PAUSE: Duration = Duration::from_millis(20);

/// What a node sets about the cgroups of its pods.
#[derive(Debug, Clone)]
pub struct CgroupOptions {
    /// How cgroups are made; the runtime must use the same.
    pub driver: CgroupDriver,
    /// The cgroup that `kubepods` is in, which must exist; empty for the root of the hierarchies.
    pub root: String,
    /// Whether cgroup v1 is refused.
    pub fail_on_v1: bool,
    /// What all pods may use together.
    pub node: NodeLimits,
    /// Whether limits of CPU are enforced.
    pub cpu: CpuLimits,
    /// The most processes of a pod; `None`: as many as the node's pods together.
    pub pids: Option<u64>,
}

/// The cgroups of the pods of this node.
#[derive(Debug)]
pub struct PodCgroups {
    tree: KubePods,
    cpu: CpuLimits,
    pids: Option<u64>,
    node: NodeLimits,
    state: Mutex<State>,
    metrics: CgroupMetrics,
}

#[derive(Debug, Default)]
struct State {
    /// The CPU requests of the pods of class Burstable, by UID.
    burstable: BTreeMap<String, u64>,
    /// Whether the limits of the node were refused when they were last set.
    is_unlimited: bool,
}

impl PodCgroups {
    /// Makes `kubepods` with the limits of the node, and the cgroups of the QoS classes. `state` is the agent's state
    /// directory; the metrics of cgroups are registered in `registry`. Limits that the kernel refuses now are set again by [`PodCgroups::refresh`].
    ///
    /// # Errors
    /// [`Error::CgroupV1`] on a host with cgroup v1, unless it is allowed. [`Error::Cgroups`] if the cgroups cannot be made,
    /// or not with this driver.
    pub fn open(options: CgroupOptions, state: &Path, registry: &Registry) -> Result<Self> {
        let names = match options.driver {
            CgroupDriver::Cgroupfs => KubeNames::cgroupfs(&options.root)?,
            CgroupDriver::Systemd => KubeNames::systemd(&options.root)?,
        };
        let tree = KubePods::open(names, InstanceId::of(state)?.as_str())?;
        let metrics = CgroupMetrics::register(registry)?;
        metrics.set_version(tree.version());
        if tree.version() != Version::V2 {
            if options.fail_on_v1 {
                return Err(Error::CgroupV1);
            }
            warn!("this node has cgroup v1, whose support Kubernetes ends: use a host with cgroup v2");
        }
        tree.make_classes()?;
        let CgroupOptions { cpu, pids, node, .. } = options;
        let cgroups = Self { tree, cpu, pids, node, state: Mutex::default(), metrics };
        cgroups.limit_node(&mut cgroups.lock());
        Ok(cgroups)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the limits of the node. Failure and success after a failure are logged once.
    fn limit_node(&self, state: &mut State) {
        let kubepods = self.tree.names().kubepods();
        let limited = self.tree.limit_node(&self.node);
        match &limited {
            Ok(()) if state.is_unlimited => info!("{kubepods} has the limits of this node now"),
            Err(error) if !state.is_unlimited => {
                warn!("{kubepods} cannot have the limits of this node yet: {}", with_cause(error));
            }
            _ => {}
        }
        state.is_unlimited = limited.is_err();
    }

    /// Sets what may have changed by other hands: the limits of the node, and the shares of the class Burstable.
    pub(crate) fn refresh(&self) {
        self.metrics.timed(CgroupOperation::Update, || {
            let mut state = self.lock();
            self.limit_node(&mut state);
            self.share(&state);
        });
    }

    fn share(&self, state: &State) {
        let millis = state.burstable.values().copied().fold(0, u64::saturating_add);
        if let Err(error) = self.tree.set_burstable_cpu(millis) {
            warn!("the CPU shares of class Burstable cannot be set: {}", with_cause(&error));
        }
    }

    /// Where the containers of this pod are.
    pub(crate) fn parent(&self, uid: &PodUid, spec: &PodSpec) -> PodParent {
        let class = PodResources::of(spec).class;
        PodParent { path: self.tree.names().pod(class, uid.as_str()), cpu: self.cpu }
    }

    /// Gives the class Burstable its share with this pod.
    fn count(&self, uid: &PodUid, resources: &PodResources) {
        if resources.class == QosClass::Burstable {
            let mut state = self.lock();
            state.burstable.insert(uid.as_str().to_owned(), resources.cpu_request());
            self.share(&state);
        }
    }

    /// The limits of the cgroup of a pod.
    pub(crate) fn limits(&self, spec: &PodSpec) -> Resources {
        PodResources::of(spec).cgroup(self.cpu, self.pids, &PAGE_SIZES)
    }

    /// The limits that the cgroup of a pod has.
    ///
    /// # Errors
    /// If they cannot be read.
    pub(crate) fn in_effect(&self, uid: &PodUid, spec: &PodSpec) -> Result<PodLimits> {
        Ok(self.tree.pod_limits(PodResources::of(spec).class, uid.as_str())?)
    }

    /// Gives the cgroup of a running pod some other limits. What is `None` stays.
    ///
    /// # Errors
    /// If the kernel refuses one.
    pub(crate) fn resize(&self, uid: &PodUid, spec: &PodSpec, limits: &Resources) -> Result<()> {
        let resources = PodResources::of(spec);
        self.count(uid, &resources);
        let resize = || self.tree.limit_pod(resources.class, uid.as_str(), limits);
        Ok(self.metrics.timed(CgroupOperation::Update, resize)?)
    }

    /// Makes the cgroup of a pod, and gives the class Burstable its share. One that exists gets the limits again.
    ///
    /// # Errors
    /// If it cannot be made or limited.
    pub(crate) fn make(&self, uid: &PodUid, spec: &PodSpec) -> Result<()> {
        let resources = PodResources::of(spec);
        self.count(uid, &resources);
        let limits = self.limits(spec);
        let make = || self.tree.make_pod(resources.class, uid.as_str(), &limits);
        Ok(self.metrics.timed(CgroupOperation::Create, make)?)
    }

    /// Makes the cgroup of a pod if it is missing.
    ///
    /// # Errors
    /// If it cannot be made or limited.
    pub(crate) fn ensure(&self, uid: &PodUid, spec: &PodSpec) -> Result<()> {
        match self.tree.has_pod(PodResources::of(spec).class, uid.as_str()) {
            true => Ok(()),
            false => self.make(uid, spec),
        }
    }

    /// Kills a container if one of its processes stays outside of the host IDs of this map; the process.
    ///
    /// # Errors
    /// If its processes cannot be read, or one does not end.
    pub(crate) fn kill_outside(
        &self,
        uid: &PodUid,
        spec: &PodSpec,
        container: &str,
        map: &[IdMapping],
    ) -> Result<Option<u32>> {
        let class = PodResources::of(spec).class;
        let outside = || -> Result<BTreeSet<u32>> {
            let all = self.tree.container_processes(class, uid.as_str(), container)?;
            Ok(all.into_iter().filter(|process| is_outside(*process, map)).collect())
        };
        let mut found = outside()?;
        for _ in 0..LOOKS {
            if found.is_empty() {
                return Ok(None);
            }
            // A process of the runtime may be on its way in.
            std::thread::sleep(PAUSE);
            let still = outside()?;
            found.retain(|process| still.contains(process));
        }
        self.tree.kill_container(class, uid.as_str(), container)?;
        Ok(found.pop_first())
    }

    /// What the kernel has counted for the whole host, and for all pods together.
    ///
    /// # Errors
    /// If a cgroup's path is invalid.
    pub fn node_counters(&self) -> Result<(Counters, Counters)> {
        Ok((self.tree.host_counters(), self.tree.counters()?))
    }

    /// What the kernel has counted for a pod and for its containers, which are named by the runtime's IDs. One that has no cgroup
    /// of its own is left out: that of a virtual machine, or of a kernel in user space.
    ///
    /// # Errors
    /// If a cgroup's path is invalid.
    pub fn pod_counters(
        &self,
        uid: &PodUid,
        spec: &PodSpec,
        containers: &[&str],
        set: CounterSet,
    ) -> Result<(Counters, BTreeMap<String, Counters>)> {
        let class = PodResources::of(spec).class;
        let mut found = BTreeMap::new();
        for id in containers {
            if let Some(counters) = self.tree.container_counters(class, uid.as_str(), id, set)? {
                found.insert((*id).to_owned(), counters);
            }
        }
        Ok((self.tree.pod_counters(class, uid.as_str(), set)?, found))
    }

    /// What the kernel has counted for the cgroup that a process of the host is in; `None` if that is the root.
    #[must_use]
    pub fn process_counters(&self, process: u32, set: CounterSet) -> Option<Counters> {
        self.tree.process_counters(process, set)
    }

    /// A process of the first of these sandboxes and containers of a pod that has one in a cgroup of its own. The process of a
    /// sandbox is in the network of its pod. The first one of a container is as a rule, unless it has left it, for which it needs
    /// CAP_SYS_ADMIN: without a sandbox's process there is none to compare it with.
    ///
    /// # Errors
    /// If a cgroup cannot be read.
    pub fn process(&self, uid: &PodUid, spec: &PodSpec, ids: &[&str]) -> Result<Option<u32>> {
        let class = PodResources::of(spec).class;
        for id in ids {
            if let Some(process) = self.tree.first_process(class, uid.as_str(), id)? {
                return Ok(Some(process));
            }
        }
        Ok(None)
    }

    /// How many processes these containers of a pod have together; `None` if none has a cgroup of its own.
    ///
    /// # Errors
    /// If a cgroup cannot be read.
    pub fn process_count(&self, uid: &PodUid, spec: &PodSpec, containers: &[&str]) -> Result<Option<u64>> {
        let class = PodResources::of(spec).class;
        let mut all = None;
        for id in containers {
            if let Some(count) = self.tree.process_count(class, uid.as_str(), id)? {
                all = Some(all.unwrap_or(0) + count);
            }
        }
        Ok(all)
    }

    /// Kills the processes in the cgroup of a pod, and removes it.
    ///
    /// # Errors
    /// If a process does not end, or the kernel does not remove it.
    pub(crate) fn remove(&self, uid: &str) -> Result<()> {
        self.metrics.timed(CgroupOperation::Destroy, || self.tree.remove_pod(uid))?;
        let mut state = self.lock();
        if state.burstable.remove(uid).is_some() {
            self.share(&state);
        }
        Ok(())
    }

    /// Removes the cgroups of pods that are neither `wanted` nor recorded. One of another instance is left, and so is one
    /// of an unknown owner that has processes. A failure is logged.
    pub(crate) fn remove_orphans(&self, wanted: &BTreeSet<String>, is_recorded: impl Fn(&str) -> bool) {
        let found = match self.tree.pods() {
            Ok(found) => found,
            Err(error) => {
                return warn!("cannot look for cgroups of pods that are gone: {}", with_cause(&error));
            }
        };
        // A pod is recorded before its cgroup is made, so that its record is there if its cgroup was found.
        for pod in found.iter().filter(|pod| !wanted.contains(&pod.uid) && !is_recorded(&pod.uid)) {
            match self.remove_orphan(pod) {
                Ok(true) => info!("removed the cgroup {}: no source has a pod with this UID", pod.path),
                Ok(false) => {}
                Err(error) => warn!("cannot remove the cgroup {} of a pod that is gone: {error}", pod.path),
            }
        }
    }

    fn remove_orphan(&self, pod: &PodCgroup) -> Result<bool> {
        let is_ours = match pod.owner {
            PodCgroupOwner::This => true,
            PodCgroupOwner::Other => false,
            PodCgroupOwner::Unknown => {
                let is_used = self.tree.has_processes(pod)?;
                if is_used {
                    warn!(
                        "the cgroup {} has processes of a pod that no source has and that this agent did not start; \
                         they are left: end them and remove it if no kubelet uses it",
                        pod.path
                    );
                }
                !is_used
            }
        };
        if is_ours {
            self.remove(&pod.uid)?;
        }
        Ok(is_ours)
    }
}

/// Whether a process has host IDs that this map has not. One that has ended has none.
fn is_outside(process: u32, map: &[IdMapping]) -> bool {
    std::fs::read_to_string(format!("/proc/{process}/uid_map")).is_ok_and(|text| leads_outside(&text, map))
}

/// Whether a `uid_map`, as the host reads it, has host IDs that this map has not. A container may make user namespaces of its own:
/// they have a part of its pod's IDs, and none before they are set up.
fn leads_outside(text: &str, map: &[IdMapping]) -> bool {
    let is_inside = |line: &str| {
        let mut numbers = line.split_whitespace().skip(1).map(str::parse::<u64>);
        let (Some(Ok(first)), Some(Ok(length))) = (numbers.next(), numbers.next()) else { return false };
        map.iter().any(|own| {
            let (begin, own_length) = (u64::from(own.host_id), u64::from(own.length));
            first >= begin && first + length <= begin + own_length
        })
    };
    !text.lines().all(is_inside)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_outside_if_it_has_host_ids_that_its_pod_has_not() {
        let block = IdMapping { container_id: 0, host_id: 131_072, length: 65_536 };
        let is_outside = |text| leads_outside(text, &[block]);
        assert!(is_outside("         0          0 4294967295\n"), "the host's");
        assert!(is_outside("0 65536 65536\n"), "another pod's");
        assert!(is_outside("0 131072 65537\n") && is_outside("0 131071 1\n"));
        assert!(is_outside("0 131072 65536\n65536 0 1\n") && is_outside("what is this\n"));
        assert!(!is_outside("         0     131072      65536\n"), "its own");
        // As `unshare --map-root-user` makes it in a container, and before it has a map.
        assert!(!is_outside("0 132072 1\n") && !is_outside(""));
        // Above the greatest PID of Linux: no such process.
        assert!(!super::is_outside(1 << 30, &[block]));
        assert!(super::is_outside(std::process::id(), &[]));
    }
}

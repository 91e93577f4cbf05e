//! The cgroups of a node's pods on this host: directories (the cgroupfs driver), or slices of systemd.

use std::collections::BTreeSet;
use std::path::Path;

use rustix::fs::{XattrFlags, getxattr, setxattr};

use super::names::{KubeNames, QosClass};
use super::values::{MIN_SHARES, NodeLimits, cpu_shares, cpu_weight};
use crate::counters::{CounterSet, Counters};
use crate::error::{Error, Result};
use crate::find::Kind;
use crate::group::Group;
use crate::groups::Groups;
use crate::resources::Resources;
use crate::version::Version;

/// Says which instance has made the cgroup of a pod. Only root of the host can read or write it.
const OWNER: &str = "trusted.wardlet.instance";
/// The controllers that a `cgroupRoot` must have, as far as this host has them.
const CONTROLLERS: [&str; 5] = ["cpu", "cpuset", "memory", "pids", "hugetlb"];
/// The bytes of an [`OWNER`] that are read.
const OWNER_LENGTH: usize = 256;

/// `kubepods` with the cgroups of the QoS classes and of the pods.
#[derive(Debug)]
pub struct KubePods {
    pub(super) groups: Groups,
    names: KubeNames,
    owner: String,
}

/// The cgroup of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodCgroup {
    /// The pod's UID, by the name of the cgroup.
    pub uid: String,
    /// Its path from the root of each hierarchy.
    pub path: String,
    /// Which instance has made it.
    pub owner: PodCgroupOwner,
}

/// Which instance has made the cgroup of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PodCgroupOwner {
    /// This one.
    This,
    /// Another one, which may be at work.
    Other,
    /// None that says so: a kubelet, or an instance on a kernel that keeps no such mark.
    Unknown,
}

impl KubePods {
    /// The cgroups with these names on this host. `owner` is the instance that makes them; it marks each pod's cgroup.
    ///
    /// # Errors
    /// [`Error::NoSystemd`] and [`Error::SystemdVersion`] for names of the systemd driver on a host without systemd or with
    /// cgroup v1. [`Error::NoRoot`] if the cgroup that `kubepods` is to be in does
    /// not exist in each hierarchy that limits pods.
    pub fn open(names: KubeNames, owner: &str) -> Result<Self> {
        let groups = Groups::find()?;
        if names.is_systemd() && !groups.has_systemd() {
            return Err(match groups.version() {
                Version::V2 => Error::NoSystemd,
                version => Error::SystemdVersion(version),
            });
        }
        if let Some(root) = names.root() {
            let group = groups.open(&root)?;
            let is_needed = |place: &&crate::group::Place| CONTROLLERS.iter().any(|name| place.has(name));
            if let Some(place) = group.places.iter().filter(is_needed).find(|place| !place.dir.is_dir()) {
                return Err(Error::NoRoot { path: root, missing: place.dir.clone() });
            }
        }
        Ok(Self { groups, names, owner: owner.to_owned() })
    }

    /// The names of its cgroups.
    #[must_use]
    pub fn names(&self) -> &KubeNames {
        &self.names
    }

    /// The cgroup version of this host.
    #[must_use]
    pub fn version(&self) -> Version {
        self.groups.version()
    }

    /// Makes `kubepods` and the cgroups of the QoS classes. Those that exist keep their limits, but for the class
    /// BestEffort, which has the smallest share of the CPU.
    ///
    /// # Errors
    /// If one cannot be made.
    pub fn make_classes(&self) -> Result<()> {
        for class in QosClass::ALL {
            self.groups.make(&self.names.class(class))?;
        }
        self.keep_cpuset()?;
        let shares = Resources { cpu_shares: Some(MIN_SHARES), ..Resources::default() };
        self.apply(&self.names.class(QosClass::BestEffort), &shares)
    }

    /// systemd takes the controller `cpuset` away from a slice that has no use for it by its properties, although containers
    /// may: all CPUs are one.
    fn keep_cpuset(&self) -> Result<()> {
        let kubepods = self.names.kubepods();
        let all = || self.groups.all_cpus();
        let cpus = self.names.is_systemd().then(all).flatten();
        let limits = Resources { cpuset_cpus: cpus, ..Resources::default() };
        self.apply(&kubepods, &limits)
    }

    /// Limits what all pods use together.
    ///
    /// # Errors
    /// If the kernel refuses a limit, for instance of memory that is in use.
    pub fn limit_node(&self, limits: &NodeLimits) -> Result<()> {
        self.apply(&self.names.kubepods(), &limits.resources())
    }

    /// Sets the CPU shares of the class Burstable, for the sum of its pods' requests in thousandths of a CPU.
    ///
    /// # Errors
    /// If the kernel refuses them.
    pub fn set_burstable_cpu(&self, millis: u64) -> Result<()> {
        let shares = Resources { cpu_shares: Some(cpu_shares(millis)), ..Resources::default() };
        self.apply(&self.names.class(QosClass::Burstable), &shares)
    }

    /// Makes the cgroup of a pod with these limits, and marks it as this instance's. One that exists gets the limits.
    ///
    /// # Errors
    /// If it cannot be made or limited.
    pub fn make_pod(&self, class: QosClass, uid: &str, limits: &Resources) -> Result<()> {
        let path = self.names.pod(class, uid);
        let group = self.groups.open(&path)?;
        self.groups.make(&path)?;
        for dir in group.dirs() {
            // A kernel that keeps no mark makes the cgroup one of an unknown owner.
            let _ = setxattr(dir, OWNER, self.owner.as_bytes(), XattrFlags::empty());
        }
        self.apply(&path, limits)
    }

    /// Gives the cgroup of a pod other limits. What is `None` stays.
    ///
    /// # Errors
    /// If the kernel refuses a limit.
    pub fn limit_pod(&self, class: QosClass, uid: &str, limits: &Resources) -> Result<()> {
        self.apply(&self.names.pod(class, uid), limits)
    }

    /// Whether the cgroup of a pod exists.
    #[must_use]
    pub fn has_pod(&self, class: QosClass, uid: &str) -> bool {
        self.groups.exists(&self.names.pod(class, uid))
    }

    /// Kills all processes in the cgroup of a pod and removes it, whatever its class. The kernel removes none that has a
    /// process, so that after this no process of the pod is left. One that does not exist is no error.
    ///
    /// # Errors
    /// If a process does not end, or a directory cannot be removed.
    pub fn remove_pod(&self, uid: &str) -> Result<()> {
        for class in QosClass::ALL {
            let path = self.names.pod(class, uid);
            self.groups.kill_all(&path)?;
            self.groups.remove(&path)?;
        }
        Ok(())
    }

    /// The processes of one container of a pod: those in the cgroup that its runtime has named after its ID, in the pod's.
    ///
    /// # Errors
    /// If they cannot be read; a cgroup that does not exist has none.
    pub fn container_processes(&self, class: QosClass, uid: &str, container: &str) -> Result<BTreeSet<u32>> {
        let mut found = BTreeSet::new();
        for path in self.container_groups(class, uid, container)? {
            found.extend(self.groups.open(&path)?.processes()?);
        }
        Ok(found)
    }

    /// A process of a container or sandbox of a pod, in the cgroup that its runtime has named after its ID; see
    /// [`Group::first_process`].
    ///
    /// # Errors
    /// If it cannot be read; a cgroup that does not exist has none.
    pub fn first_process(&self, class: QosClass, uid: &str, container: &str) -> Result<Option<u32>> {
        for path in self.container_groups(class, uid, container)? {
            if let Some(process) = self.groups.open(&path)?.first_process()? {
                return Ok(Some(process));
            }
        }
        Ok(None)
    }

    /// How many processes a container of a pod has; see [`Group::process_count`].
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn process_count(&self, class: QosClass, uid: &str, container: &str) -> Result<Option<u64>> {
        let paths = self.container_groups(class, uid, container)?;
        paths.first().map_or(Ok(None), |path| self.groups.open(path)?.process_count())
    }

    /// Kills the processes of one container of a pod.
    ///
    /// # Errors
    /// If one does not end.
    pub fn kill_container(&self, class: QosClass, uid: &str, container: &str) -> Result<()> {
        let groups = self.container_groups(class, uid, container)?;
        groups.iter().try_for_each(|path| self.groups.kill_all(path))
    }

    fn container_groups(&self, class: QosClass, uid: &str, container: &str) -> Result<Vec<String>> {
        let pod = self.names.pod(class, uid);
        let all = self.groups.below(&pod)?.into_iter();
        Ok(all.filter(|name| is_containers(name, container)).map(|name| format!("{pod}/{name}")).collect())
    }

    /// What the kernel has counted for the whole host. It does not count everything there.
    #[must_use]
    pub fn host_counters(&self) -> Counters {
        self.groups.host_counters()
    }

    /// What the kernel has counted for the cgroup that a process is in; `None` if that is the root, or of no such process.
    #[must_use]
    pub fn process_counters(&self, process: u32, set: CounterSet) -> Option<Counters> {
        self.groups.of_process(process).map(|group| Counters::read_some(&group, set))
    }

    /// What all pods use together.
    ///
    /// # Errors
    /// If the path is invalid.
    pub fn counters(&self) -> Result<Counters> {
        Ok(Counters::read(&self.groups.open(&self.names.kubepods())?))
    }

    /// What a pod uses. Nothing is known of one whose cgroup is gone.
    ///
    /// # Errors
    /// If the path is invalid.
    pub fn pod_counters(&self, class: QosClass, uid: &str, set: CounterSet) -> Result<Counters> {
        Ok(Counters::read_some(&self.groups.open(&self.names.pod(class, uid))?, set))
    }

    /// What one container of a pod uses; `None` if it has no cgroup that is named after its ID.
    ///
    /// # Errors
    /// If a cgroup's path is invalid.
    pub fn container_counters(
        &self,
        class: QosClass,
        uid: &str,
        container: &str,
        set: CounterSet,
    ) -> Result<Option<Counters>> {
        let paths = self.container_groups(class, uid, container)?;
        let Some(path) = paths.first() else { return Ok(None) };
        Ok(Some(Counters::read_some(&self.groups.open(path)?, set)))
    }

    /// The cgroups of all pods.
    ///
    /// # Errors
    /// If a path is invalid; a cgroup that cannot be read has no pods.
    pub fn pods(&self) -> Result<Vec<PodCgroup>> {
        let mut found = Vec::new();
        for class in QosClass::ALL {
            let above = self.names.class(class);
            for name in self.groups.below(&above)? {
                let Some(uid) = self.names.pod_uid(class, &name) else { continue };
                let path = format!("{above}/{name}");
                let owner = self.owner_of(&self.groups.open(&path)?);
                found.push(PodCgroup { uid, path, owner });
            }
        }
        Ok(found)
    }

    /// Whether a process is in this cgroup or below it.
    ///
    /// # Errors
    /// If its processes cannot be read.
    pub fn has_processes(&self, pod: &PodCgroup) -> Result<bool> {
        Ok(!self.groups.open(&pod.path)?.processes()?.is_empty())
    }

    fn owner_of(&self, group: &Group) -> PodCgroupOwner {
        let owners: Vec<Vec<u8>> = group.dirs().filter_map(owner).collect();
        match owners.as_slice() {
            [] => PodCgroupOwner::Unknown,
            all if all.iter().all(|owner| owner == self.owner.as_bytes()) => PodCgroupOwner::This,
            _ => PodCgroupOwner::Other,
        }
    }

    /// Writes the limits that this host can enforce, as the kubelet does: it leaves out those of missing controllers, and has
    /// weights of its own on cgroup v2.
    fn apply(&self, path: &str, limits: &Resources) -> Result<()> {
        let group = self.groups.open(path)?;
        let mut limits = limits.clone();
        if group.with("hugetlb").is_none() {
            limits.hugepages.clear();
        }
        if group.with("pids").is_none() {
            limits.pids = None;
        }
        if group.with("cpu").is_some_and(|place| place.hierarchy.kind == Kind::Unified)
            && let Some(shares) = limits.cpu_shares.take()
        {
            limits.unified.insert("cpu.weight".to_owned(), cpu_weight(shares).to_string());
        }
        self.groups.apply(path, &limits)
    }
}

/// Whether a cgroup is a container's: it has the container's ID for a name, or at the end of its name as `cri-containerd-ID.scope`
/// and `crio-ID`. CRI-O has the container's monitor in another, `crio-conmon-ID`.
fn is_containers(name: &str, id: &str) -> bool {
    let unit = name.strip_suffix(".scope").unwrap_or(name);
    let prefix = unit.strip_suffix(id).filter(|_| !id.is_empty());
    prefix.is_some_and(|prefix| prefix.is_empty() || prefix.ends_with('-') && !prefix.contains("conmon"))
}

/// The mark of a directory; `None` if it has none.
fn owner(dir: &Path) -> Option<Vec<u8>> {
    let mut buffer = vec![0; OWNER_LENGTH];
    let length = getxattr(dir, OWNER, buffer.as_mut_slice()).ok()?;
    buffer.truncate(length);
    Some(buffer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cgroup_of_a_container_ends_with_its_id_and_is_not_its_monitors() {
        for name in
            ["06ec", "cri-containerd-06ec.scope", "crio-06ec", "crio-06ec.scope", "wardlet-06ec.scope"]
        {
            assert!(is_containers(name, "06ec"), "{name}");
        }
        for name in ["crio-conmon-06ec", "crio-conmon-06ec.scope", "x06ec", "06ecx", "06ec-x", ""] {
            assert!(!is_containers(name, "06ec"), "{name}");
        }
        assert!(!is_containers("crio-", "") && !is_containers("", ""));
    }
}

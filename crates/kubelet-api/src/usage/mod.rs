//! What the node and its pods use, in the forms that collectors read.

mod resource;
mod summary;

use std::future::Future;
use std::pin::Pin;

use cgroups::Counters;

pub(crate) use resource::resource_metrics;
pub(crate) use summary::summary;

/// The interface that pods have, by convention; the summary has its counters as those of a pod or node.
pub const POD_INTERFACE: &str = "eth0";

/// What is used, or why it cannot be read.
pub type Reading<'a, T> = Pin<Box<dyn Future<Output = Result<T, String>> + Send + 'a>>;

/// Reads what the node and its pods use: a port that the caller implements.
pub trait Usage: Send + Sync {
    /// What they use now.
    fn read(&self, detail: Detail) -> Reading<'_, NodeUsage>;

    /// What pods and containers use, as metrics under cAdvisor's names in the text format of Prometheus.
    fn container_metrics(&self) -> Reading<'_, String>;
}

/// How much of it is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// CPU time and memory, once.
    CpuAndMemory,
    /// CPU time and memory, with CPU usage rates.
    Rates,
    /// All.
    All,
}

/// What a node uses.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NodeUsage {
    /// Its name.
    pub name: String,
    /// When it was started: milliseconds since 1970.
    pub started: u64,
    /// What all its processes use.
    pub used: Used,
    /// Its memory in bytes, without that of huge pages.
    pub memory: u64,
    /// What parts of it use: all pods together, and the cgroups of the agent and of the container runtime where they have some.
    pub parts: Vec<PartUsage>,
    /// Its network interfaces, [`POD_INTERFACE`] first if it has one.
    pub interfaces: Vec<Interface>,
    /// The filesystem of pods' volumes and logs.
    pub filesystem: Option<Filesystem>,
    /// That of images, and what these take of it.
    pub images: Option<Filesystem>,
    /// That of containers' writable layers, and what these take of it.
    pub containers: Option<Filesystem>,
    /// Its processes and threads.
    pub tasks: Option<TaskLimit>,
    /// Its pods that run.
    pub pods: Vec<PodUsage>,
}

impl NodeUsage {
    /// Whether the rate of CPU time is known of all that has used some.
    #[must_use]
    pub fn has_rates(&self) -> bool {
        let of_pods = self.pods.iter().flat_map(|pod| {
            std::iter::once(&pod.used).chain(pod.containers.iter().map(|container| &container.used))
        });
        let mut all = std::iter::once(&self.used).chain(of_pods);
        all.all(|used| used.counters.cpu.is_none() || used.cpu_rate.is_some())
    }
}

/// Processes and threads of a node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TaskLimit {
    /// How many there are.
    pub count: u64,
    /// How many there can be.
    pub limit: u64,
}

/// What is used at some time.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Used {
    /// When it was read: milliseconds since 1970.
    pub at: u64,
    /// The CPU usage rate: nanoseconds of CPU time per second; `None` if it is not known yet.
    pub cpu_rate: Option<u64>,
    /// What the kernel has counted.
    pub counters: Counters,
}

/// What a part of a node uses.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PartUsage {
    /// Its name: `pods`, `runtime` or `kubelet`.
    pub name: &'static str,
    /// When it was started: milliseconds since 1970.
    pub started: u64,
    /// What it uses.
    pub used: Used,
}

/// What a pod uses.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PodUsage {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// When it was started: milliseconds since 1970.
    pub started: u64,
    /// What its cgroup has counted.
    pub used: Used,
    /// Its network interfaces, [`POD_INTERFACE`] first; none for one on the host's network.
    pub interfaces: Vec<Interface>,
    /// How many processes its containers have; `None` if it is not known.
    pub processes: Option<u64>,
    /// Its containers that run. One of which it is not known what it uses has no counters.
    pub containers: Vec<ContainerUsage>,
    /// Its volumes that the node has made of files, as far as they were measured.
    pub volumes: Vec<VolumeUsage>,
    /// What other files that the node keeps for it take, such as `/etc/hosts`.
    pub files: Option<Filesystem>,
}

impl PodUsage {
    /// What it takes of the filesystem of the node: layers and logs of containers, volumes on the disk, other files.
    #[must_use]
    pub fn ephemeral_storage(&self) -> Option<Filesystem> {
        let containers = self.containers.iter().flat_map(|container| [container.layer, container.logs]);
        let volumes = self.volumes.iter().filter(|volume| volume.is_ephemeral_storage);
        let parts = containers.flatten().chain(volumes.map(|volume| volume.filesystem));
        let sum = |sum: Filesystem, part: Filesystem| Filesystem {
            used: sum.used.saturating_add(part.used),
            inodes_used: sum.inodes_used.saturating_add(part.inodes_used),
            ..sum
        };
        Some(parts.fold(self.files?, sum))
    }
}

/// What a volume takes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VolumeUsage {
    /// Its name in the pod.
    pub name: String,
    /// The filesystem that it is on, and what it takes of that.
    pub filesystem: Filesystem,
    /// Whether it may take more: it is too deep to be counted completely.
    pub at_least: bool,
    /// Whether it counts as ephemeral storage of the pod.
    pub is_ephemeral_storage: bool,
}

/// What a container uses.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ContainerUsage {
    /// Its name.
    pub name: String,
    /// When it was started: milliseconds since 1970.
    pub started: u64,
    /// What its cgroup or its runtime has counted.
    pub used: Used,
    /// Its writable layer.
    pub layer: Option<Filesystem>,
    /// Its logs.
    pub logs: Option<Filesystem>,
    /// Whether its logs may take more: they are not counted completely.
    pub logs_at_least: bool,
}

/// A filesystem, and what something takes of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Filesystem {
    /// When it was read: milliseconds since 1970.
    pub at: u64,
    /// Bytes that are free for users.
    pub available: u64,
    /// All its bytes.
    pub capacity: u64,
    /// Bytes that are taken.
    pub used: u64,
    /// Inodes that are free.
    pub inodes_free: u64,
    /// All its inodes.
    pub inodes: u64,
    /// Inodes that are taken.
    pub inodes_used: u64,
}

/// A network interface.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Packets received that were damaged.
    pub rx_errors: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Packets that could not be sent.
    pub tx_errors: u64,
}

//! What the runtime says that it has on disks, and what containers without a cgroup of their own use.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use cgroups::{Counters, Memory};
use cri::client::Client;
use cri::{
    ContainerStats, ImageFsInfoRequest, ListContainerStatsRequest, ListPodSandboxRequest, PodSandboxFilter,
    PodSandboxState, PodSandboxStateValue, UInt64Value, within,
};
use kubelet_api::{Filesystem, Used};
use tracing::warn;

use super::statvfs;
use crate::warned::WarnOnce;

/// How long the runtime may take.
const DEADLINE: Duration = Duration::from_secs(20);
const NANOS_OF_MILLI: i64 = 1_000_000;

/// What a runtime says of images and containers. What it does not say is left out.
#[derive(Debug, Clone, Default)]
pub(super) struct RuntimeUsage {
    pub(super) images: Option<FilesystemUsage>,
    /// Of containers' writable layers.
    pub(super) containers: Option<FilesystemUsage>,
    /// What containers use, by the runtime's IDs.
    stats: BTreeMap<String, ContainerStats>,
    /// The sandboxes that are ready, by the UIDs of their pods.
    sandboxes: BTreeMap<String, String>,
    /// Why it is not known what containers use.
    problem: Option<String>,
}

/// What something takes of the filesystem that has this directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FilesystemUsage {
    dir: PathBuf,
    bytes: u64,
    inodes: u64,
}

/// Where the runtime keeps images and containers, as this process sees it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct RuntimeDirs {
    pub(super) images: Option<PathBuf>,
    pub(super) containers: Option<PathBuf>,
}

impl RuntimeDirs {
    /// # Errors
    /// If the runtime does not answer.
    pub(super) async fn read(client: &Client, host_root: &Path, warned: &WarnOnce) -> Result<Self, String> {
        let mut images = client.images();
        let places = within(DEADLINE, "ImageFsInfo", images.image_fs_info(ImageFsInfoRequest {}));
        let places = places.await.map_err(|error| error.to_string())?;
        let first = |all: &[cri::FilesystemUsage]| {
            FilesystemUsage::of(all.first()?, warned).map(|of| host_root.join(of.dir))
        };
        let images = first(&places.image_filesystems);
        // A runtime that does not tell them apart has them at one place.
        let containers = first(&places.container_filesystems).or_else(|| images.clone());
        Ok(Self { images, containers })
    }
}

impl RuntimeUsage {
    /// All of it.
    pub(super) async fn read(client: &Client, warned: &WarnOnce) -> Self {
        let (mut images, mut runtime) = (client.images(), client.runtime());
        let places = within(DEADLINE, "ImageFsInfo", images.image_fs_info(ImageFsInfoRequest {}));
        let state = Some(PodSandboxStateValue { state: PodSandboxState::SandboxReady.into() });
        let filter = Some(PodSandboxFilter { state, ..PodSandboxFilter::default() });
        let request = ListPodSandboxRequest { filter };
        let sandboxes = within(DEADLINE, "ListPodSandbox", runtime.list_pod_sandbox(request));
        let (places, of_containers, sandboxes) =
            tokio::join!(places, Self::read_containers(client), sandboxes);
        let places =
            places.inspect_err(|error| warn!("what images take is not known: {error}")).unwrap_or_default();
        let sandboxes = sandboxes
            .inspect_err(|error| warn!("which sandboxes run is not known: {error}"))
            .unwrap_or_default();
        let first = |all: &[cri::FilesystemUsage]| FilesystemUsage::of(all.first()?, warned);
        let by_pod = |sandbox: cri::PodSandbox| Some((sandbox.metadata?.uid, sandbox.id));
        Self {
            images: first(&places.image_filesystems),
            containers: first(&places.container_filesystems),
            sandboxes: sandboxes.items.into_iter().filter_map(by_pod).collect(),
            ..of_containers
        }
    }

    /// What containers use alone.
    pub(super) async fn read_containers(client: &Client) -> Self {
        let mut runtime = client.runtime();
        let request = ListContainerStatsRequest { filter: None };
        let stats = match within(DEADLINE, "ListContainerStats", runtime.list_container_stats(request)).await
        {
            Ok(stats) => stats.stats,
            Err(error) => {
                warn!("what containers use is not known: {error}");
                return Self::unknown(error.to_string());
            }
        };
        let by_id = |mut stats: ContainerStats| Some((stats.attributes.take()?.id, stats));
        Self { stats: stats.into_iter().filter_map(by_id).collect(), ..Self::default() }
    }

    /// Nothing is known, for this reason.
    pub(super) fn unknown(cause: String) -> Self {
        Self { problem: Some(cause), ..Self::default() }
    }

    /// # Errors
    /// If the runtime did not say what containers use: that a container is missing says nothing then.
    pub(super) fn check_stats(&self) -> Result<(), String> {
        match &self.problem {
            Some(cause) => Err(format!("what containers use is not known: {cause}")),
            None => Ok(()),
        }
    }

    /// The sandbox of a pod.
    pub(super) fn sandbox(&self, uid: &str) -> Option<&str> {
        self.sandboxes.get(uid).map(String::as_str)
    }

    /// The writable layer of a container.
    pub(super) fn layer(&self, container: &str, warned: &WarnOnce) -> Option<FilesystemUsage> {
        FilesystemUsage::of(self.stats.get(container)?.writable_layer.as_ref()?, warned)
    }

    /// What a container uses: for one in a virtual machine or a kernel in user space, of which no cgroup of this machine knows.
    /// `None` if the runtime does not know either.
    pub(super) fn used(&self, container: &str) -> Option<Used> {
        let stats = self.stats.get(container)?;
        let cpu = stats.cpu.as_ref()?;
        let at = u64::try_from(cpu.timestamp / NANOS_OF_MILLI).ok().filter(|at| *at > 0)?;
        let counters = Counters {
            cpu: Some(value(cpu.usage_core_nano_seconds.as_ref())?),
            memory: memory(stats)?,
            ..Counters::default()
        };
        Some(Used { at, cpu_rate: value(cpu.usage_nano_cores.as_ref()), counters })
    }
}

fn value(of: Option<&UInt64Value>) -> Option<u64> {
    of.map(|of| of.value)
}

/// The counters that have these sums: CRI has the remaining bytes instead of limits.
fn memory(stats: &ContainerStats) -> Option<Memory> {
    let of = stats.memory.as_ref()?;
    let working_set = value(of.working_set_bytes.as_ref())?;
    let usage = value(of.usage_bytes.as_ref()).unwrap_or(working_set);
    // 0 also stands for no limit.
    let left = value(of.available_bytes.as_ref()).filter(|left| *left > 0);
    let swap = stats.swap.as_ref();
    let swap_used = swap.and_then(|swap| value(swap.swap_usage_bytes.as_ref()));
    let swap_left = swap.and_then(|swap| value(swap.swap_available_bytes.as_ref()));
    Some(Memory {
        usage: Some(usage),
        inactive_file: Some(usage.saturating_sub(working_set)),
        limit: left.map(|left| left.saturating_add(working_set)),
        rss: value(of.rss_bytes.as_ref()),
        faults: value(of.page_faults.as_ref()),
        major_faults: value(of.major_page_faults.as_ref()),
        swap: swap_used,
        swap_limit: swap_left.map(|left| left.saturating_add(swap_used.unwrap_or(0))),
        ..Memory::default()
    })
}

impl FilesystemUsage {
    fn of(usage: &cri::FilesystemUsage, warned: &WarnOnce) -> Option<Self> {
        let number = |value: &Option<UInt64Value>| value.map_or(0, |value| value.value);
        let dir = Path::new(&usage.fs_id.as_ref()?.mountpoint);
        let below = dir.strip_prefix("/").ok();
        let is_plain = |below: &Path| below.components().all(|part| matches!(part, Component::Normal(_)));
        let Some(below) = below.filter(|below| is_plain(below)) else {
            warned.warn(format!(
                "the runtime names the directory {dir:?} of images or containers, which is not absolute or has `..` in it: what \
                 they take there is not served"
            ));
            return None;
        };
        let (bytes, inodes) = (number(&usage.used_bytes), number(&usage.inodes_used));
        Some(Self { dir: below.to_owned(), bytes, inodes })
    }

    /// This and its filesystem; `None` if the directory is not there.
    pub(super) fn with_statvfs(&self, host_root: &Path) -> Option<Filesystem> {
        let of_disk = statvfs(&host_root.join(&self.dir))?;
        Some(Filesystem { used: self.bytes, inodes_used: self.inodes, ..of_disk })
    }
}

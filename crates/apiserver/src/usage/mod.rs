//! What this node and its pods use, for the kubelet's API: CPU time and memory from cgroups, disks from the runtime.

mod containers;
mod host;
mod interfaces;
mod runtime;
mod storage;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use agent::{ContainerView, PodCgroups, StateView, Stored};
use cgroups::{CounterSet, Counters, Rates};
use cri::client::Client;
use kubelet_api::{ContainerUsage, Detail, Filesystem, NodeUsage, PartUsage, PodUsage, Reading, Usage, Used};
use manifest::k8s_openapi::api::core::v1::PodSpec;
use tokio::sync::OnceCell;
use tracing::warn;

use crate::node::MachineFacts;
use host::Host;
use runtime::{Disks, RuntimeDirs};
use storage::LocalStorage;

/// The time between two reads for a rate, if nothing was read before.
const FIRST_RATE: Duration = Duration::from_millis(1_100);
const NANOS_OF_MILLI: u64 = 1_000_000;
/// Bytes of a block in the metadata of a file.
const BLOCK: u64 = 512;

/// Reads what this node and its pods use.
pub(crate) struct UsageReader {
    reader: Arc<Reader>,
    client: Client,
    /// Where the runtime keeps images and containers.
    dirs: OnceCell<RuntimeDirs>,
}

/// The filesystems of a node, as device numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Devices {
    /// That of pods' volumes and logs.
    pub(crate) node: u64,
    /// That of images; `None` if the runtime does not say.
    pub(crate) images: Option<u64>,
    /// That of containers' writable layers; `None` if the runtime does not say.
    pub(crate) containers: Option<u64>,
}

/// Where what does not come from the runtime is read.
#[derive(Debug)]
pub(crate) struct UsagePlaces {
    /// The node's name.
    pub(crate) node: String,
    /// The agent's state directory.
    pub(crate) state: PathBuf,
    /// The directory of the pods' volumes.
    pub(crate) root_dir: PathBuf,
    /// Where the root directory of the host is seen.
    pub(crate) host_root: PathBuf,
    /// The cgroups of the pods.
    pub(crate) cgroups: Arc<PodCgroups>,
    /// This machine.
    pub(crate) machine: MachineFacts,
    /// Whether volumes are measured.
    pub(crate) measures_volumes: bool,
}

#[derive(Debug)]
struct Reader {
    places: UsagePlaces,
    /// The CPU time of late, by what uses it.
    rates: Rates,
    storage: LocalStorage,
}

impl UsageReader {
    pub(crate) fn new(places: UsagePlaces, client: Client) -> Self {
        let storage = LocalStorage::start(places.measures_volumes);
        let reader = Reader { places, rates: Rates::default(), storage };
        Self { reader: Arc::new(reader), client, dirs: OnceCell::new() }
    }

    /// What the node uses and has, without its pods. Of its filesystems it is what all together take.
    ///
    /// # Errors
    /// If that cannot be read.
    pub(crate) async fn node(&self) -> Result<NodeUsage, String> {
        let dirs = self.dirs().await.cloned().unwrap_or_default();
        let reader = Arc::clone(&self.reader);
        blocking(move || {
            let mut usage = reader.node_now(now())?;
            usage.images = dirs.images.and_then(|dir| filesystem(&dir));
            usage.containers = dirs.containers.and_then(|dir| filesystem(&dir));
            Ok(usage)
        })
        .await
    }

    /// What the node and each of its pods that run use, without the CPU time of late.
    ///
    /// # Errors
    /// If that cannot be read.
    pub(crate) async fn all(&self) -> Result<NodeUsage, String> {
        let disks = Disks::read(&self.client).await;
        self.reader.clone().read(Detail::All, Arc::new(disks)).await
    }

    /// Has the volumes of all pods measured: those of new pods from the next turn on. Does not end.
    pub(crate) async fn measure_volumes(self: Arc<Self>, period: Duration) {
        loop {
            let reader = Arc::clone(&self.reader);
            let watched = blocking(move || {
                let (stored, _) = agent::stored(&reader.places.state).map_err(|error| error.to_string())?;
                reader.storage.watch(&stored);
                Ok(())
            });
            if let Err(error) = watched.await {
                warn!("volumes of new pods are not measured yet: {error}");
            }
            tokio::time::sleep(period).await;
        }
    }

    /// The filesystem of images.
    ///
    /// # Errors
    /// If the runtime does not say where it is, or if it cannot be read.
    pub(crate) async fn image_filesystem(&self) -> Result<Filesystem, String> {
        let missing = || "the runtime does not say where it keeps images".to_owned();
        let dir = self.dirs().await?.images.clone().ok_or_else(missing)?;
        blocking(move || {
            filesystem(&dir).ok_or_else(|| format!("cannot read the filesystem of {}", dir.display()))
        })
        .await
    }

    /// On which filesystems volumes, images and containers are.
    ///
    /// # Errors
    /// If the runtime does not say where it keeps images, or if a directory cannot be read.
    pub(crate) async fn devices(&self) -> Result<Devices, String> {
        use std::os::unix::fs::MetadataExt as _;
        let RuntimeDirs { images, containers } = self.dirs().await?.clone();
        let root_dir = self.reader.places.root_dir.clone();
        blocking(move || {
            let device = |dir: &Path| std::fs::metadata(dir).map(|found| found.dev());
            let node = device(&root_dir).map_err(|error| format!("{}: {error}", root_dir.display()))?;
            let of = |dir: Option<PathBuf>| dir.and_then(|dir| device(&dir).ok());
            Ok(Devices { node, images: of(images), containers: of(containers) })
        })
        .await
    }

    async fn dirs(&self) -> Result<&RuntimeDirs, String> {
        let read = || RuntimeDirs::read(&self.client, &self.reader.places.host_root);
        self.dirs.get_or_try_init(read).await
    }

    async fn read(&self, detail: Detail) -> Result<NodeUsage, String> {
        let disks = match detail {
            Detail::All => Disks::read(&self.client).await,
            Detail::CpuAndMemory | Detail::Rates => Disks::default(),
        };
        let disks = Arc::new(disks);
        let first = self.reader.clone().read(detail, Arc::clone(&disks)).await?;
        if detail == Detail::CpuAndMemory || first.used.cpu_rate.is_some() {
            return Ok(first);
        }
        tokio::time::sleep(FIRST_RATE).await;
        self.reader.clone().read(detail, disks).await
    }
}

impl Usage for UsageReader {
    fn read(&self, detail: Detail) -> Reading<'_, NodeUsage> {
        Box::pin(self.read(detail))
    }

    fn container_metrics(&self) -> Reading<'_, String> {
        Box::pin(containers::metrics(&self.client, &self.reader.places.machine))
    }
}

impl Reader {
    async fn read(self: Arc<Self>, detail: Detail, disks: Arc<Disks>) -> Result<NodeUsage, String> {
        blocking(move || self.read_now(detail, &disks)).await
    }

    /// The node without its pods, and without images and containers.
    fn node_now(&self, at: u64) -> Result<NodeUsage, String> {
        let places = &self.places;
        let host = Host::read(&places.host_root).map_err(|error| error.to_string())?;
        let (counters, of_pods) = places.cgroups.node_counters().map_err(|error| error.to_string())?;
        let used = |name: &str, counters| self.used(name, at, counters);
        let pods = PartUsage { name: "pods", started: host.booted, used: used("pods", of_pods) };
        Ok(NodeUsage {
            name: places.node.clone(),
            started: host.booted,
            huge_pages: host.uncounted_huge_pages(&counters),
            used: used("node", host.completed(counters)),
            memory: host.memory,
            parts: vec![pods],
            filesystem: filesystem(&places.root_dir),
            processes: host.processes,
            ..NodeUsage::default()
        })
    }

    fn read_now(&self, detail: Detail, disks: &Disks) -> Result<NodeUsage, String> {
        let places = &self.places;
        let mut usage = self.node_now(now())?;
        let (stored, _) = agent::stored(&places.state).map_err(|error| error.to_string())?;
        if detail == Detail::All {
            self.storage.watch(&stored);
            usage.interfaces = interfaces::of_host(&places.host_root);
            usage.images = disks.images.as_ref().and_then(|taken| taken.on(&places.host_root));
            usage.containers = disks.containers.as_ref().and_then(|taken| taken.on(&places.host_root));
        }
        usage.pods = stored.iter().filter_map(|stored| self.pod(stored, detail, disks)).collect();
        Ok(usage)
    }

    /// A pod with a container that runs.
    fn pod(&self, stored: &Stored, detail: Detail, disks: &Disks) -> Option<PodUsage> {
        let record = &stored.record;
        let status = stored.status.as_ref()?;
        let running: Vec<Instance<'_>> = status.all_containers().filter_map(Instance::of).collect();
        let spec = record.pod.spec.as_ref()?;
        let ids: Vec<&str> = running.iter().map(|running| running.id).collect();
        let first = ids.first()?;
        let set = if detail == Detail::All { CounterSet::All } else { CounterSet::CpuAndMemory };
        let cgroups = &self.places.cgroups;
        let at = now();
        // A pod that ends meanwhile.
        let (of_pod, mut of_containers) = cgroups.pod_counters(&record.uid, spec, &ids, set).ok()?;
        let container = |running: &Instance<'_>| -> Option<ContainerUsage> {
            let used = self.used(running.id, at, of_containers.remove(running.id)?);
            let (name, started) = (running.name.to_owned(), running.since);
            let mut usage = ContainerUsage { name, started, used, ..ContainerUsage::default() };
            if detail == Detail::All {
                let host_root = &self.places.host_root;
                usage.layer = disks.layers.get(running.id).and_then(|taken| taken.on(host_root));
                usage.logs = logs(&stored.logs.join(running.name));
            }
            Some(usage)
        };
        let containers: Vec<ContainerUsage> = running.iter().filter_map(container).collect();
        let has_network = detail == Detail::All && spec.host_network != Some(true);
        Some(PodUsage {
            namespace: record.namespace.clone(),
            name: record.name.clone(),
            uid: record.uid.to_string(),
            started: status.started,
            used: self.used(record.uid.as_str(), at, of_pod),
            interfaces: if has_network { self.interfaces(stored, spec, first) } else { Vec::new() },
            containers,
            volumes: if detail == Detail::All { self.storage.volumes(stored) } else { Vec::new() },
            files: (detail == Detail::All)
                .then(|| self.storage.files(stored, &self.places.root_dir))
                .flatten(),
        })
    }

    fn interfaces(&self, stored: &Stored, spec: &PodSpec, container: &str) -> Vec<kubelet_api::Interface> {
        let process = self.places.cgroups.process(&stored.record.uid, spec, container);
        process.ok().flatten().map(interfaces::of_process).unwrap_or_default()
    }

    fn used(&self, name: &str, at: u64, counters: Counters) -> Used {
        let nanos = i64::try_from(at.saturating_mul(NANOS_OF_MILLI)).unwrap_or(i64::MAX);
        let cpu_rate = counters.cpu.and_then(|cpu| self.rates.record(name, nanos, cpu));
        Used { at, cpu_rate, counters }
    }
}

/// A container that runs.
struct Instance<'a> {
    name: &'a str,
    id: &'a str,
    since: u64,
}

impl<'a> Instance<'a> {
    fn of(container: &'a ContainerView) -> Option<Self> {
        let StateView::Running { since } = container.state else { return None };
        let id = container.instance.as_ref()?.id.as_str();
        Some(Self { name: &container.name, id, since })
    }
}

/// Runs work that may block.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(error.to_string()))
}

/// The filesystem that has this directory.
fn filesystem(path: &Path) -> Option<Filesystem> {
    let found = rustix::fs::statvfs(path).ok()?;
    let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
    Some(Filesystem {
        at: now(),
        available: bytes(found.f_bavail),
        capacity: bytes(found.f_blocks),
        used: bytes(found.f_blocks.saturating_sub(found.f_bfree)),
        inodes_free: found.f_ffree,
        inodes: found.f_files,
        inodes_used: found.f_files.saturating_sub(found.f_ffree),
    })
}

/// What the logs of a container take. Their directory is the agent's own, without directories in it.
fn logs(dir: &Path) -> Option<Filesystem> {
    use std::os::unix::fs::MetadataExt as _;
    let of_disk = filesystem(dir)?;
    let found = std::fs::read_dir(dir).ok()?.flatten().filter_map(|entry| entry.metadata().ok());
    let (used, inodes_used) =
        found.fold((0, 0), |(bytes, files), found| (bytes + found.blocks() * BLOCK, files + 1));
    Some(Filesystem { used, inodes_used, ..of_disk })
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// The containers that have a writable layer, by the runtime's IDs.
type Layers = BTreeMap<String, runtime::Taken>;

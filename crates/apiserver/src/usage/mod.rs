//! What this node and its pods use, for the kubelet's API: CPU time and memory from cgroups, disks from the runtime.

mod containers;
mod families;
mod host;
mod interfaces;
mod runtime;
mod sampler;
mod serial;
mod storage;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use agent::{ContainerView, PodCgroups, StateView, Stored};
use cgroups::CounterSet;
use cri::client::Client;
use kubelet_api::{ContainerUsage, Detail, Filesystem, NodeUsage, PartUsage, PodUsage, Reading, Usage};
use manifest::k8s_openapi::api::core::v1::PodSpec;
use procfs::Task;
use tokio::sync::OnceCell;
use tokio::time::Instant;
use tracing::warn;

use crate::node::MachineFacts;
use crate::warned::WarnOnce;
use host::Host;
use interfaces::Networks;
use runtime::{RuntimeDirs, RuntimeUsage};
use sampler::{Known, Sampler, Source};
use serial::Serial;
use storage::LocalStorage;

/// The time between two reads for a rate, if nothing was read before.
const FIRST_RATE: Duration = Duration::from_millis(1_100);
/// How long a read waits for the one before it.
const DEADLINE: Duration = Duration::from_secs(20);
/// How long the volumes of new pods may take to be measured before it is decided without them.
const MEASURED: Duration = Duration::from_secs(5);
/// Bytes of a block in the metadata of a file.
const BLOCK: u64 = 512;

/// Reads what this node and its pods use.
pub(crate) struct UsageReader {
    reader: Arc<Reader>,
    client: Client,
    turns: Turns,
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

/// Reads of one kind are done one at a time. Those of the runtime and of filesystems may wait long for an answer, which keeps no
/// others.
struct Turns {
    cgroups: Serial,
    filesystems: Serial,
    runtime: Serial,
    containers: Serial,
    metrics: Serial,
    /// For eviction.
    node: Serial,
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
    sampler: Sampler,
    storage: LocalStorage,
    warned: WarnOnce,
    /// Whether the runtime was needed at the last read to know what a container uses.
    lacks_cgroups: AtomicBool,
}

/// What a read needs.
#[derive(Debug, Clone)]
struct Request {
    detail: Detail,
    /// Whether the processes of pods are counted, which [`Detail::All`] includes.
    counts_processes: bool,
    runtime: Arc<RuntimeUsage>,
    /// The process of the runtime, if it is another one.
    runtime_process: Option<u32>,
}

impl UsageReader {
    pub(crate) fn new(places: UsagePlaces, client: Client) -> Self {
        let reader = Reader {
            storage: LocalStorage::start(places.measures_volumes),
            places,
            sampler: Sampler::default(),
            warned: WarnOnce::default(),
            lacks_cgroups: AtomicBool::default(),
        };
        let [cgroups, filesystems, runtime, containers, metrics, node] =
            [(); 6].map(|()| Serial::new(DEADLINE));
        let turns = Turns { cgroups, filesystems, runtime, containers, metrics, node };
        Self { reader: Arc::new(reader), client, turns, dirs: OnceCell::new() }
    }

    /// What the node uses and has, without its pods. Of its filesystems it is what all together take.
    ///
    /// # Errors
    /// If that cannot be read.
    pub(crate) async fn node(&self) -> Result<NodeUsage, String> {
        let dirs = self.dirs().await.cloned().unwrap_or_default();
        let reader = Arc::clone(&self.reader);
        let read = move || {
            let mut usage = reader.node(now())?;
            usage.images = dirs.images.and_then(|dir| statvfs(&dir));
            usage.containers = dirs.containers.and_then(|dir| statvfs(&dir));
            Ok(usage)
        };
        self.turns.node.run(read).await?
    }

    /// What the node and each of its pods that run use, without the CPU time of late. The volumes of new pods are measured first, as
    /// far as that does not take long.
    ///
    /// # Errors
    /// If that cannot be read.
    pub(crate) async fn all_measured(&self) -> Result<NodeUsage, String> {
        let deadline = Instant::now() + MEASURED;
        // Has the volumes of new pods watched.
        let usage = self.all().await?;
        if self.reader.storage.is_complete() {
            return Ok(usage);
        }
        while !self.reader.storage.is_complete() && Instant::now() < deadline {
            tokio::time::sleep(MEASURED / 50).await;
        }
        self.all().await
    }

    /// The memory and the processes that the node and each of its pods that run have. It waits for no filesystem of pods, and for
    /// the runtime only where containers have no cgroup that counts what they use.
    ///
    /// # Errors
    /// If that cannot be read.
    pub(crate) async fn memory_and_processes(&self) -> Result<NodeUsage, String> {
        let knew = self.reader.lacks_cgroups();
        let read = self.read_once(self.processes_request().await).await?;
        if knew || !self.reader.lacks_cgroups() {
            return Ok(read);
        }
        self.read_once(self.processes_request().await).await
    }

    async fn processes_request(&self) -> Request {
        Request { counts_processes: true, ..self.request(Detail::CpuAndMemory).await }
    }

    /// The same, with what is known of volumes now.
    ///
    /// # Errors
    /// If that cannot be read, or if the runtime does not say what containers use: pods cannot be compared then.
    async fn all(&self) -> Result<NodeUsage, String> {
        let request = self.request(Detail::All).await;
        request.runtime.check_stats()?;
        self.read_once(request).await
    }

    /// What the node and each of its pods use at least: without what the runtime does not say, and with what is known of volumes
    /// now.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(crate) async fn at_least(&self) -> Result<NodeUsage, String> {
        self.read_once(self.request(Detail::All).await).await
    }

    /// Has the volumes of all pods measured: those of new pods from the next turn on. Does not end.
    pub(crate) async fn measure_volumes(self: Arc<Self>, period: Duration) {
        loop {
            let reader = Arc::clone(&self.reader);
            let watch = move || {
                let (stored, _) = agent::stored(&reader.places.state).map_err(|error| error.to_string())?;
                reader.storage.watch(&stored);
                Ok(())
            };
            if let Err(error) = self.turns.node.run(watch).await.and_then(|watched| watched) {
                let error: String = error;
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
        let read =
            move || statvfs(&dir).ok_or_else(|| format!("cannot read the filesystem of {}", dir.display()));
        self.turns.node.run(read).await?
    }

    /// On which filesystems volumes, images and containers are.
    ///
    /// # Errors
    /// If the runtime does not say where it keeps images, or if a directory cannot be read.
    pub(crate) async fn devices(&self) -> Result<Devices, String> {
        use std::os::unix::fs::MetadataExt as _;
        let RuntimeDirs { images, containers } = self.dirs().await?.clone();
        let root_dir = self.reader.places.root_dir.clone();
        let read = move || {
            let device = |dir: &Path| std::fs::metadata(dir).map(|found| found.dev());
            let node = device(&root_dir).map_err(|error| format!("{}: {error}", root_dir.display()))?;
            let of = |dir: Option<PathBuf>| dir.and_then(|dir| device(&dir).ok());
            Ok(Devices { node, images: of(images), containers: of(containers) })
        };
        self.turns.node.run(read).await?
    }

    async fn dirs(&self) -> Result<&RuntimeDirs, String> {
        let Reader { places, warned, .. } = &*self.reader;
        self.dirs.get_or_try_init(|| RuntimeDirs::read(&self.client, &places.host_root, warned)).await
    }

    async fn read_once(&self, request: Request) -> Result<NodeUsage, String> {
        let Turns { cgroups, filesystems, .. } = &self.turns;
        let turns = if request.detail == Detail::All { filesystems } else { cgroups };
        let reader = Arc::clone(&self.reader);
        turns.run(move || reader.read(&request)).await?
    }

    async fn request(&self, detail: Detail) -> Request {
        let own = std::process::id();
        let runtime_process = self.client.server_process().filter(|process| *process != own);
        let runtime = Arc::new(self.runtime_usage(detail).await);
        Request { detail, counts_processes: detail == Detail::All, runtime, runtime_process }
    }

    /// What is needed of the runtime; nothing if it does not answer in time.
    async fn runtime_usage(&self, detail: Detail) -> RuntimeUsage {
        let (client, reader) = (self.client.clone(), Arc::clone(&self.reader));
        let read = match detail {
            Detail::All => {
                self.turns
                    .runtime
                    .spawn(async move { RuntimeUsage::read(&client, &reader.warned).await })
                    .await
            }
            _ if reader.lacks_cgroups() => {
                self.turns.containers.spawn(async move { RuntimeUsage::read_containers(&client).await }).await
            }
            Detail::CpuAndMemory | Detail::Rates => Ok(RuntimeUsage::default()),
        };
        read.unwrap_or_else(|error| {
            warn!("what images and containers use is not known: the runtime is slow: {error}");
            RuntimeUsage::unknown(format!("the runtime is slow: {error}"))
        })
    }

    async fn read(&self, detail: Detail) -> Result<NodeUsage, String> {
        let knew = self.reader.lacks_cgroups();
        let mut request = self.request(detail).await;
        let mut read = self.read_once(request.clone()).await?;
        if detail != Detail::All && !knew && self.reader.lacks_cgroups() {
            request = self.request(detail).await;
            read = self.read_once(request.clone()).await?;
        }
        if detail == Detail::CpuAndMemory || read.has_rates() {
            return Ok(read);
        }
        tokio::time::sleep(FIRST_RATE).await;
        if self.reader.lacks_cgroups() {
            request = self.request(detail).await;
        }
        self.read_once(request).await
    }

    async fn container_metrics(&self) -> Result<String, String> {
        let (client, reader) = (self.client.clone(), Arc::clone(&self.reader));
        let read = async move { containers::metrics(&client, &reader.places.machine, &reader.warned).await };
        self.turns.metrics.spawn(read).await?
    }
}

impl Usage for UsageReader {
    fn read(&self, detail: Detail) -> Reading<'_, NodeUsage> {
        Box::pin(self.read(detail))
    }

    fn container_metrics(&self) -> Reading<'_, String> {
        Box::pin(self.container_metrics())
    }
}

impl Reader {
    fn lacks_cgroups(&self) -> bool {
        self.lacks_cgroups.load(Ordering::Relaxed)
    }

    /// The node without its pods, and without images and containers.
    fn node(&self, at: u64) -> Result<NodeUsage, String> {
        let places = &self.places;
        let host = Host::read(&places.host_root).map_err(|error| error.to_string())?;
        let (counters, of_pods) = places.cgroups.node_counters().map_err(|error| error.to_string())?;
        let pods =
            PartUsage { name: "pods", started: host.booted, used: self.sampler.used("pods", at, of_pods) };
        let huge_pages = places.machine.huge_pages.iter().map(|(size, count)| size.saturating_mul(*count));
        Ok(NodeUsage {
            name: places.node.clone(),
            started: host.booted,
            used: self.sampler.used("node", at, host.completed(counters)),
            memory: host.memory.saturating_sub(huge_pages.fold(0, u64::saturating_add)),
            parts: vec![pods],
            filesystem: statvfs(&places.root_dir),
            tasks: host.tasks,
            ..NodeUsage::default()
        })
    }

    fn read(&self, request: &Request) -> Result<NodeUsage, String> {
        let places = &self.places;
        let mut usage = self.node(now())?;
        let (stored, _) = agent::stored(&places.state).map_err(|error| error.to_string())?;
        if request.detail == Detail::All {
            self.storage.watch(&stored);
        }
        let networks = Networks::open(&places.host_root).map_err(|error| error.to_string())?;
        let mut pods_read = PodReader { reader: self, request, networks: &networks, lacks_cgroups: false };
        usage.pods = stored.iter().filter_map(|stored| pods_read.pod(stored)).collect();
        self.lacks_cgroups.store(pods_read.lacks_cgroups, Ordering::Relaxed);
        if request.detail != Detail::CpuAndMemory {
            let processes = [("kubelet", Some(std::process::id())), ("runtime", request.runtime_process)];
            let booted = usage.started;
            let part = |(name, process): (&'static str, Option<u32>)| self.part(name, process?, booted);
            usage.parts.extend(processes.into_iter().filter_map(part));
        }
        if request.detail == Detail::All {
            let runtime = &request.runtime;
            usage.interfaces = networks.of_host();
            usage.images = runtime.images.as_ref().and_then(|of| of.with_statvfs(&places.host_root));
            usage.containers = runtime.containers.as_ref().and_then(|of| of.with_statvfs(&places.host_root));
        }
        Ok(usage)
    }

    /// The cgroup of a process, with all that is in it. `None` for one without a cgroup of its own.
    fn part(&self, name: &'static str, process: u32, booted: u64) -> Option<PartUsage> {
        /// Milliseconds of a clock tick in `/proc/PID/stat`.
        const TICK: u64 = 10;
        let at = now();
        let counters = self.places.cgroups.process_counters(process, CounterSet::All)?;
        let since_boot = Task::open(process).and_then(|task| task.stat()).ok()?.start_time;
        let started = booted.saturating_add(since_boot.saturating_mul(TICK));
        Some(PartUsage { name, started, used: self.sampler.used(name, at, counters) })
    }
}

/// Reads pod by pod.
struct PodReader<'a> {
    reader: &'a Reader,
    request: &'a Request,
    networks: &'a Networks,
    /// Whether a container that runs has no cgroup that counts what it uses.
    lacks_cgroups: bool,
}

impl PodReader<'_> {
    /// A pod with a container that runs.
    fn pod(&mut self, stored: &Stored) -> Option<PodUsage> {
        let reader = self.reader;
        let record = &stored.record;
        let status = stored.status.as_ref()?;
        let running: Vec<Instance<'_>> = status.all_containers().filter_map(Instance::of).collect();
        let spec = record.pod.spec.as_ref()?;
        let ids: Vec<&str> = running.iter().map(|running| running.id).collect();
        if ids.is_empty() {
            return None;
        }
        let (places, request) = (&reader.places, self.request);
        let (warned, cgroups) = (&reader.warned, &places.cgroups);
        let is_full = request.detail == Detail::All;
        let set = if is_full { CounterSet::All } else { CounterSet::CpuAndMemory };
        let at = now();
        // A pod that ends meanwhile.
        let (of_pod, mut of_containers) = cgroups.pod_counters(&record.uid, spec, &ids, set).ok()?;
        let container = |running: &Instance<'_>| {
            let (id, counted) = (running.id, of_containers.remove(running.id));
            let (used, source) =
                reader.sampler.container(Known { id, at, counted, reported: request.runtime.used(id) });
            self.lacks_cgroups |= source == Source::Runtime;
            let (name, started) = (running.name.to_owned(), running.since);
            let mut usage = ContainerUsage { name, started, used, ..ContainerUsage::default() };
            if is_full {
                let layer = request.runtime.layer(running.id, warned);
                usage.layer = layer.and_then(|layer| layer.with_statvfs(&places.host_root));
                let logs = logs(&stored.logs.join(running.name));
                usage.logs_at_least = logs.as_ref().is_some_and(|logs| logs.at_least);
                usage.logs = logs.map(|logs| logs.filesystem);
            }
            usage
        };
        let containers: Vec<ContainerUsage> = running.iter().map(container).collect();
        let mut usage = PodUsage {
            namespace: record.namespace.clone(),
            name: record.name.clone(),
            uid: record.uid.to_string(),
            started: status.started,
            used: reader.sampler.used(record.uid.as_str(), at, of_pod),
            containers,
            ..PodUsage::default()
        };
        if request.counts_processes {
            usage.processes = cgroups.process_count(&record.uid, spec, &ids).ok().flatten();
        }
        if is_full {
            usage.interfaces = self.interfaces(stored, spec, &ids);
            usage.volumes = reader.storage.volumes(stored);
            usage.files = reader.storage.files(stored, &places.root_dir);
        }
        Some(usage)
    }

    /// The interfaces of a pod's network; none for one on the host's.
    fn interfaces(
        &self,
        stored: &Stored,
        spec: &PodSpec,
        containers: &[&str],
    ) -> Vec<kubelet_api::Interface> {
        if spec.host_network == Some(true) {
            return Vec::new();
        }
        let uid = &stored.record.uid;
        let sandbox = self.request.runtime.sandbox(uid.as_str());
        let ids: Vec<&str> = sandbox.into_iter().chain(containers.iter().copied()).collect();
        let process = self.reader.places.cgroups.process(uid, spec, &ids);
        process.ok().flatten().map(|process| self.networks.of_process(process)).unwrap_or_default()
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

/// What the logs of a container take.
struct Logs {
    filesystem: Filesystem,
    /// Whether they may take more.
    at_least: bool,
}

/// The filesystem that has this directory.
fn statvfs(path: &Path) -> Option<Filesystem> {
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

/// What the logs of a container take; `None` if that is not known. A pod may write to their directory.
fn logs(dir: &Path) -> Option<Logs> {
    let used = agent::logs::disk_usage(dir).ok()?;
    // The directory of all pods' logs, in which no pod can put a link.
    let filesystem = statvfs(dir.ancestors().nth(2)?)?;
    let at_least = used.at_least;
    Some(Logs {
        filesystem: Filesystem { used: used.bytes, inodes_used: used.inodes, ..filesystem },
        at_least,
    })
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

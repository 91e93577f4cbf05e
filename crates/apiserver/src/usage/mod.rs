//! What this node and its pods use, for the kubelet's API: CPU time and memory from cgroups, disks from the runtime.

mod containers;
mod host;
mod interfaces;
mod runtime;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use agent::{ContainerView, PodCgroups, StateView, Stored};
use cgroups::{CounterSet, Counters, Rates};
use cri::client::Client;
use kubelet_api::{ContainerUsage, Detail, Filesystem, NodeUsage, PartUsage, PodUsage, Reading, Usage, Used};
use manifest::k8s_openapi::api::core::v1::PodSpec;
use tokio::sync::Semaphore;

use crate::node::MachineFacts;
use host::Host;
use runtime::Disks;

/// The time between two reads for a rate, if nothing was read before.
const FIRST_RATE: Duration = Duration::from_millis(1_100);
const NANOS_OF_MILLI: u64 = 1_000_000;

/// How long a read waits for the one before it.
const PATIENCE: Duration = Duration::from_secs(20);

/// Reads what this node and its pods use.
pub(crate) struct UsageReader {
    reader: Arc<Reader>,
    client: Client,
    /// One read at a time, also if no caller waits for its outcome any more.
    cgroups: Arc<Semaphore>,
    /// Likewise for reads of filesystems, one of which may not answer.
    filesystems: Arc<Semaphore>,
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
}

#[derive(Debug)]
struct Reader {
    places: UsagePlaces,
    /// The CPU time of late, by what uses it.
    rates: Rates,
}

impl UsageReader {
    pub(crate) fn new(places: UsagePlaces, client: Client) -> Self {
        let [cgroups, filesystems] = [(); 2].map(|()| Arc::new(Semaphore::new(1)));
        Self { reader: Arc::new(Reader { places, rates: Rates::default() }), client, cgroups, filesystems }
    }

    /// Reads on a thread of its own, when no other read of the same kind goes on.
    async fn read_once(&self, detail: Detail, disks: Arc<Disks>) -> Result<NodeUsage, String> {
        let turns = if detail == Detail::All { &self.filesystems } else { &self.cgroups };
        let turn = tokio::time::timeout(PATIENCE, Arc::clone(turns).acquire_owned()).await;
        let Ok(Ok(turn)) = turn else {
            return Err(format!("an earlier read has not ended within {} s", PATIENCE.as_secs()));
        };
        let reader = Arc::clone(&self.reader);
        let read = tokio::task::spawn_blocking(move || {
            let read = reader.read(detail, &disks);
            drop(turn);
            read
        });
        read.await.unwrap_or_else(|error| Err(error.to_string()))
    }

    async fn read(&self, detail: Detail) -> Result<NodeUsage, String> {
        let disks = match detail {
            Detail::All => Disks::read(&self.client).await,
            Detail::CpuAndMemory | Detail::Rates => Disks::default(),
        };
        let disks = Arc::new(disks);
        let first = self.read_once(detail, Arc::clone(&disks)).await?;
        if detail == Detail::CpuAndMemory || first.has_rates() {
            return Ok(first);
        }
        tokio::time::sleep(FIRST_RATE).await;
        self.read_once(detail, disks).await
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
    fn read(&self, detail: Detail, disks: &Disks) -> Result<NodeUsage, String> {
        let places = &self.places;
        let at = now();
        let host = Host::read(&places.host_root).map_err(|error| error.to_string())?;
        let (counters, of_pods) = places.cgroups.node_counters().map_err(|error| error.to_string())?;
        let used = |name: &str, counters| self.used(name, at, counters);
        let pods = PartUsage { name: "pods", started: host.booted, used: used("pods", of_pods) };
        let (stored, _) = agent::stored(&places.state).map_err(|error| error.to_string())?;
        let mut usage = NodeUsage {
            name: places.node.clone(),
            started: host.booted,
            used: used("node", host.completed(counters)),
            memory: host.memory,
            parts: vec![pods],
            pods: stored.iter().filter_map(|stored| self.pod(stored, detail, disks)).collect(),
            ..NodeUsage::default()
        };
        if detail == Detail::All {
            usage.interfaces = interfaces::of_host(&places.host_root);
            usage.filesystem = filesystem(&places.root_dir);
            usage.images = disks.images.as_ref().and_then(|taken| taken.on(&places.host_root));
            usage.containers = disks.containers.as_ref().and_then(|taken| taken.on(&places.host_root));
            usage.processes = host.processes;
        }
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
    const BLOCK: u64 = 512;
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

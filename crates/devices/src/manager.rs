//! The devices of a node.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use telemetry::metrics::Registry;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::Instant;
use tracing::info;

use crate::checkpoint::{Checkpoint, FILE};
use crate::error::{Error, Result};
use crate::metrics::DeviceMetrics;
use crate::plugin::Plugin;
use crate::request::PodRequest;
use crate::save::{LARGEST, Saves};
use crate::state::{AllocatedDevice, DeviceCount, State};

/// The devices of a node: which there are, and which container has which. Clones are the same.
#[derive(Debug, Clone)]
pub struct DeviceManager {
    pub(crate) inner: Arc<Inner>,
}

/// What all clones share.
#[derive(Debug)]
pub(crate) struct Inner {
    /// The directory of device plugins: their sockets, the node's, and the checkpoint.
    pub(crate) dir: PathBuf,
    state: Mutex<State<Plugin>>,
    counts: watch::Sender<BTreeMap<String, DeviceCount>>,
    pub(crate) saves: Saves,
    /// What follows each plugin.
    pub(crate) following: Mutex<HashMap<PluginKey, Following>>,
    /// How many connections to plugins there have been.
    pub(crate) connections: AtomicU64,
    pub(crate) metrics: DeviceMetrics,
    is_new: bool,
}

/// The task that follows a plugin, by the number of the connection: a plugin that registers again has another one.
#[derive(Debug)]
pub(crate) struct Following {
    pub(crate) connection: u64,
    pub(crate) task: AbortHandle,
}

/// A plugin, by its resource and its socket.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct PluginKey {
    pub(crate) resource: String,
    pub(crate) socket: PathBuf,
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl DeviceManager {
    /// Reads which container has which device. `dir` is the directory `device-plugins` of the kubelet's root directory; it must
    /// exist.
    ///
    /// # Errors
    /// If the checkpoint in the directory is damaged or cannot be read, and if the registry has the metrics already.
    pub fn open(dir: &Path, registry: &Registry) -> Result<Self> {
        let metrics = DeviceMetrics::register(registry)?;
        let is_new = std::fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_none());
        let path = dir.join(FILE);
        let text = durable::read(&path, LARGEST)?;
        // A file without content has lost it: which container has which device is not known.
        let parsed = text.as_deref().map(Checkpoint::parse).transpose();
        let parsed = parsed.map_err(|cause| Error::Checkpoint { path, cause })?;
        let Checkpoint { allocations, registered } = parsed.unwrap_or_default();
        let count = allocations.pods().count();
        if count > 0 {
            info!("{count} pods have devices of an earlier process");
        }
        let state = State::recorded(registered.into_keys().collect(), allocations, Instant::now());
        let (counts, _) = watch::channel(state.counts());
        let inner = Inner {
            dir: dir.to_owned(),
            state: Mutex::new(state),
            counts,
            saves: Saves::of(text.unwrap_or_default()),
            following: Mutex::default(),
            connections: AtomicU64::default(),
            metrics,
            is_new,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Whether the directory was empty: neither an agent nor a kubelet was ever on this machine, so that the Node, if there is
    /// one, is of another machine.
    #[must_use]
    pub fn is_new(&self) -> bool {
        self.inner.is_new
    }

    /// How many devices each resource has, now and with each change. Resources that were forgotten have none.
    #[must_use]
    pub fn counts(&self) -> watch::Receiver<BTreeMap<String, DeviceCount>> {
        self.inner.counts.subscribe()
    }

    /// How many devices of each resource containers have, if the pod is one of those that have some.
    #[must_use]
    pub fn allocated_beside(&self, pod: &str) -> BTreeMap<String, usize> {
        let state = self.state();
        let allocations = state.allocations();
        let resources = allocations.all().map(|held| held.resource).filter(|_| allocations.has_pod(pod));
        resources.map(|resource| (resource.to_owned(), allocations.in_use(resource).len())).collect()
    }

    /// Whether a pod asks for devices of a plugin.
    #[must_use]
    pub fn is_needed(&self, pod: &PodRequest) -> bool {
        let asked = pod.containers.iter().flat_map(|container| &container.resources);
        let state = self.state();
        asked.filter(|(_, count)| **count > 0).any(|(resource, _)| state.is_known(resource))
    }

    /// The UIDs of the pods that have devices.
    #[must_use]
    pub fn pods(&self) -> Vec<String> {
        self.state().allocations().pods().map(str::to_owned).collect()
    }

    /// The devices that a container has, by resource and ID.
    #[must_use]
    pub fn devices_of(&self, pod: &str, container: &str) -> Vec<AllocatedDevice> {
        self.state().devices_of(pod, container)
    }

    /// The devices that can be used, whether a container has them or not.
    #[must_use]
    pub fn allocatable(&self) -> Vec<AllocatedDevice> {
        self.state().allocatable()
    }

    /// Takes its devices from a pod of which no container runs any more. Must be called within a tokio runtime.
    pub fn release(&self, pod: &str) {
        self.retain(|held| held != pod);
    }

    /// Takes their devices from all pods but these. Must be called within a tokio runtime.
    pub fn retain(&self, keeps: impl Fn(&str) -> bool) {
        if self.state().retain(keeps) {
            self.save_soon();
        }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State<Plugin>> {
        lock(&self.inner.state)
    }

    /// Publishes how many devices there are, and records the state soon.
    pub(crate) fn changed(&self) {
        let counts = self.state().counts();
        self.inner.counts.send_if_modified(|known| {
            let is_other = *known != counts;
            if is_other {
                *known = counts;
            }
            is_other
        });
        self.save_soon();
    }
}

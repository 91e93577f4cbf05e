use std::path::Path;
use std::sync::{Arc, OnceLock};

use cgroups::{Groups, Rates};
use durable::{Guard, Lock};
use images::Images;
use kernel::disk_usage::DiskUsageCache;
use network::Network;
use tokio::sync::Semaphore;
use tracing::{Span, warn};

use crate::abilities;
use crate::error::{Error, Result};
use crate::events::Events;
use crate::files;
use crate::layout::Layout;
use crate::owner::{self, Held};
use crate::selinux;
use crate::settings::Settings;
use crate::status::Abilities;
use crate::store::{Container, Store};
use crate::work::blocking;

/// How many calls collect statistics at a time.
const LOOKING: usize = 4;

/// Everything that the calls share.
pub(crate) struct Node {
    pub(crate) settings: Settings,
    pub(crate) layout: Layout,
    pub(crate) images: Arc<Images>,
    pub(crate) network: Network,
    pub(crate) groups: Groups,
    pub(crate) facts: crate::spec::NodeFacts,
    pub(crate) store: Store,
    pub(crate) events: Events,
    pub(crate) rates: Rates,
    /// What containers have written.
    pub(crate) written: Arc<DiskUsageCache>,
    /// Limits the calls that collect statistics.
    pub(crate) looking: Semaphore,
    pub(crate) abilities: Abilities,
    pub(crate) streams: OnceLock<streaming::Server>,
    pub(crate) boot_id: String,
    _locks: [Guard; 2],
    _held: Held,
}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Node").field("layout", &self.layout).finish_non_exhaustive()
    }
}

impl Node {
    /// Opens the state directories and locks them against other servers.
    pub(crate) async fn open(settings: Settings) -> Result<Arc<Self>> {
        let layout = Layout::make(&settings.state, &settings.run)?;
        let locks = [lock(&layout.lock())?, lock(&layout.run_lock())?];
        let groups = Groups::find()?;
        let held = owner::claim(&layout, &groups, &settings.cgroup)?;
        let boot_id = monitor::record::boot_id()?;
        let state = layout.state().to_owned();
        let network = Network::open(network::Settings { state, kind: settings.network.clone() });
        let found = async {
            let images = Images::open(&settings.state.join("images"), settings.limits)?;
            let facts = crate::facts::gather(&settings, &groups);
            if let Some(host) = facts.selinux.clone() {
                let root = images.root().to_owned();
                blocking(move || selinux::label_layers(&host, &root)).await?;
            }
            Ok((images, facts, abilities::find(&settings, layout.worked(), &boot_id).await?))
        };
        // Neither needs the other, and the kernel takes its time for the firewall's rules.
        let (network, found): (_, Result<_>) = tokio::join!(network, found);
        let (network, (images, facts, abilities)) = (network?, found?);
        for notice in network.notices() {
            warn!("network: {notice}");
        }
        Ok(Arc::new(Self {
            settings,
            layout,
            images: Arc::new(images),
            network,
            groups,
            facts,
            store: Store::default(),
            events: Events::default(),
            rates: Rates::default(),
            written: Arc::default(),
            looking: Semaphore::new(LOOKING),
            abilities,
            streams: OnceLock::new(),
            boot_id,
            _locks: locks,
            _held: held,
        }))
    }

    /// Logs what the network has changed on the host or found amiss.
    pub(crate) fn log_network(&self) {
        for notice in self.network.notices() {
            warn!("network: {notice}");
        }
    }

    /// The span of a container's pod; disabled if its sandbox is gone.
    pub(crate) fn span(&self, container: &Container) -> Span {
        self.store
            .sandbox(container.sandbox.as_str())
            .map_or_else(|_| Span::none(), |found| found.span.clone())
    }
}

/// Held for as long as the server lives, however it ends.
fn lock(path: &Path) -> Result<Guard> {
    let lock = match Lock::at(path).acquire(files::LOCK_PATIENCE) {
        Err(durable::Error::Locked { .. }) => None,
        lock => Some(lock?),
    };
    lock.ok_or_else(|| Error::InUse { dir: path.parent().unwrap_or(path).to_owned() })
}

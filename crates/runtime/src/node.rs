use std::fs::File;
use std::future::Future;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::{SystemTime, UNIX_EPOCH};

use durable::Guard;
use images::Images;
use network::Network;
use tokio::sync::Semaphore;

use crate::abilities;
use crate::book::Book;
use crate::error::{Error, Result};
use crate::events::Events;
use crate::files;
use crate::groups::Groups;
use crate::layout::Layout;
use crate::owner::{self, Held};
use crate::selinux;
use crate::settings::Settings;
use crate::stats::{Ledger, Rates};
use crate::status::Abilities;

/// As many look at what pods use at a time.
const LOOKING: usize = 4;

/// Everything that the calls share.
pub(crate) struct Node {
    pub(crate) settings: Settings,
    pub(crate) layout: Layout,
    pub(crate) images: Arc<Images>,
    pub(crate) network: Network,
    pub(crate) groups: Groups,
    pub(crate) facts: crate::order::Node,
    pub(crate) book: Book,
    pub(crate) events: Events,
    pub(crate) rates: Rates,
    /// What containers have written.
    pub(crate) written: Arc<Ledger>,
    /// Held by whoever counts what pods use.
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
    /// The node as it is on disk, with nobody else at work on it.
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
            (settings.tell)(&format!("network: {notice}"));
        }
        Ok(Arc::new(Self {
            settings,
            layout,
            images: Arc::new(images),
            network,
            groups,
            facts,
            book: Book::default(),
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

    /// What the network has changed on the host or found amiss.
    pub(crate) fn tell_notices(&self) {
        for notice in self.network.notices() {
            self.tell(&format!("network: {notice}"));
        }
    }

    /// One line of the log.
    pub(crate) fn tell(&self, line: &str) {
        (self.settings.tell)(line);
    }
}

/// Held for as long as the server lives, however it ends.
fn lock(path: &Path) -> Result<Guard> {
    // A user that can open it can hold it for ever.
    let file = File::options().write(true).create(true).truncate(false).mode(0o600).open(path);
    let file = file.map_err(|cause| Error::File { what: "make", path: path.to_owned(), cause })?;
    files::lock(file, path)?.ok_or_else(|| Error::InUse { dir: path.parent().unwrap_or(path).to_owned() })
}

/// Runs what waits for the kernel or the disk where it keeps nobody else waiting.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(|cause| Error::step("finish", cause))?
}

/// Runs a call to its end, also if the caller hangs up: what is half done helps nobody.
pub(crate) async fn to_the_end<T: Send + 'static>(
    work: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    tokio::spawn(work).await.map_err(|cause| Error::step("finish", cause))?
}

/// Nanoseconds since 1970.
pub(crate) fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

/// Takes a directory of ours away with all below it; none there is fine. No mount is ever entered.
pub(crate) fn remove_dir(path: &Path) -> Result<()> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Ok(()) };
    kernel::Dir::open(parent)?.remove_tree(name)?;
    Ok(())
}

/// Makes a directory of ours.
pub(crate) fn make_dir(path: &Path) -> Result<()> {
    files::make_dir(path)
}

use std::path::{Path, PathBuf};

use census::{Census, HostRoot};
use ids::pool::IdPool;
use ledger::{Lease, Ledger, OpenMode, Options};

use crate::{Config, Error, FILE, load};

/// Where the files of a node are.
#[derive(Debug, Clone, Copy)]
pub struct Location<'a> {
    /// The configuration; [`FILE`] below the host root, if it exists, where none is named.
    pub config: Option<&'a Path>,
    /// Where the root directory of the host is seen: `/` on the host itself.
    pub host_root: &'a Path,
    /// The directory of the ledger.
    pub state_dir: &'a Path,
}

/// One node: its configuration, and with it its pool, census and ledger. Only the configuration is read when the node
/// is opened: an audit must not fail on a pool that it does not need.
#[derive(Debug, Clone)]
pub struct Node {
    state_dir: PathBuf,
    host_root: HostRoot,
    /// What is in effect on this node.
    pub config: Config,
}

impl Node {
    /// Reads the configuration of the node at this location. It fails if the configuration cannot be used, or if this
    /// process runs as root and another user can change the state directory.
    pub fn open(location: Location<'_>) -> Result<Self, Error> {
        // Root would create, change and remove files wherever the other user's links lead.
        durable::check_ownership_as_root(location.state_dir).map_err(Error::StateDir)?;
        let host_root = HostRoot::new(location.host_root);
        let config = load(location.config, &host_root.path(FILE))?;
        Ok(Self { state_dir: location.state_dir.to_owned(), host_root, config })
    }

    /// The blocks that new leases come from. It fails if the configuration, subuid or subgid give no valid pool.
    pub fn pool(&self) -> Result<IdPool, Error> {
        Ok(crate::pool::resolve(&self.config, &self.host_root)?)
    }

    /// The most pods that may be isolated at once, where the operator set a limit.
    #[must_use]
    pub fn max_pods(&self) -> Option<u32> {
        self.config.settings.user_namespaces.max_pods
    }

    /// Where the root directory of the host is seen.
    #[must_use]
    pub fn host_root(&self) -> &HostRoot {
        &self.host_root
    }

    /// The directory of the ledger.
    #[must_use]
    pub fn state_dir(&self) -> &Path {
        &self.state_dir
    }

    /// The kubelet's `pods` directory, below the host root.
    #[must_use]
    pub fn kubelet_pods(&self) -> PathBuf {
        self.host_root.path(&self.config.settings.kubelet.pods_dir)
    }

    /// The census of this host. Nothing is read before it is taken.
    #[must_use]
    pub fn census(&self) -> Census {
        crate::ledger::census(&self.config, &self.host_root)
    }

    /// Opens the ledger to keep it open; creates it if there is none. Its notices are logged as warnings.
    pub fn ledger(&self) -> Result<Ledger, Error> {
        let ledger = Ledger::open(self.options()?)?;
        log_notices(&ledger);
        Ok(ledger)
    }

    /// Opens the ledger like [`Node::ledger`], for a caller that leases a block at once: the census is taken at the same time.
    pub fn ledger_to_lease(&self) -> Result<Ledger, Error> {
        let ledger = Ledger::open_to_lease(self.options()?)?;
        log_notices(&ledger);
        Ok(ledger)
    }

    /// Does `work` with the ledger, which is created if there is none, and closes it. Its notices are logged as warnings
    /// after the work, whether that failed or not.
    pub fn with_ledger<T, E>(&self, work: impl FnOnce(&Ledger) -> Result<T, E>) -> Result<T, E>
    where
        E: From<Error>,
    {
        let open = || Ok(Ledger::open(self.options()?)?);
        let ledger = open().map_err(|error: Error| E::from(error))?;
        let done = work(&ledger);
        log_notices(&ledger);
        done
    }

    /// Does `work` with the ledger like [`Node::with_ledger`], and holds its lock from before the work until after it:
    /// other processes wait, and so would another [`Ledger`] of this process that is used meanwhile.
    pub fn with_locked_ledger<T, E>(&self, work: impl FnOnce(&Ledger) -> Result<T, E>) -> Result<T, E>
    where
        E: From<Error>,
    {
        let open = || Ok(Ledger::open(Options { mode: OpenMode::Exclusive, ..self.options()? })?);
        let ledger = open().map_err(|error: Error| E::from(error))?;
        let done = work(&ledger);
        log_notices(&ledger);
        done
    }

    /// Does `work` with the ledger like [`Node::with_ledger`] if there is one. Where there is none, none is created.
    pub fn with_existing_ledger<T, E>(
        &self,
        work: impl FnOnce(Option<&Ledger>) -> Result<T, E>,
    ) -> Result<T, E>
    where
        E: From<Error>,
    {
        if Ledger::exists(&self.state_dir) {
            self.with_ledger(|ledger| work(Some(ledger)))
        } else {
            work(None)
        }
    }

    /// All leases of the ledger; `None` where there is no ledger, and none is created.
    pub fn leases(&self) -> Result<Option<Vec<Lease>>, Error> {
        self.with_existing_ledger(|ledger| Ok(ledger.map(Ledger::list).transpose()?))
    }

    fn options(&self) -> Result<Options, Error> {
        let parameters = crate::ledger::LedgerParameters { state_dir: &self.state_dir, pool: self.pool()? };
        Ok(crate::ledger::options(&self.config, &self.host_root, parameters)?)
    }
}

/// Logs what the ledger reports about its own files: repairs, rebuilt records.
fn log_notices(ledger: &Ledger) {
    for notice in ledger.take_notices() {
        tracing::warn!("{notice}");
    }
}

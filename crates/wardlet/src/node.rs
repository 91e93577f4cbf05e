use std::path::{Path, PathBuf};

use census::{Census, HostRoot};
use ids::pool::IdPool;
use ledger::{Ledger, Options};
use settings::Config;

use crate::cli::Globals;
use crate::failure::Failure;
use crate::words;

/// One node as a command sees it. Nothing but the configuration is read before it is asked for: an
/// audit must not fail on a pool that it does not need.
pub(crate) struct Node {
    state_dir: PathBuf,
    host_root: HostRoot,
    pub(crate) config: Config,
}

impl Node {
    pub(crate) fn new(globals: &Globals) -> Result<Self, Failure> {
        let host_root = HostRoot::new(&globals.host_root);
        let config = settings::load(globals.config.as_deref(), &host_root.path(settings::FILE))?;
        Ok(Self { state_dir: globals.state_dir.clone(), host_root, config })
    }

    pub(crate) fn pool(&self) -> Result<IdPool, Failure> {
        Ok(settings::pool::resolve(&self.config, &self.host_root)?)
    }

    pub(crate) fn max_pods(&self) -> Option<u32> {
        self.config.settings.user_namespaces.max_pods
    }

    pub(crate) fn host_root(&self) -> &HostRoot {
        &self.host_root
    }

    pub(crate) fn state_dir(&self) -> &Path {
        &self.state_dir
    }

    /// The kubelet's `pods` directory as it is found from here.
    pub(crate) fn kubelet_pods(&self) -> PathBuf {
        self.host_root.path(&self.config.settings.kubelet.pods_dir)
    }

    pub(crate) fn census(&self) -> Census {
        settings::ledger::census(&self.config, &self.host_root)
    }

    /// The ledger, for whoever keeps it; it is made if there is none.
    pub(crate) fn ledger(&self) -> Result<Ledger, Failure> {
        let ledger = Ledger::open(self.options()?)?;
        words::notices(&ledger);
        Ok(ledger)
    }

    /// The same, for whoever takes a block from it at once: the node is looked at meanwhile.
    pub(crate) fn ledger_to_lease(&self) -> Result<Ledger, Failure> {
        let ledger = Ledger::open_to_lease(self.options()?)?;
        words::notices(&ledger);
        Ok(ledger)
    }

    /// Does `work` with the ledger, which is made if there is none.
    pub(crate) fn with_ledger<T>(
        &self,
        work: impl FnOnce(&Ledger) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let ledger = Ledger::open(self.options()?)?;
        let done = work(&ledger);
        words::notices(&ledger);
        done
    }

    /// Does `work` with the ledger if there is one; where there is none, none is made.
    pub(crate) fn with_existing_ledger<T>(
        &self,
        work: impl FnOnce(Option<&Ledger>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        if Ledger::exists(&self.state_dir) {
            self.with_ledger(|ledger| work(Some(ledger)))
        } else {
            work(None)
        }
    }

    fn options(&self) -> Result<Options, Failure> {
        let terms = settings::ledger::Terms { state_dir: &self.state_dir, pool: self.pool()? };
        Ok(settings::ledger::options(&self.config, &self.host_root, terms)?)
    }
}

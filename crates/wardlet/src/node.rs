use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use census::{Census, HostRoot};
use ids::pool::IdPool;
use ledger::{BootId, Ledger, Options};

use crate::cli::Globals;
use crate::config::{self, Config};
use crate::failure::Failure;
use crate::{pool, words};

const CONFIG_FILE: &str = "/etc/wardlet/config.yaml";
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

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
        let config = config::load(globals.config.as_deref(), &host_root.path(CONFIG_FILE))?;
        Ok(Self { state_dir: globals.state_dir.clone(), host_root, config })
    }

    pub(crate) fn pool(&self) -> Result<IdPool, Failure> {
        pool::resolve(&self.config, &self.host_root)
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
        let pods = &self.config.settings.kubelet.pods_dir;
        Census {
            host_root: self.host_root.clone(),
            pool_owner: Some(self.config.settings.user_namespaces.subid_owner.clone()),
            kubelet_dir: pods.parent().unwrap_or(pods).to_owned(),
        }
    }

    /// The ledger, for whoever keeps it; it is made if there is none.
    pub(crate) fn ledger(&self) -> Result<Ledger, Failure> {
        let ledger = Ledger::open(self.options()?)?;
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
        let settings = &self.config.settings;
        let seconds = |n: u32| Duration::from_secs(n.into());
        let witness = Arc::new(self.census());
        Ok(Options {
            cap: self.max_pods(),
            quarantine: seconds(settings.user_namespaces.quarantine_seconds),
            patience: seconds(settings.ledger.lock_seconds),
            kubelet_pods: Some(self.kubelet_pods()),
            ..Options::new(&self.state_dir, self.pool()?, self.boot()?, witness)
        })
    }

    fn boot(&self) -> Result<BootId, Failure> {
        let file = self.host_root.path(BOOT_ID);
        let text = std::fs::read_to_string(&file).map_err(|e| e.to_string());
        let id = text.and_then(|t| match t.trim() {
            "" => Err("it is empty".to_owned()),
            id => Ok(id.to_owned()),
        });
        id.map(BootId).map_err(|cause| {
            Failure::unknown(format!("cannot read this boot's ID in {}: {cause}", file.display()))
                .with_hint("mount the host's proc filesystem there, or choose another --host-root")
        })
    }
}

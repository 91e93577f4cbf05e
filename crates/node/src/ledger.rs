//! The node's ledger, opened in the same way by all programs.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use census::{Census, HostRoot};
use ids::pool::IdPool;
use ledger::{BootId, Options};

use crate::{Config, SettingsError};

/// Directory and pool of a ledger; everything else comes from the settings.
pub struct LedgerParameters<'a> {
    /// The directory of its files.
    pub state_dir: &'a Path,
    /// The blocks that new leases come from. Leases of another pool stay what they are.
    pub pool: IdPool,
}

/// What the ledger is to be opened with.
pub fn options(
    config: &Config,
    host: &HostRoot,
    parameters: LedgerParameters<'_>,
) -> Result<Options, SettingsError> {
    let settings = &config.settings;
    let seconds = |n: u32| Duration::from_secs(n.into());
    let witness = Arc::new(census(config, host));
    Ok(Options {
        cap: settings.user_namespaces.max_pods,
        quarantine: seconds(settings.user_namespaces.quarantine_seconds),
        patience: seconds(settings.ledger.lock_seconds),
        kubelet_pods: Some(host.path(&settings.kubelet.pods_dir)),
        ..Options::new(parameters.state_dir, parameters.pool, boot(host)?, witness)
    })
}

/// The census that is asked which IDs are in use.
#[must_use]
pub fn census(config: &Config, host: &HostRoot) -> Census {
    let pods = &config.settings.kubelet.pods_dir;
    Census {
        host_root: host.clone(),
        pool_owner: Some(config.settings.user_namespaces.subid_owner.clone()),
        kubelet_dir: pods.parent().unwrap_or(pods).to_owned(),
    }
}

fn boot(host: &HostRoot) -> Result<BootId, SettingsError> {
    procfs::boot_id(&host.path("/proc")).map(BootId).map_err(|error| match error {
        procfs::Error::Io { path, cause, .. } => SettingsError::Boot { file: path, cause: cause.to_string() },
        procfs::Error::Format { path, why } => SettingsError::Boot { file: path, cause: why.to_owned() },
    })
}

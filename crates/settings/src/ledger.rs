//! The node's ledger, opened the same way by whoever opens it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use census::{Census, HostRoot};
use ids::pool::IdPool;
use ledger::{BootId, Options};

use crate::{Config, SettingsError};

const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// What a ledger is opened on besides the settings.
pub struct Terms<'a> {
    /// The directory of its files.
    pub state_dir: &'a Path,
    /// The blocks that new leases come from. Leases of another pool stay what they are.
    pub pool: IdPool,
}

/// What the ledger is to be opened with.
pub fn options(config: &Config, host: &HostRoot, terms: Terms<'_>) -> Result<Options, SettingsError> {
    let settings = &config.settings;
    let seconds = |n: u32| Duration::from_secs(n.into());
    let witness = Arc::new(census(config, host));
    Ok(Options {
        cap: settings.user_namespaces.max_pods,
        quarantine: seconds(settings.user_namespaces.quarantine_seconds),
        patience: seconds(settings.ledger.lock_seconds),
        kubelet_pods: Some(host.path(&settings.kubelet.pods_dir)),
        ..Options::new(terms.state_dir, terms.pool, boot(host)?, witness)
    })
}

/// Who is asked which IDs are in use.
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
    let file = host.path(BOOT_ID);
    let text = std::fs::read_to_string(&file).map_err(|e| e.to_string());
    let id = text.and_then(|t| match t.trim() {
        "" => Err("it is empty".to_owned()),
        id => Ok(id.to_owned()),
    });
    id.map(BootId).map_err(|cause| SettingsError::Boot { file, cause })
}

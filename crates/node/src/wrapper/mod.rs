//! What `wardlet-oci` goes by, the options of gVisor's shim by their own names among it.

mod runtime;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ids::{BlockLength, HostSpan};
use serde::{Deserialize, Serialize};

pub use self::runtime::{RuntimeError, find_runtime};
use crate::read::Wrong;

/// IDs that the host keeps, and one past the last that can be mapped.
const FIRST: u64 = ids::UNIT;
const END: u64 = 4_294_967_295;

/// What `wardlet-oci` goes by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, expecting = "a map of settings")]
pub struct WrapperSettings {
    /// The runtime that is handed over to: an absolute path, or a name that is looked for in `runtimes`
    /// and in PATH.
    pub runtime: PathBuf,
    /// Runtimes by name: called as `wardlet-oci-NAME`, it hands over to NAME.
    pub runtimes: BTreeMap<String, PathBuf>,
    /// What is known of running pods; it need not outlast a boot.
    pub run_dir: PathBuf,
    /// The operator's gate: whether pods are given a user namespace when their annotations ask for one.
    #[serde(rename = "enable_user_namespace_annotation")]
    pub enabled: bool,
    /// The first user ID of a pool of its own; the node's pool where neither base is given.
    #[serde(rename = "user_namespace_host_uid_base")]
    pub uid_base: Option<u64>,
    /// The first group ID of that pool.
    #[serde(rename = "user_namespace_host_gid_base")]
    pub gid_base: Option<u64>,
    /// How many IDs a pod gets of that pool.
    #[serde(rename = "user_namespace_range_size")]
    pub range_size: BlockLength,
    /// How many pods that pool has blocks for.
    #[serde(rename = "user_namespace_pool_size")]
    pub pool_size: u32,
    /// The directory of the ledger.
    #[serde(rename = "user_namespace_state_dir")]
    pub state_dir: PathBuf,
}

impl Default for WrapperSettings {
    fn default() -> Self {
        Self {
            runtime: PathBuf::from("runc"),
            runtimes: BTreeMap::new(),
            run_dir: PathBuf::from("/run/wardlet-oci"),
            enabled: false,
            uid_base: None,
            gid_base: None,
            range_size: BlockLength::DEFAULT,
            pool_size: 1000,
            state_dir: PathBuf::from("/var/lib/wardlet"),
        }
    }
}

impl WrapperSettings {
    /// The user and group IDs of a pool of its own, if it has one.
    #[must_use]
    pub fn spans(&self) -> Option<(HostSpan, HostSpan)> {
        let length = u64::from(self.range_size) * u64::from(self.pool_size);
        let span = |base: u64| HostSpan::new(base, length).ok();
        Some((span(self.uid_base?)?, span(self.gid_base?)?))
    }
}

/// What no type of a single setting can say.
pub(crate) fn check(wrapper: &WrapperSettings) -> Result<(), Wrong> {
    absolute("runDir", &wrapper.run_dir)?;
    absolute("user_namespace_state_dir", &wrapper.state_dir)?;
    for (name, path) in &wrapper.runtimes {
        absolute(&format!("runtimes.{name}"), path)?;
    }
    named(&wrapper.runtime)?;
    if wrapper.pool_size == 0 {
        return Err(wrong("user_namespace_pool_size", "it is 0", "leave it out for its default, 1000"));
    }
    let (uids, gids) = match (wrapper.uid_base, wrapper.gid_base) {
        (None, None) => return Ok(()),
        (Some(uids), Some(gids)) => (uids, gids),
        (Some(_), None) => return Err(alone("user_namespace_host_gid_base")),
        (None, Some(_)) => return Err(alone("user_namespace_host_uid_base")),
    };
    base("user_namespace_host_uid_base", uids, wrapper)?;
    base("user_namespace_host_gid_base", gids, wrapper)
}

fn base(field: &str, base: u64, wrapper: &WrapperSettings) -> Result<(), Wrong> {
    let (range, count) = (u64::from(wrapper.range_size), u64::from(wrapper.pool_size));
    let length = range * count;
    let first = FIRST.next_multiple_of(range);
    let last = END.saturating_sub(length) / range * range;
    if last < first {
        let most = (END - first) / range;
        let cause = format!("{count} blocks of {range} IDs do not fit below 2^32");
        return Err(wrong("user_namespace_pool_size", cause, format!("use {most} or less")));
    }
    let below = (base / range * range).clamp(first, last);
    let above = base.div_ceil(range).saturating_mul(range).clamp(first, last);
    let nearest = if above.abs_diff(base) <= below.abs_diff(base) { above } else { below };
    let cause = if base < FIRST {
        format!("{base} is one of the host's own IDs, 0-{}", FIRST - 1)
    } else if !base.is_multiple_of(range) {
        format!("{base} is not a multiple of the block length {range}")
    } else if base > last {
        format!("{base} and {count} blocks of {range} IDs go past the last ID, {}", END - 1)
    } else {
        return Ok(());
    };
    Err(wrong(field, cause, format!("the nearest valid is {nearest}")))
}

fn alone(missing: &str) -> Wrong {
    wrong(missing, "it is not set, and the other base is", "set both bases, or neither for the node's pool")
}

fn absolute(field: &str, path: &Path) -> Result<(), Wrong> {
    if path.is_absolute() {
        return Ok(());
    }
    Err(wrong(field, "it is no absolute path", "write it from / on"))
}

fn named(runtime: &Path) -> Result<(), Wrong> {
    let name = runtime.components().count() == 1 && runtime.file_name().is_some();
    if name || runtime.is_absolute() {
        return Ok(());
    }
    Err(wrong("runtime", "it is neither a name nor an absolute path", "write runc, or /usr/bin/runc"))
}

fn wrong(field: &str, cause: impl Into<String>, way_out: impl Into<String>) -> Wrong {
    Wrong { field: format!("wrapper.{field}"), cause: cause.into(), way_out: way_out.into() }
}

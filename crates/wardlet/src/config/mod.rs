//! The one typed configuration. Every setting has a default, and serialising [`Settings::default`]
//! shows them all.

mod read;
mod unknown;

use std::path::PathBuf;

use ids::{BlockLength, HostSpan};
use serde::{Deserialize, Serialize};

pub(crate) use read::load;

/// What is in effect, and the file it was read from, if any.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Config {
    pub(crate) file: Option<PathBuf>,
    pub(crate) settings: Settings,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, expecting = "a map of settings")]
pub(crate) struct Settings {
    pub(crate) user_namespaces: UserNamespaceSettings,
    pub(crate) ledger: LedgerSettings,
    pub(crate) kubelet: KubeletSettings,
    /// What the operator decided about isolation, volumes and closed gates.
    pub(crate) policy: plan::Rules,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, expecting = "a map of settings")]
pub(crate) struct UserNamespaceSettings {
    /// The node's block length.
    pub(crate) ids_per_pod: BlockLength,
    /// The most pods that may be isolated at once.
    pub(crate) max_pods: Option<u32>,
    /// Whose entries in subuid and subgid make the pool.
    pub(crate) subid_owner: String,
    /// How long a vacant block rests.
    pub(crate) quarantine_seconds: u32,
    pub(crate) pool: PoolSettings,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, expecting = "a map of settings")]
pub(crate) struct PoolSettings {
    /// Given, these are the pool, whatever subuid and subgid say.
    pub(crate) uids: Option<Vec<Range>>,
    /// The same as `uids` unless given.
    pub(crate) gids: Option<Vec<Range>>,
    /// Left out of any pool.
    pub(crate) exclude: Vec<Range>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, expecting = "a map of settings")]
pub(crate) struct LedgerSettings {
    /// How long to wait for another process before giving up.
    pub(crate) lock_seconds: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, expecting = "a map of settings")]
pub(crate) struct KubeletSettings {
    /// As the host names it; it ends in `/pods`.
    pub(crate) pods_dir: PathBuf,
}

/// `FIRST-LAST`, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct Range(pub(crate) HostSpan);

impl TryFrom<String> for Range {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        ids::pool::parse_range(&text).map(Self)
    }
}

impl From<Range> for String {
    fn from(range: Range) -> Self {
        range.0.to_string()
    }
}

impl Default for UserNamespaceSettings {
    fn default() -> Self {
        Self {
            ids_per_pod: BlockLength::DEFAULT,
            max_pods: None,
            subid_owner: census::source::DEFAULT_OWNER.to_owned(),
            quarantine_seconds: 60,
            pool: PoolSettings::default(),
        }
    }
}

impl Default for LedgerSettings {
    fn default() -> Self {
        Self { lock_seconds: 30 }
    }
}

impl Default for KubeletSettings {
    fn default() -> Self {
        Self { pods_dir: PathBuf::from("/var/lib/kubelet/pods") }
    }
}

//! One node: its configuration, its pool of IDs, its ledger and census, and the facts that plans rest on.
//!
//! - [`Node`]: configuration, pool, census and ledger, each read when it is asked for.
//! - [`Settings`]: the one typed configuration. Every setting has a default, and serialising [`Settings::default`] shows
//!   them all. [`load`] reads the file strictly.
//! - [`GateFlags`]: the feature gates, as configuration and command line set them.
//! - [`pool`]: the blocks that the configuration gives, or that subuid and subgid give ([`subid`]).
//! - [`ledger`]: the ledger that goes with it.
//! - [`facts`]: what the kernel, the filesystems, SELinux and the pool allow, found out by trying, or read from a file.
//! - [`Instance`]: names on the host that go with the state directory; [`host_name`], [`host_ip`]: the node's own.
//! - [`mounts`]: paths of the node and the filesystems under them; [`setuid`]: where set-user-ID bits count.
//! - [`kubelet`]: the configuration file and the flags of a kubelet, for `wardlet agent`.
//! - [`WrapperSettings`], [`find_runtime`]: what `wardlet-oci` goes by, and the runtime that it hands over to.
//!
//! `wardlet-oci` is started for each call of a runtime and uses this crate: no dependency may bring in machinery for
//! servers.

mod category_pairs;
mod error;
pub mod facts;
mod gates;
mod host;
mod instance;
pub mod kubelet;
pub mod ledger;
pub mod mounts;
mod node;
pub mod pool;
mod read;
pub mod setuid;
pub mod subid;
mod unknown;
mod wrapper;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use ids::{BlockLength, HostSpan};
use plan::KubernetesVersion;
use serde::{Deserialize, Serialize};

pub use category_pairs::LedgerPairs;
pub use error::{Error, SettingsError};
pub use gates::{GateFlags, GatesError};
pub use host::{host_ip, host_name};
pub use instance::Instance;
pub use node::{Location, Node};
pub use read::load;
pub use wrapper::{RuntimeError, WrapperSettings, find_runtime};

/// The default path of the configuration.
pub const FILE: &str = "/etc/wardlet/config.yaml";

/// What is in effect, and the file it was read from, if any.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Config {
    /// Where it was read; nothing if all of it is default.
    pub file: Option<PathBuf>,
    /// Every setting.
    pub settings: Settings,
}

/// Every setting of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, expecting = "a map of settings")]
pub struct Settings {
    /// The pool and how long blocks are.
    pub user_namespaces: UserNamespaceSettings,
    /// How the ledger is shared.
    pub ledger: LedgerSettings,
    /// Where a kubelet keeps its records.
    pub kubelet: KubeletSettings,
    /// The Kubernetes version whose feature gates this node has.
    pub kubernetes_version: KubernetesVersion,
    /// Feature gates that are not at their default in that version.
    pub feature_gates: BTreeMap<String, bool>,
    /// What the operator decided about isolation, volumes and closed gates.
    pub policy: plan::Rules,
    /// What `wardlet-oci` goes by.
    pub wrapper: WrapperSettings,
    /// What `wardlet agent` serves besides a kubelet's API.
    pub agent: AgentSettings,
}

/// What `wardlet agent` serves besides a kubelet's API.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, expecting = "a map of settings")]
pub struct AgentSettings {
    /// The page of this node.
    pub page: PageSettings,
}

/// The page of this node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, expecting = "a map of settings")]
pub struct PageSettings {
    /// Where it is served: without authentication on a loopback address, with TLS and decisions of the API server on another.
    /// With port 0 there is no page.
    pub address: SocketAddr,
    /// How old the proof of `wardlet verify` on it may become before another one is made; 0 for none. Proofs are made only
    /// while the page is open.
    pub proof_seconds: u32,
}

/// The pool and how long blocks are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, expecting = "a map of settings")]
pub struct UserNamespaceSettings {
    /// The node's block length.
    pub ids_per_pod: BlockLength,
    /// The most IDs that one pod may ask for; as many as every pod has, unless given.
    pub max_ids_per_pod: Option<BlockLength>,
    /// The most pods that may be isolated at once.
    pub max_pods: Option<u32>,
    /// Whose entries in subuid and subgid make the pool.
    pub subid_owner: String,
    /// How long a vacant block rests.
    pub quarantine_seconds: u32,
    /// The pool, where the operator chose it.
    pub pool: PoolSettings,
}

/// The pool, where the operator chose it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, expecting = "a map of settings")]
pub struct PoolSettings {
    /// Given, these are the pool, whatever subuid and subgid say.
    pub uids: Option<Vec<Range>>,
    /// The same as `uids` unless given.
    pub gids: Option<Vec<Range>>,
    /// Left out of any pool.
    pub exclude: Vec<Range>,
}

/// How the ledger is shared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, expecting = "a map of settings")]
pub struct LedgerSettings {
    /// How long to wait for another process before giving up.
    pub lock_seconds: u32,
}

/// Where a kubelet keeps its records.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, expecting = "a map of settings")]
pub struct KubeletSettings {
    /// As the host names it; it ends in `/pods`.
    pub pods_dir: PathBuf,
}

/// `FIRST-LAST`, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Range(/** The IDs. */ pub HostSpan);

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
            max_ids_per_pod: None,
            max_pods: None,
            subid_owner: subid::DEFAULT_OWNER.to_owned(),
            quarantine_seconds: 60,
            pool: PoolSettings::default(),
        }
    }
}

impl Default for PageSettings {
    fn default() -> Self {
        Self { address: SocketAddr::from(([127, 0, 0, 1], 10_280)), proof_seconds: 60 }
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

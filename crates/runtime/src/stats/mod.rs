//! What sandboxes and containers use.
//!
//! - [`Processes`], [`Link`], [`Written`]: open files, the network, what was written.
//! - [`usage`]: all that in CRI's messages.
//! - [`metrics`]: all that under cAdvisor's names.

mod links;
pub mod metrics;
mod processes;
pub mod usage;

use std::collections::BTreeMap;
use std::path::Path;

use cgroups::Counters;
use container::Resources;
use cri::{ContainerMetadata, PodSandboxMetadata};
use kernel::disk_usage::{DiskUsage, DiskUsageCache, Round};

pub use links::{Flow, Link};
pub use processes::Processes;

/// One container as it was looked at.
#[derive(Debug, Clone)]
pub struct Container {
    /// Its ID.
    pub id: String,
    /// What it is called.
    pub metadata: ContainerMetadata,
    /// Free.
    pub labels: BTreeMap<String, String>,
    /// Free.
    pub annotations: BTreeMap<String, String>,
    /// The image it was asked for with.
    pub image: String,
    /// The path of its control group.
    pub cgroup: String,
    /// When it was started, in nanoseconds since 1970.
    pub started_at: i64,
    /// Its limits.
    pub limits: Resources,
    /// What the kernel counts.
    pub counters: Counters,
    /// What its processes have open.
    pub processes: Processes,
    /// What it has written, and where.
    pub written: Option<Written>,
}

/// What a container has written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// Where.
    pub path: String,
    /// How much.
    pub usage: DiskUsage,
    /// The filesystem that it is on.
    pub filesystem: Option<Filesystem>,
}

/// A filesystem as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Filesystem {
    /// Its bytes.
    pub bytes: u64,
    /// Its inodes.
    pub inodes: u64,
    /// Of these, free ones.
    pub inodes_free: u64,
}

/// One sandbox as it was looked at.
#[derive(Debug, Clone)]
pub struct Sandbox {
    /// Its ID.
    pub id: String,
    /// What it is called.
    pub metadata: PodSandboxMetadata,
    /// Free.
    pub labels: BTreeMap<String, String>,
    /// Free.
    pub annotations: BTreeMap<String, String>,
    /// The path of the control group above its containers'.
    pub cgroup: String,
    /// What the kernel counts for all of it.
    pub counters: Counters,
    /// Its network, the default interface first; nothing in the host's.
    pub links: Vec<Link>,
    /// Its containers that run.
    pub containers: Vec<Container>,
}

impl Written {
    /// What is below `upper`; `None` if that is not known yet.
    ///
    /// # Errors
    /// If it is gone.
    pub fn read(upper: &Path, ledger: &DiskUsageCache, round: Round) -> kernel::Result<Option<Self>> {
        let Some(usage) = ledger.usage(upper, round)? else { return Ok(None) };
        let filesystem = rustix::fs::statvfs(upper).ok().map(|found| Filesystem {
            bytes: found.f_blocks.saturating_mul(found.f_frsize),
            inodes: found.f_files,
            inodes_free: found.f_ffree,
        });
        Ok(Some(Self { path: upper.display().to_string(), usage, filesystem }))
    }
}

//! Which pods a node ends when it runs short of something, and those that use more local storage than their limits, with the
//! kubelet's order and messages.
//!
//! - [`rank`]: the order in which pods are ended.
//! - [`message`]: why, for the pod's status and its event.
//! - [`exceeded_limit`]: limits of local storage that a pod exceeds.

mod limits;
mod message;
mod rank;

use std::collections::BTreeMap;
use std::fmt;

use manifest::k8s_openapi::api::core::v1::Pod;

use super::requests::{self, EPHEMERAL_STORAGE, MEMORY};

pub use limits::{ExceededLimit, exceeded_limit, has_storage_limits};
pub use message::{Amounts, Eviction, message};
pub use rank::rank;

/// What a node runs short of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Starved {
    /// Memory.
    Memory,
    /// Space on a disk.
    EphemeralStorage,
    /// Inodes of a disk.
    Inodes,
    /// Process IDs.
    Pids,
}

impl fmt::Display for Starved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Memory => MEMORY,
            Self::EphemeralStorage => EPHEMERAL_STORAGE,
            Self::Inodes => "inodes",
            Self::Pids => "pids",
        })
    }
}

/// Which parts of what pods have written are on the disk that runs short.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskParts {
    /// Writable layers, logs and volumes.
    All,
    /// Logs and volumes.
    LogsAndVolumes,
    /// Writable layers.
    Layers,
    /// None: only images are there.
    None,
}

/// What something takes of a disk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DiskUse {
    /// Bytes.
    pub bytes: u64,
    /// Files and directories.
    pub inodes: u64,
    /// Whether it may be more: it could not be counted completely.
    pub at_least: bool,
}

impl DiskUse {
    fn and(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_add(other.bytes),
            inodes: self.inodes.saturating_add(other.inodes),
            at_least: self.at_least || other.at_least,
        }
    }

    /// What cannot be counted exceeds every limit: a pod could hide what it has written.
    fn exceeds(self, limit: u64) -> bool {
        self.at_least || self.bytes > limit
    }
}

/// What a pod uses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodUse {
    /// The working set of its memory in bytes.
    pub memory: u64,
    /// Its processes.
    pub processes: u64,
    /// Its containers that run.
    pub containers: Vec<ContainerUse>,
    /// Its volumes that the node has made, by name.
    pub volumes: BTreeMap<String, VolumeUse>,
    /// Other files that the node keeps for it, such as `/etc/hosts`.
    pub files: DiskUse,
}

/// What a container uses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ContainerUse {
    /// Its name.
    pub name: String,
    /// The working set of its memory in bytes; `None` if it is not known.
    pub memory: Option<u64>,
    /// Its writable layer; `None` if it is not known.
    pub layer: Option<DiskUse>,
    /// Its logs; `None` if they are not known.
    pub logs: Option<DiskUse>,
}

/// What a volume takes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct VolumeUse {
    /// How much.
    pub used: DiskUse,
    /// Whether it is on the node's disk, and counts as the pod's ephemeral storage.
    pub is_ephemeral_storage: bool,
}

impl PodUse {
    fn layers(&self) -> DiskUse {
        self.containers.iter().filter_map(|one| one.layer).fold(DiskUse::default(), DiskUse::and)
    }

    fn logs(&self) -> DiskUse {
        self.containers.iter().filter_map(|one| one.logs).fold(DiskUse::default(), DiskUse::and)
    }

    /// Whether it is known what each container has written of these parts. What is known is a lower bound otherwise.
    fn knows(&self, parts: DiskParts) -> bool {
        self.containers.iter().all(|one| match parts {
            DiskParts::All => one.layer.is_some() && one.logs.is_some(),
            DiskParts::LogsAndVolumes => one.logs.is_some(),
            DiskParts::Layers => one.layer.is_some(),
            DiskParts::None => true,
        })
    }

    fn local_volumes(&self) -> DiskUse {
        let local = self.volumes.values().filter(|volume| volume.is_ephemeral_storage);
        local.map(|volume| volume.used).fold(DiskUse::default(), DiskUse::and)
    }

    /// What it takes of the node's ephemeral storage.
    #[must_use]
    pub fn ephemeral_storage(&self) -> DiskUse {
        self.disk(DiskParts::All).and(self.files)
    }

    fn disk(&self, parts: DiskParts) -> DiskUse {
        match parts {
            DiskParts::All => self.layers().and(self.logs()).and(self.local_volumes()),
            DiskParts::LogsAndVolumes => self.logs().and(self.local_volumes()),
            DiskParts::Layers => self.layers(),
            DiskParts::None => DiskUse::default(),
        }
    }
}

/// A pod that may be ended.
#[derive(Debug, Clone, Copy)]
pub struct Candidate<'a> {
    /// The pod.
    pub pod: &'a Pod,
    /// What it uses; `None` if that is not known.
    pub used: Option<&'a PodUse>,
}

impl Candidate<'_> {
    /// How much the pod requests of this, in bytes.
    fn request(&self, name: &str) -> i128 {
        let requests = self.pod.spec.as_ref().map(requests::of_pod).unwrap_or_default();
        i128::from(requests.of(name))
    }
}

#[cfg(test)]
mod tests;

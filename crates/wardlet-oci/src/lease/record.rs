use std::path::PathBuf;

use bundle::IdLines;
use ledger::Holder;
use serde::{Deserialize, Serialize};

use super::Creator;
use crate::gate::Pod;

/// The version that we write.
pub(crate) const VERSION: u32 = 1;

/// What is known of one container. It is written before the container is made and removed after it is
/// deleted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Record {
    /// Of this layout.
    pub version: u32,
    /// Where its runtime keeps its containers.
    pub root: PathBuf,
    /// The container.
    pub container: String,
    /// Its pod's first one; the same for that one.
    pub sandbox: String,
    /// Its pod.
    pub pod: Pod,
    /// Its bundle.
    pub bundle: PathBuf,
    /// Its configuration, as the caller wrote it.
    pub config: PathBuf,
    /// Where the number of its first process is.
    pub pid_file: PathBuf,
    /// The process that makes it: while that runs, nothing else can be told.
    pub creator: Creator,
    /// What became of what the pod asked for.
    pub standing: Standing,
}

impl durable::Record for Record {
    const VERSION: u32 = VERSION;
}

/// What became of what a pod asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum Standing {
    /// It has a user namespace of its own.
    Ward {
        /// Who holds the lease.
        holder: Holder,
        /// The maps; none until the ledger has given them.
        ids: Option<IdLines>,
    },
    /// It runs without one: the operator's gate is closed.
    NotIsolated {
        /// The annotation that asked.
        asked_by: String,
    },
}

impl Record {
    /// Its first process, as the runtime wrote it down.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        super::alive::pid_in(&self.pid_file)
    }

    /// Whether it is of a pod's first container.
    #[must_use]
    pub fn is_sandbox(&self) -> bool {
        self.container == self.sandbox
    }
}

use std::path::PathBuf;

use ids::IdMappings;
use ledger::Holder;
use serde::{Deserialize, Serialize};

use crate::alive::{first_process, has_running_process, pid_in};
use crate::{Creator, Pod};

/// The version of the record format that this crate writes, and the only one that it reads.
pub const VERSION: u32 = 1;

/// The state of one container. `wardlet-oci` writes it before it calls the runtime's `create`, and removes it after the
/// container is deleted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Record {
    /// The version of the record format: [`VERSION`].
    pub version: u32,
    /// The root directory of the runtime's state (`--root`).
    pub root: PathBuf,
    /// The container's ID.
    pub container: String,
    /// The ID of the pod's sandbox container; the same as `container` for the sandbox itself.
    pub sandbox: String,
    /// Its pod.
    pub pod: Pod,
    /// The OCI bundle.
    pub bundle: PathBuf,
    /// The container's `config.json`, as the caller wrote it.
    pub config: PathBuf,
    /// The file with the PID of its init process, which the runtime writes.
    pub pid_file: PathBuf,
    /// The process that creates the container. While it runs, the state of the container is not known.
    pub creator: Creator,
    /// Whether the pod has the user namespace that it asks for.
    pub standing: Standing,
}

impl durable::Record for Record {
    const VERSION: u32 = VERSION;
}

/// Whether a pod has the user namespace that it asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum Standing {
    /// The pod has a user namespace of its own.
    #[serde(rename = "ward")]
    Isolated {
        /// The holder of the lease.
        holder: Holder,
        /// The ID mappings; `None` until the ledger has granted the lease.
        ids: Option<IdMappings>,
    },
    /// The pod runs without a user namespace, since the operator has not enabled the annotation.
    NotIsolated {
        /// The key of the annotation that asks for a user namespace.
        asked_by: String,
    },
}

impl Record {
    /// The PID of its init process; `None` if the runtime has not written the PID file.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        pid_in(&self.pid_file)
    }

    /// Whether this is the record of a pod's sandbox container.
    #[must_use]
    pub fn is_sandbox(&self) -> bool {
        self.container == self.sandbox
    }
}

/// Whether neither the container nor its creator runs. The record may then be replaced, and the lease released.
#[must_use]
pub fn gone(record: &Record) -> bool {
    if record.creator.runs() {
        return false;
    }
    match &record.standing {
        Standing::Isolated { ids: Some(ids), .. } => first_process(&record.pid_file, ids).is_none(),
        Standing::Isolated { ids: None, .. } => true,
        Standing::NotIsolated { .. } => !has_running_process(&record.pid_file),
    }
}

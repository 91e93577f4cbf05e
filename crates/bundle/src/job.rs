use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::start::Start;

/// One container to be run, as it is written down for whoever does it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Job {
    /// The form of this record: 1.
    pub version: u32,
    /// What starts it.
    pub engine: Engine,
    /// Where it keeps what does not outlive the machine's running.
    pub run_dir: PathBuf,
    /// The container.
    pub start: Start,
}

impl durable::Record for Job {
    const VERSION: u32 = 1;
}

/// What starts a container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Engine {
    /// The one that is built in.
    Libcontainer,
    /// A program that speaks as OCI runtimes do.
    Oci {
        /// The program.
        path: PathBuf,
        /// What it is given before anything else.
        args: Vec<String>,
    },
}

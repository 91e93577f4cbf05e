//! What the proxy before the registry does wrong, and to which requests.

use std::fs;

use serde::{Deserialize, Serialize};

use crate::cluster::record::Record;
use crate::{Error, Result};

/// One way of going wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    /// An answer of this status instead of the registry's; `challenge` becomes its `WWW-Authenticate`.
    Status {
        /// `401 Unauthorized`, `503 Service Unavailable`.
        status: String,
        /// The challenge, if any.
        challenge: Option<String>,
    },
    /// The connection breaks after so many bytes of the body.
    Cut {
        /// How many still arrive.
        after: u64,
    },
    /// One byte of the body is another: its digest is wrong.
    Corrupt,
    /// Every 16 KiB of the body take so long.
    Slow {
        /// Milliseconds.
        milliseconds: u64,
    },
    /// The answer begins only after so long.
    Late {
        /// Milliseconds.
        milliseconds: u64,
    },
    /// A ranged request is answered with the whole.
    IgnoreRange,
}

/// A fault for requests whose target contains a text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    /// `/blobs/`, `/manifests/`, or empty for all.
    pub target: String,
    /// For how many requests; after that they go through.
    pub times: u32,
    /// What happens.
    pub fault: Fault,
}

/// The rules' file, read by the proxy at every request.
pub(super) fn path(record: &Record) -> std::path::PathBuf {
    record.places.run.join("registry-faults.json")
}

/// Replaces the rules of the proxy; counting begins anew.
///
/// # Errors
/// If they cannot be written.
pub fn set(record: &Record, rules: &[Rule]) -> Result<()> {
    let path = path(record);
    let text = serde_json::to_string(rules)
        .map_err(|error| Error::Record { path: path.clone(), said: error.to_string() })?;
    let fresh = path.with_extension("new");
    fs::write(&fresh, text).map_err(Error::file("write", &fresh))?;
    fs::rename(&fresh, &path).map_err(Error::file("replace", path))
}

/// What was asked of the proxy since the testbed is up: `METHOD target range -> status` a line.
///
/// # Errors
/// If the log cannot be read.
pub fn requests(record: &Record) -> Result<Vec<String>> {
    let path = record.places.log("fault-proxy");
    let text = fs::read_to_string(&path).map_err(Error::file("read", path))?;
    Ok(text.lines().map(str::to_owned).collect())
}

//! What one testbed is and what it made, on disk before it is made: the way to clean up after a crash.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::handlers::Handler;
use super::parts::{Containerd, NodeAgent, Part, Parts};
use crate::paths::{Places, RUN_ROOT};
use crate::process::ProcessId;
use crate::{Error, Result};

/// How long a testbed lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Lifetime {
    /// Until `testbed down`.
    Detached,
    /// Until its `users` file has had no lock for so many seconds.
    Users {
        /// The grace.
        linger: u64,
    },
}

/// How far it has come.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// Daemons are being started.
    Starting,
    /// All answered.
    Ready,
    /// One did not; what is there goes away again.
    Failed(String),
}

/// A daemon that was started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Daemon {
    /// Of which part.
    pub part: Part,
    /// Its own name: a part can have several daemons.
    pub name: String,
    /// The process.
    pub process: ProcessId,
}

/// Everything about one testbed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// Of this file.
    pub version: u32,
    /// The testbed's name.
    pub name: String,
    /// What it is made of.
    pub parts: Parts,
    /// Which containerd.
    pub containerd: Containerd,
    /// What is in the kubelet's role.
    #[serde(default)]
    pub node_agent: NodeAgent,
    /// Runtime handlers besides the usual one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub handlers: Vec<Handler>,
    /// How long it lives.
    pub lifetime: Lifetime,
    /// Its directories; both are removed with it.
    pub places: Places,
    /// How far it has come.
    pub state: State,
    /// Of which boot: after another, processes and cgroups are gone by themselves.
    pub boot: String,
    /// Outlives the supervisor and cleans up after it.
    pub keeper: Option<ProcessId>,
    /// The number of the range of host IDs that its node gives to pods.
    #[serde(default)]
    pub host_ids: u32,
    /// Holds the namespaces, parent of all daemons.
    pub supervisor: Option<ProcessId>,
    /// The cgroups of which everything that we start is a member, seen from the host.
    pub cgroups: Vec<PathBuf>,
    /// What was started.
    pub daemons: Vec<Daemon>,
}

/// Of the record's layout.
pub(crate) const VERSION: u32 = 1;

impl Record {
    /// Reads the record of the testbed `name`.
    ///
    /// # Errors
    /// If there is none or it cannot be read.
    pub fn read(name: &str) -> Result<Self> {
        let path = Places::of(name, None).record();
        let text = fs::read_to_string(&path).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => Error::Absent { name: name.to_owned() },
            _ => Error::file("read", &path)(error),
        })?;
        let record: Self = serde_json::from_str(&text)
            .map_err(|error| Error::Record { path: path.clone(), said: error.to_string() })?;
        if record.version == VERSION {
            return Ok(record);
        }
        Err(Error::Record { path, said: format!("version {}", record.version) })
    }

    /// Writes it so that a reader sees the old one or the new one.
    pub(crate) fn write(&self) -> Result<()> {
        let path = self.places.record();
        let fresh = path.with_extension("new");
        let text = serde_json::to_string_pretty(self)
            .map_err(|error| Error::Record { path: path.clone(), said: error.to_string() })?;
        fs::write(&fresh, text).map_err(Error::file("write", &fresh))?;
        fs::rename(&fresh, &path).map_err(Error::file("replace", path))
    }

    /// Whether `wardlet agent` runs the containers itself: then there is no runtime beside it.
    pub(crate) fn runtime_is_in_agent(&self) -> bool {
        (self.containerd, self.node_agent) == (Containerd::Wardlet, NodeAgent::Wardlet)
    }

    /// Whether its keeper still runs.
    #[must_use]
    pub fn tended(&self) -> bool {
        self.keeper.is_some_and(ProcessId::alive)
    }

    /// The daemon of this name.
    #[must_use]
    pub fn daemon(&self, name: &str) -> Option<&Daemon> {
        self.daemons.iter().find(|daemon| daemon.name == name)
    }
}

/// The names of all testbeds of which there is a record.
#[must_use]
pub fn names() -> Vec<String> {
    let entries = fs::read_dir(RUN_ROOT).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .filter(|entry| entry.path().join("record.json").exists())
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort();
    names
}

/// This boot.
pub(crate) fn boot() -> String {
    let path = Path::new("/proc/sys/kernel/random/boot_id");
    fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

/// Refuses what cannot be part of a path, a cgroup's name and a socket's address.
pub(crate) fn check_name(name: &str) -> Result<()> {
    let fits = (1..=32).contains(&name.len()) && !name.starts_with('-');
    let plain = name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
    if fits && plain { Ok(()) } else { Err(Error::BadName { name: name.to_owned() }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_lead_out_of_the_run_directory() {
        for bad in ["", "..", "a/b", "-x", "Ä", "A", &"n".repeat(33)] {
            assert!(check_name(bad).is_err(), "{bad:?}");
        }
        check_name("shared-2").expect("a plain name");
    }
}

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use bundle::{Engine, Owners};
use images::{Limits, Remote};

use crate::error::{Error, Result};

/// How the server runs.
#[derive(Debug, Clone)]
pub struct Settings {
    /// What outlives a reboot: records, images, containers' own layers.
    pub state: PathBuf,
    /// What does not: sockets and pins. Short, for the sockets' sake.
    pub run: PathBuf,
    /// What starts containers.
    pub engine: Engine,
    /// Who makes the pods' network.
    pub network: network::Kind,
    /// Where streams are served.
    pub streaming: SocketAddr,
    /// How registries are reached.
    pub remote: Remote,
    /// What an image may take.
    pub limits: Limits,
    /// How the files of an image become a pod's own.
    pub owners: Owners,
    /// The control group above all pods that come without one. It is ours: what is in it and unknown goes.
    pub cgroup: String,
    /// The programs beside this one.
    pub programs: Programs,
    /// Where a line of the log goes.
    pub tell: fn(&str),
}

/// The two programs that do what a process with threads cannot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Programs {
    /// `wardlet-container`.
    pub container: PathBuf,
    /// `wardlet-monitor`.
    pub monitor: PathBuf,
}

impl Programs {
    /// Those that lie beside the program that runs.
    ///
    /// # Errors
    /// If one does not.
    pub fn beside_this() -> Result<Self> {
        let own = std::env::current_exe().map_err(|cause| Error::File {
            what: "find",
            path: "/proc/self/exe".into(),
            cause,
        })?;
        Self::in_dir(own.parent().unwrap_or_else(|| Path::new("/")))
    }

    /// Those in a directory.
    ///
    /// # Errors
    /// If one is not there.
    pub fn in_dir(dir: &Path) -> Result<Self> {
        let find = |name: &str| {
            let path = dir.join(name);
            let missing = || Error::Program {
                program: path.display().to_string(),
                cause: "there is no such program".to_owned(),
                hint: Some(format!("install {name} beside wardlet")),
            };
            if path.is_file() { Ok(path) } else { Err(missing()) }
        };
        Ok(Self { container: find("wardlet-container")?, monitor: find("wardlet-monitor")? })
    }
}

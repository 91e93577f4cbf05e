use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use container::{Engine, Owners};
use images::{Limits, Remote};

use crate::error::{Error, Result};
use selinux::CategoryPairs;

/// Configuration of the server.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The state directory, which outlives a reboot: records, images, containers' upper layers.
    pub state: PathBuf,
    /// The run directory, which does not: sockets and namespace pins. Its path must be short, as a socket's path may have
    /// 107 bytes only.
    pub run: PathBuf,
    /// The engine that starts containers: the built-in one or an OCI runtime.
    pub engine: Engine,
    /// The kind of network that pods get.
    pub network: network::Kind,
    /// The address of the streaming server for exec, attach and port-forward.
    pub streaming: SocketAddr,
    /// Configuration of registries.
    pub remote: Remote,
    /// Limits of an image's size.
    pub limits: Limits,
    /// How image files get the IDs of a pod's user namespace.
    pub owners: Owners,
    /// The parent cgroup of pods without a `cgroup_parent`. The server owns it, and kills unknown processes in it.
    pub cgroup: String,
    /// The node's allocator of SELinux category pairs.
    pub pairs: Arc<dyn CategoryPairs>,
    /// Paths of the helper programs.
    pub programs: Programs,
}

/// A path that can be the parent cgroup of pods: unknown cgroups in it are removed, so that it cannot be the root of all.
#[must_use]
pub fn parent_cgroup(text: &str) -> Option<String> {
    let is_plain = |part: &str| !part.is_empty() && part != "." && part != "..";
    let below = text.strip_prefix('/')?;
    below.split('/').all(is_plain).then(|| text.to_owned())
}

/// The two helper programs, for work that a multi-threaded process cannot do, such as joining a user namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Programs {
    /// `wardlet-container`.
    pub container: PathBuf,
    /// `wardlet-monitor`.
    pub monitor: PathBuf,
}

impl Programs {
    /// The helper programs in the directory of the running program.
    ///
    /// # Errors
    /// If a program is missing.
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
    /// If a program is missing.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_of_all_control_groups_is_never_ours() {
        for wrong in ["/", "", "wardlet", "/a/../b", "//", "/a/"] {
            assert_eq!(parent_cgroup(wrong), None, "{wrong}");
        }
        for right in ["/wardlet", "/machine/wardlet"] {
            assert_eq!(parent_cgroup(right).as_deref(), Some(right));
        }
    }
}

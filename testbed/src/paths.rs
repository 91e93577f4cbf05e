//! Where things are: the cache of components, the run directories and the data of each testbed.

use std::env;
use std::path::{Path, PathBuf};

/// Records, sockets and logs of all testbeds. Short, because a socket's path has 107 bytes at most.
pub const RUN_ROOT: &str = "/run/wardlet-testbed";

/// Data of all testbeds that named no other place: a real filesystem, where tmpfs would fill memory.
pub const DATA_ROOT: &str = "/var/tmp/wardlet-testbed";

/// Where built components are kept, outside of any checkout.
#[must_use]
pub fn cache_root() -> PathBuf {
    cache_home().join("testbed")
}

/// Where the results of upstream's specs are kept.
#[must_use]
pub fn results_root() -> PathBuf {
    cache_home().join("results")
}

fn cache_home() -> PathBuf {
    let from = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    from("WARDLET_CACHE")
        .or_else(|| from("XDG_CACHE_HOME").map(|cache| cache.join("wardlet")))
        .or_else(|| from("HOME").map(|home| home.join(".cache/wardlet")))
        .unwrap_or_else(|| PathBuf::from("/var/cache/wardlet"))
}

/// The directories of one testbed.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Places {
    /// Record, sockets, logs.
    pub run: PathBuf,
    /// Everything that grows: etcd, images, pods, certificates.
    pub data: PathBuf,
}

impl Places {
    /// The places of the testbed `name`, its data below `data_root` or the default.
    #[must_use]
    pub fn of(name: &str, data_root: Option<&Path>) -> Self {
        Self {
            run: Path::new(RUN_ROOT).join(name),
            data: data_root.unwrap_or_else(|| Path::new(DATA_ROOT)).join(name),
        }
    }

    /// The supervisor's own socket.
    #[must_use]
    pub fn control(&self) -> PathBuf {
        self.run.join("control.sock")
    }

    /// What the testbed is and what it made.
    #[must_use]
    pub fn record(&self) -> PathBuf {
        self.run.join("record.json")
    }

    /// Locked by every user of a testbed that ends with its users.
    #[must_use]
    pub fn users(&self) -> PathBuf {
        self.run.join("users")
    }

    /// A part's log.
    #[must_use]
    pub fn log(&self, part: &str) -> PathBuf {
        self.run.join("log").join(format!("{part}.log"))
    }

    /// Certificates and kubeconfigs.
    #[must_use]
    pub fn pki(&self) -> PathBuf {
        self.data.join("pki")
    }

    /// containerd's socket.
    #[must_use]
    pub fn containerd_socket(&self) -> PathBuf {
        self.run.join("containerd.sock")
    }

    /// The recorder's socket: containerd's, with each request written down.
    #[must_use]
    pub fn recorder_socket(&self) -> PathBuf {
        self.run.join("recorder.sock")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_data_root_moves_the_data_and_not_the_sockets() {
        let places = Places::of("one", Some(Path::new("/srv/a/long/way/down")));
        assert_eq!(places.data, Path::new("/srv/a/long/way/down/one"));
        assert_eq!(places.control(), Path::new("/run/wardlet-testbed/one/control.sock"));
    }

    #[test]
    fn sockets_of_the_longest_name_fit_a_socket_address() {
        let places = Places::of(&"n".repeat(32), None);
        assert!(places.containerd_socket().as_os_str().len() < 100);
    }
}

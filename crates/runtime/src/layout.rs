use std::path::{Path, PathBuf};

use kernel::NamespaceKind;

use crate::error::{Error, Result};
use crate::files;
use crate::id::Id;

/// The server's part of the state directory, and the part of that for sandboxes.
const OWN: &str = "runtime";
const SANDBOXES: &str = "sandboxes";

/// Where everything is kept.
///
/// ```text
/// <state>/runtime/{lock,id}                               held by the server, and who it is
/// <state>/runtime/sandboxes/<id>/sandbox.json
/// <state>/runtime/containers/<id>/{container,job,config,started,exit}.json, rw/, volumes/
/// <state>/runtime/damaged/<id>.json                      records that could not be read
/// <run>/sandboxes/<id>/{ns/,shm/,hosts,hostname,resolv.conf,monitor.sock,monitor.json}
/// <run>/containers/<id>/
/// <run>/{lock,owner}                                      held by the server, and whose pods these are
/// ```
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    state: PathBuf,
    run: PathBuf,
}

/// One sandbox's places.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SandboxPlaces {
    /// What outlives a reboot.
    pub(crate) state: PathBuf,
    /// What does not.
    pub(crate) run: PathBuf,
}

/// One container's places.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ContainerPlaces {
    /// What outlives a reboot: the directory that `wardlet-container` is given.
    pub(crate) state: PathBuf,
    /// What does not.
    pub(crate) run: PathBuf,
}

impl Layout {
    /// Below these two directories, which are made.
    ///
    /// # Errors
    /// If one cannot be made.
    pub(crate) fn make(state: &Path, run: &Path) -> Result<Self> {
        let (state, run) = (durable::make_owned_dirs(state, 0o700)?, durable::make_owned_dirs(run, 0o711)?);
        let layout = Self { state: state.join(OWN), run };
        for dir in [layout.sandbox_states(), layout.container_states(), layout.sandbox_runs()] {
            files::make_dir(&dir)?;
        }
        files::make_passable_dir(&layout.run)?;
        files::make_passable_dir(&layout.container_runs())?;
        // The kernel's table of mounts knows no links: a path through one would never be found there.
        Ok(Self { state: real(&layout.state)?, run: real(&layout.run)? })
    }

    /// The part of the state that is this server's.
    pub(crate) fn state(&self) -> &Path {
        &self.state
    }

    pub(crate) fn lock(&self) -> PathBuf {
        self.state.join("lock")
    }

    /// What tells this state from any other.
    pub(crate) fn own_id(&self) -> PathBuf {
        self.state.join("id")
    }

    pub(crate) fn run_lock(&self) -> PathBuf {
        self.run.join("lock")
    }

    /// The ID of the state whose pods are in the directory that does not outlive a reboot.
    pub(crate) fn owner(&self) -> PathBuf {
        self.run.join("owner")
    }

    /// What was seen to work.
    pub(crate) fn worked(&self) -> PathBuf {
        self.state.join("worked.json")
    }

    /// The directory that does not outlive a reboot.
    pub(crate) fn run(&self) -> &Path {
        &self.run
    }

    pub(crate) fn sandbox_states(&self) -> PathBuf {
        self.state.join(SANDBOXES)
    }

    /// The same of a state directory that need not be there.
    pub(crate) fn sandbox_states_below(state: &Path) -> PathBuf {
        state.join(OWN).join(SANDBOXES)
    }

    pub(crate) fn container_states(&self) -> PathBuf {
        self.state.join("containers")
    }

    /// The directory of damaged records, which are kept for inspection.
    pub(crate) fn damaged(&self) -> PathBuf {
        self.state.join("damaged")
    }

    pub(crate) fn sandbox_runs(&self) -> PathBuf {
        self.run.join("sandboxes")
    }

    pub(crate) fn container_runs(&self) -> PathBuf {
        self.run.join("containers")
    }

    /// Those of one sandbox.
    #[must_use]
    pub(crate) fn sandbox(&self, id: &Id) -> SandboxPlaces {
        SandboxPlaces {
            state: self.sandbox_states().join(id.as_str()),
            run: self.sandbox_runs().join(id.as_str()),
        }
    }

    /// Those of one container.
    #[must_use]
    pub(crate) fn container(&self, id: &Id) -> ContainerPlaces {
        ContainerPlaces {
            state: self.container_states().join(id.as_str()),
            run: self.container_runs().join(id.as_str()),
        }
    }
}

fn real(path: &Path) -> Result<PathBuf> {
    std::fs::canonicalize(path).map_err(|cause| Error::File { what: "find", path: path.to_owned(), cause })
}

impl SandboxPlaces {
    pub(crate) fn record(&self) -> PathBuf {
        self.state.join("sandbox.json")
    }

    pub(crate) fn pins(&self) -> PathBuf {
        self.run.join("ns")
    }

    pub(crate) fn pin(&self, kind: NamespaceKind) -> PathBuf {
        self.pins().join(kind.file())
    }

    pub(crate) fn shm(&self) -> PathBuf {
        self.run.join("shm")
    }

    pub(crate) fn hosts(&self) -> PathBuf {
        self.run.join("hosts")
    }

    pub(crate) fn hostname(&self) -> PathBuf {
        self.run.join("hostname")
    }

    pub(crate) fn resolv_conf(&self) -> PathBuf {
        self.run.join("resolv.conf")
    }
}

impl ContainerPlaces {
    pub(crate) fn record(&self) -> PathBuf {
        self.state.join("container.json")
    }

    pub(crate) fn job(&self) -> PathBuf {
        self.state.join("job.json")
    }

    pub(crate) fn exit(&self) -> PathBuf {
        self.state.join("exit.json")
    }

    /// Where the PID namespace of the container that this one looks into is pinned.
    pub(crate) fn target(&self) -> PathBuf {
        self.run.join("target")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_behind_a_link_are_known_by_the_paths_that_the_kernel_shows() {
        let dir = tempfile::tempdir().unwrap();
        let real = dir.path().canonicalize().unwrap().join("real");
        std::fs::create_dir(&real).unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&real, &link).unwrap();
        let layout = Layout::make(&link.join("s"), &link.join("r")).unwrap();
        assert_eq!(layout.sandbox_runs(), real.join("r/sandboxes"));
        assert_eq!(layout.sandbox_states(), real.join("s/runtime/sandboxes"));
    }
}

use std::path::{Path, PathBuf};

use kernel::NamespaceKind;

use crate::durable;
use crate::error::Result;
use crate::id::Id;

/// Where everything is kept.
///
/// ```text
/// <state>/runtime/lock                                    held by the server
/// <state>/runtime/sandboxes/<id>/sandbox.json
/// <state>/runtime/containers/<id>/{container,job,config,started,exit}.json, rw/, volumes/
/// <run>/sandboxes/<id>/{ns/,shm/,hosts,hostname,resolv.conf,monitor.sock,monitor.json}
/// <run>/containers/<id>/
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
        let layout = Self { state: state.join("runtime"), run: run.to_owned() };
        for dir in [layout.sandbox_states(), layout.container_states(), layout.sandbox_runs()] {
            durable::make_dir(&dir)?;
        }
        durable::make_passable_dir(&layout.run)?;
        durable::make_passable_dir(&layout.container_runs())?;
        Ok(layout)
    }

    /// The part of the state that is this server's.
    pub(crate) fn state(&self) -> &Path {
        &self.state
    }

    pub(crate) fn lock(&self) -> PathBuf {
        self.state.join("lock")
    }

    pub(crate) fn sandbox_states(&self) -> PathBuf {
        self.state.join("sandboxes")
    }

    pub(crate) fn container_states(&self) -> PathBuf {
        self.state.join("containers")
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
}

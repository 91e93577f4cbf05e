//! Containers: made from an image and a sandbox, started by the sandbox's monitor, ended, taken away.
//!
//! What became of a container after its start is written down by the monitor and read from there, so nothing
//! is lost while no server runs.

pub(crate) mod attach;
pub(crate) mod create;
pub(crate) mod ended;
pub(crate) mod exec;
pub(crate) mod files;
mod relabel;
pub(crate) mod remove;
pub(crate) mod start;
mod started;
pub(crate) mod stop;
pub(crate) mod update;

use cri::ContainerConfig;

use crate::container_state::ContainerState;
use crate::error::{Error, Result};
use crate::id::Id;
use crate::records::SandboxStage;
use crate::store::{Container, Sandbox};

/// What tells one container from all others of its sandbox.
pub(crate) fn name(sandbox: &Id, config: &ContainerConfig) -> Result<String> {
    let metadata = config.metadata.as_ref().ok_or_else(|| Error::invalid("metadata", "it is missing"))?;
    if metadata.name.is_empty() {
        return Err(Error::invalid("metadata.name", "it is empty"));
    }
    Ok(format!("{}_{sandbox}_{}", metadata.name, metadata.attempt))
}

/// In words: its name and ID.
pub(crate) fn called(container: &Container) -> String {
    let metadata = container.record().config.metadata.unwrap_or_default();
    format!("container {} ({})", container.id, metadata.name)
}

/// Whether containers can be made and started in it.
pub(crate) fn is_ready(sandbox: &Sandbox) -> Result<()> {
    if sandbox.is(SandboxStage::Ready) {
        return Ok(());
    }
    Err(Error::State {
        what: "sandbox",
        id: sandbox.id.to_string(),
        state: "not ready",
        needed: "containers are made and started only in one that is ready",
    })
}

/// Its first process, if it runs.
pub(crate) fn running(container: &Container) -> Result<monitor::Started> {
    match container.state() {
        ContainerState::Running(started) => Ok(started),
        other => Err(Error::State {
            what: "container",
            id: container.id.to_string(),
            state: other.word(),
            needed: "it has to run",
        }),
    }
}

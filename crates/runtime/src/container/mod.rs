//! Containers: made from an image and a sandbox, started by the sandbox's monitor, ended, taken away.
//!
//! What became of a container after its start is written down by the monitor and read from there, so nothing
//! is lost while no server runs.

pub(crate) mod attach;
pub(crate) mod create;
pub(crate) mod ended;
pub(crate) mod exec;
mod relabel;
pub(crate) mod remove;
pub(crate) mod start;
pub(crate) mod stop;
pub(crate) mod update;

use wire::cri::ContainerConfig;

use crate::book::Container;
use crate::error::{Error, Result};
use crate::id::Id;
use crate::life::Life;

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

/// Its first process, if it runs.
pub(crate) fn running(container: &Container) -> Result<monitor::Started> {
    match container.life() {
        Life::Running(started) => Ok(started),
        other => Err(Error::State {
            what: "container",
            id: container.id.to_string(),
            state: other.word(),
            needed: "it has to run",
        }),
    }
}

//! The `info` maps of verbose status calls.

use std::collections::BTreeMap;

use cri::StatusResponse;
use serde_json::{Value, json};

use crate::container_state::ContainerState;
use crate::node::Node;
use crate::settings::Programs;
use crate::status::{self, Facts, Handler};
use crate::store::{Container, Sandbox};

pub(super) async fn status(node: &Node, verbose: bool) -> StatusResponse {
    let settings = &node.settings;
    let name = status::handler_name(&settings.engine);
    let handlers = [Handler { name, abilities: node.abilities }];
    let facts = Facts {
        runtime: programs_are_there(&settings.programs),
        network: node.network.ready().await,
        unguarded: node.network.unguarded(),
        handlers: &handlers,
        state_dir: &settings.state,
        settings: json!({
            "runDir": settings.run,
            "engine": handlers.first().map(|handler| &handler.name),
            "cgroup": settings.cgroup,
            "streaming": node.streams.get().map(|streams| streams.address().to_string()),
        }),
    };
    status::status(&facts, verbose)
}

/// Without the helper programs no container starts; they are missing while a package manager replaces them.
fn programs_are_there(programs: &Programs) -> Result<(), String> {
    let missing = [&programs.container, &programs.monitor].into_iter().find(|path| !path.is_file());
    missing.map_or(Ok(()), |path| Err(format!("{} is gone", path.display())))
}

/// By convention JSON under one key.
fn under_info(value: &Value) -> BTreeMap<String, String> {
    BTreeMap::from([("info".to_owned(), value.to_string())])
}

pub(super) fn sandbox(node: &Node, sandbox: &Sandbox) -> BTreeMap<String, String> {
    let record = sandbox.record();
    under_info(&json!({
        "runDir": sandbox.places.run,
        "cgroupParent": record.cgroup.path(),
        "uidMappings": record.ids.as_ref().map(|ids| &ids.uids),
        "gidMappings": record.ids.as_ref().map(|ids| &ids.gids),
        "addressesNotGuarded": node.network.unguarded(),
    }))
}

pub(super) fn container(container: &Container) -> BTreeMap<String, String> {
    let record = container.record();
    let pid = match container.state() {
        ContainerState::Running(started) => started.pid,
        _ => 0,
    };
    under_info(&json!({
        "sandboxID": record.sandbox,
        "pid": pid,
        "stateDir": container.places.state,
        "cgroup": record.cgroup,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runtime_whose_programs_are_gone_is_not_ready() {
        let dir = tempfile::tempdir().unwrap();
        let programs = Programs { container: dir.path().join("c"), monitor: dir.path().join("m") };
        std::fs::write(&programs.container, "").unwrap();
        assert!(programs_are_there(&programs).unwrap_err().ends_with("m is gone"));
        std::fs::write(&programs.monitor, "").unwrap();
        programs_are_there(&programs).unwrap();
    }
}

use std::sync::Arc;

use monitor::{Failed, Reply, Request, Start, Started, Stdin};
use wire::cri::{ContainerConfig, ContainerEventType};

use super::{called, create, ended};
use crate::book::{Container, Sandbox};
use crate::error::{Error, Result};
use crate::life::Life;
use crate::node::{Node, blocking, now};
use crate::records::ContainerStage;
use crate::{events, monitors};

/// Starts a container that was created.
pub(crate) async fn start(node: Arc<Node>, id: String) -> Result<()> {
    let container = node.book.container(&id)?;
    let sandbox = node.book.sandbox(container.sandbox.as_str())?;
    let _gate = sandbox.gate.lock().await;
    create::is_ready(&sandbox)?;
    if container.life() != Life::Created {
        return Err(Error::State {
            what: "container",
            id: container.id.to_string(),
            state: container.life().word(),
            needed: "only one that was created and never started can be",
        });
    }
    let (on_node, of_sandbox, to_start) = (Arc::clone(&node), Arc::clone(&sandbox), Arc::clone(&container));
    match blocking(move || ask(&on_node, &of_sandbox, &to_start)).await? {
        Ok(started) => {
            if begin(&container, started) {
                tell_started(&node, &sandbox, &container);
            }
            Ok(())
        }
        Err(failed) => {
            node.tell(&format!("{} did not start: {}", called(&container), failed.what));
            events::tell(&node, ContainerEventType::ContainerStoppedEvent, &container.id, &sandbox);
            ended::clean(&node, &container).await?;
            Err(Error::Step {
                step: format!("start {}", called(&container)),
                cause: failed.what,
                hint: failed.hint,
            })
        }
    }
}

/// Has it run from now on, unless it is known already that it does or did.
pub(crate) fn begin(container: &Container, started: Started) -> bool {
    container.life.send_if_modified(|life| {
        let begins = *life == Life::Created;
        if begins {
            *life = Life::Running(started);
        }
        begins
    })
}

pub(crate) fn tell_started(node: &Node, sandbox: &Sandbox, container: &Container) {
    node.tell(&format!("{} is started", called(container)));
    events::tell(node, ContainerEventType::ContainerStartedEvent, &container.id, sandbox);
}

/// Has the monitor start it. That it did not start is written down.
fn ask(node: &Node, sandbox: &Sandbox, container: &Container) -> Result<Result<Started, Failed>> {
    container.change(|record| record.stage = ContainerStage::Starting)?;
    let record = container.record();
    let request = Request::Start(Start {
        container: container.id.to_string(),
        dir: container.places.state.clone(),
        log: record.log,
        terminal: record.config.tty,
        stdin: stdin(&record.config),
        limits: None,
    });
    let reply = monitors::client(node, sandbox).and_then(|mut client| Ok(client.call(&request, &[])?));
    let failed = match reply {
        Ok(Reply::Started(_)) => {
            return Started::read(&container.places.state)?.map(Ok).ok_or_else(|| lost(container));
        }
        Ok(Reply::Failed(failed)) => failed,
        Ok(Reply::Refused { what }) => of(container, what),
        Ok(_) => of(container, "the pod's monitor gave no answer that can be understood".to_owned()),
        Err(error) => of(container, error.to_string()),
    };
    fail(container, &failed)?;
    Ok(Err(failed))
}

/// Writes down that it never ran.
pub(crate) fn fail(container: &Container, failed: &Failed) -> Result<()> {
    let (reason, message, at) = (failed.reason.clone(), failed.what.clone(), now());
    container.change(|record| record.stage = ContainerStage::Failed { reason, message, at })?;
    let life = Life::read(&container.places.state, &container.record().stage)?;
    container.life.send_replace(life);
    Ok(())
}

/// A failure of ours, not of the container's own program.
pub(crate) fn of(container: &Container, what: String) -> Failed {
    Failed { container: container.id.to_string(), what, hint: None, reason: "ContainerCannotRun".to_owned() }
}

fn lost(container: &Container) -> Error {
    Error::Step {
        step: format!("learn who the first process of {} is", called(container)),
        cause: "its monitor wrote nothing down".to_owned(),
        hint: None,
    }
}

fn stdin(config: &ContainerConfig) -> Stdin {
    match (config.stdin, config.stdin_once) {
        (false, _) => Stdin::None,
        (true, false) => Stdin::Open,
        (true, true) => Stdin::Once,
    }
}

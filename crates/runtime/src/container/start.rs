use std::sync::Arc;
use std::time::{Duration, Instant};

use cri::{ContainerConfig, ContainerEventType};
use monitor::{Client, Failed, Reply, Request, StartRequest, Started, Stdin};
use rustix::process::Signal;
use tracing::warn;

use super::started::begin;
use super::{called, ended, is_ready};
use crate::container_state::ContainerState;
use crate::error::{Error, Result};
use crate::monitors;
use crate::node::Node;
use crate::records::ContainerStage;
use crate::store::{Container, Sandbox, locked};
use crate::work::{blocking, now};

/// Between two looks at a start.
const PAUSE: Duration = Duration::from_millis(50);
/// How long what was killed may take to end.
const AFTER_KILL: Duration = Duration::from_secs(10);

/// Starts a container that was created.
pub(crate) async fn start(node: Arc<Node>, id: String) -> Result<()> {
    let container = node.store.container(&id)?;
    let sandbox = node.store.sandbox(container.sandbox.as_str())?;
    let _gate = sandbox.gate.lock().await;
    is_ready(&sandbox)?;
    if container.state() != ContainerState::Created {
        return Err(Error::State {
            what: "container",
            id: container.id.to_string(),
            state: container.state().word(),
            needed: "only one that was created and never started can be",
        });
    }
    let (on_node, of_sandbox, to_start) = (Arc::clone(&node), Arc::clone(&sandbox), Arc::clone(&container));
    match blocking(move || ask(&on_node, &of_sandbox, &to_start)).await? {
        Ok(started) => {
            let _turn = locked(&container.turns);
            begin(&node, &sandbox, &container, started);
            Ok(())
        }
        Err(failed) => {
            let name = called(&container);
            warn!(parent: &sandbox.span, container = %container.id, "{name} did not start: {}", failed.what);
            node.events.publish(
                &node.store,
                ContainerEventType::ContainerStoppedEvent,
                &container.id,
                &sandbox,
            );
            if let Err(error) = ended::clean(&node, &container).await {
                warn!(parent: &sandbox.span, container = %container.id, "{name}: {error}");
            }
            Err(Error::Step {
                step: format!("start {}", called(&container)),
                cause: failed.what,
                hint: failed.hint,
            })
        }
    }
}

/// Has the monitor start it. That it did not start is written down.
fn ask(node: &Node, sandbox: &Sandbox, container: &Container) -> Result<Result<Started, Failed>> {
    node.groups.soon();
    container.change(|record| record.stage = ContainerStage::Starting)?;
    let record = container.record();
    let request = Request::Start(StartRequest {
        container: container.id.to_string(),
        dir: container.places.state.clone(),
        log: record.log,
        terminal: record.config.tty,
        stdin: stdin(&record.config),
        limits: None,
    });
    let reply = monitors::client(node, sandbox).and_then(|mut client| {
        let reply = client.call(&request, &[]);
        if let Err(monitor::Error::Silent { .. }) = &reply {
            // It must not begin to run after it was said that it does not.
            give_up(&mut client, container)?;
        }
        Ok(reply?)
    });
    let failed = match reply {
        Ok(Reply::Started(_)) => {
            return Started::read(&container.places.state)?.map(Ok).ok_or_else(|| lost(container));
        }
        Ok(Reply::Failed(failed)) => failed,
        Ok(Reply::Refused { what }) => of(container, what),
        Ok(_) => of(container, "the pod's monitor gave no answer that can be understood".to_owned()),
        // Its monitor may be gone, but have written down that it runs.
        Err(error) => match Started::read(&container.places.state)? {
            Some(started) => return Ok(Ok(started)),
            None => of(container, error.to_string()),
        },
    };
    fail(container, &failed)?;
    Ok(Err(failed))
}

/// Waits until a container that is being started runs or never will; one that takes too long is ended. Blocks.
pub(crate) fn wait(client: &mut Client, container: &Container, patience: Duration) -> Result<()> {
    let deadline = Instant::now() + patience;
    while is_under_way(client, container)? {
        if Instant::now() >= deadline {
            return give_up(client, container);
        }
        std::thread::sleep(PAUSE);
    }
    Ok(())
}

/// Kills the processes that are starting it.
fn give_up(client: &mut Client, container: &Container) -> Result<()> {
    let signal = Signal::KILL.as_raw();
    monitors::done(client.call(&Request::Signal { container: container.id.to_string(), signal }, &[])?)?;
    let deadline = Instant::now() + AFTER_KILL;
    while is_under_way(client, container)? {
        if Instant::now() >= deadline {
            return Err(Error::Step {
                step: format!("give up the start of {}", called(container)),
                cause: "the process that starts it is still running after SIGKILL".to_owned(),
                hint: None,
            });
        }
        std::thread::sleep(PAUSE);
    }
    Ok(())
}

/// Whether the monitor still waits for it to start.
fn is_under_way(client: &mut Client, container: &Container) -> Result<bool> {
    let Reply::Listed(listed) = client.call(&Request::List, &[])? else { return Ok(false) };
    let own = listed.iter().find(|listed| listed.container == container.id.as_str());
    Ok(own.is_some_and(|listed| listed.pid.is_none() && listed.running && listed.exit.is_none()))
}

/// Writes down that it never ran.
pub(crate) fn fail(container: &Container, failed: &Failed) -> Result<()> {
    let (reason, message, at) = (failed.reason.clone(), failed.what.clone(), now());
    container.change(|record| record.stage = ContainerStage::Failed { reason, message, at })?;
    let life = ContainerState::read(&container.places.state, &container.record().stage)?;
    container.state.send_replace(life);
    Ok(())
}

/// A failure of ours, not of the container's own program.
pub(crate) fn of(container: &Container, what: String) -> Failed {
    Failed { container: container.id.to_string(), what, hint: None, reason: "ContainerCannotRun".to_owned() }
}

fn lost(container: &Container) -> Error {
    Error::Step {
        step: format!("read the PID of the first process of {}", called(container)),
        cause: "the pod's monitor has not recorded it".to_owned(),
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

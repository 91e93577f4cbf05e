use std::sync::Arc;
use std::time::Duration;

use cri::ContainerEventType;
use kernel::Process;
use monitor::{Ending, Exit, ProcessId, Started};
use tokio::process::Command;
use tokio::time::timeout;
use tracing::{info, warn};

use super::called;
use super::started::begin;
use crate::container_state::{ContainerState, Ended};
use crate::error::{Error, Result};
use crate::files;
use crate::layout::ContainerPlaces;
use crate::node::Node;
use crate::store::{Container, Sandbox, locked};
use crate::work::{blocking, now};

/// How long the removal of what the kernel keeps may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// Records the end of a container: from its directory, or else from `told`, the monitor's report. Idempotent.
pub(crate) async fn settle(node: &Arc<Node>, id: &str, told: Option<Exit>) {
    let Ok(container) = node.store.container(id) else { return };
    let (on_node, of_container) = (Arc::clone(node), Arc::clone(&container));
    let read = blocking(move || {
        let started = Started::read(&of_container.places.state)?;
        let life = ContainerState::read(&of_container.places.state, &of_container.record().stage)?;
        Ok((started.clone(), believed(&on_node, &of_container, life, started, told)))
    });
    let Ok(sandbox) = node.store.sandbox(container.sandbox.as_str()) else {
        // No call waits for it any more, but it may be about to be removed.
        if let Ok((_, ended @ ContainerState::Exited(_))) = read.await {
            container.state.send_replace(ended);
        }
        return;
    };
    match read.await {
        Ok((started, ContainerState::Exited(ended))) => {
            if !end(node, &sandbox, &container, started, ended) {
                return;
            }
        }
        Ok(_) => return,
        Err(error) => {
            warn!(parent: &sandbox.span, container = %container.id, "{}: {error}", called(&container));
            return;
        }
    }
    let node = Arc::clone(node);
    tokio::spawn(async move {
        let _gate = sandbox.gate.lock().await;
        if let Err(error) = clean(&node, &container).await {
            warn!(parent: &sandbox.span, container = %container.id, "{}: {error}", called(&container));
        }
    });
}

/// Has it ended from now on, and tells so. False if that was known.
fn end(
    node: &Node,
    sandbox: &Sandbox,
    container: &Container,
    started: Option<Started>,
    ended: Ended,
) -> bool {
    let (code, reason) = (ended.code, ended.reason.clone());
    let _turn = locked(&container.turns);
    // It may have ended before the start call could publish that it runs.
    if let Some(started) = started {
        begin(node, sandbox, container, started);
    }
    let is_news = container.state.send_if_modified(|life| {
        let is_news = !matches!(life, ContainerState::Exited(_));
        if is_news {
            *life = ContainerState::Exited(ended);
        }
        is_news
    });
    if is_news {
        let name = called(container);
        info!(parent: &sandbox.span, container = %container.id, code, "{name} has ended with {code}: {reason}");
        node.events.publish(&node.store, ContainerEventType::ContainerStoppedEvent, &container.id, sandbox);
    }
    is_news
}

/// The monitor writes an end down before it tells, but a disk may be full: then it is written down here, and
/// counts whether or not that succeeds.
fn believed(
    node: &Node,
    container: &Container,
    life: ContainerState,
    started: Option<Started>,
    told: Option<Exit>,
) -> ContainerState {
    let (ContainerState::Running(_), Some(exit)) = (&life, told) else { return life };
    if let Err(error) = files::write(&container.places.exit(), &exit) {
        let name = called(container);
        warn!(parent: &node.span(container), container = %container.id, "the end of {name} is not written down: {error}");
    }
    ContainerState::Exited(Ended::of(&exit, started))
}

/// Records a lost exit status: the container's first process has exited, and its monitor died before it. Blocks.
pub(crate) fn record_lost_exit(node: &Node, container: &Container) -> Result<()> {
    let ContainerState::Running(started) =
        ContainerState::read(&container.places.state, &container.record().stage)?
    else {
        return Ok(());
    };
    let runs = started.boot_id == node.boot_id && runs(started.process());
    let sandbox = node.layout.sandbox(&container.sandbox);
    if runs || monitor::Client::connect(&sandbox.run).is_ok() {
        return Ok(());
    }
    let exit = Exit { ending: Ending::Lost, oom: false, finished_at: now(), message: None };
    files::write(&container.places.exit(), &exit)
}

/// Whether the process still runs. A zombie does not.
fn runs(id: ProcessId) -> bool {
    Process::open(id.pid).is_ok_and(|process| id.is_same() && process.is_running().unwrap_or(true))
}

/// Takes away what an ended container has in the kernel: processes that outlived its first one, its control
/// group, the engine's state. None there is fine. Under the sandbox's gate.
pub(crate) async fn clean(node: &Arc<Node>, container: &Container) -> Result<()> {
    if !container.places.state.exists() {
        return Ok(());
    }
    let (on_node, cgroup) = (Arc::clone(node), container.record().cgroup);
    blocking(move || Ok(on_node.groups.kill_all(&cgroup)?)).await?;
    if let Err(error) = files::read::<container::Job>(&container.places.job()) {
        // The program below would not know what to do. What shares our kernel is gone with its group.
        warn!(parent: &node.span(container), container = %container.id, "{}: {error}", called(container));
        let (on_node, cgroup) = (Arc::clone(node), container.record().cgroup);
        return blocking(move || Ok(on_node.groups.remove(&cgroup)?)).await;
    }
    delete(node, &container.places).await
}

/// The same of a container that has a directory and no record.
pub(crate) async fn clean_unknown(node: &Arc<Node>, places: &ContainerPlaces) -> Result<()> {
    match files::read::<container::Job>(&places.job()) {
        Ok(Some(job)) => {
            let (on_node, cgroup) = (Arc::clone(node), job.start.cgroup.path);
            let started = places.state.join(monitor::record::STARTED);
            blocking(move || {
                on_node.groups.kill_all(&cgroup)?;
                // It may be what is damaged, and says nothing any more that is of use.
                files::remove(&started)
            })
            .await?;
            delete(node, places).await
        }
        // What it has is found by its name.
        Ok(None) | Err(_) => Ok(()),
    }
}

/// Has the program that starts containers take away what it made.
async fn delete(node: &Arc<Node>, places: &ContainerPlaces) -> Result<()> {
    if !places.job().exists() {
        // The monitor never received a request to start it.
        return Ok(());
    }
    let program = &node.settings.programs.container;
    let failed = |cause: String| Error::Program {
        program: format!("{} delete {}", program.display(), places.state.display()),
        cause,
        hint: None,
    };
    let mut command = Command::new(program);
    command.arg("delete").arg(&places.state).kill_on_drop(true);
    command.stdin(std::process::Stdio::null());
    let done = timeout(PATIENCE, command.output())
        .await
        .map_err(|_| failed(format!("it took longer than {} s", PATIENCE.as_secs())))?;
    let done = done.map_err(|cause| failed(cause.to_string()))?;
    if done.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&done.stderr);
    Err(failed(format!("{} ({})", said.trim().replace('\n', " "), done.status)))
}

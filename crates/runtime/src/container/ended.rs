use std::sync::Arc;
use std::time::Duration;

use kernel::Process;
use monitor::{Ending, Exit, ProcessMark, Started};
use tokio::process::Command;
use tokio::time::timeout;
use wire::cri::ContainerEventType;

use super::{called, start};
use crate::book::{Container, Sandbox, locked};
use crate::error::{Error, Result};
use crate::layout::ContainerPlaces;
use crate::life::{Ended, Life};
use crate::node::{Node, blocking, now};
use crate::{events, files};

/// How long the removal of what the kernel keeps may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// A container has ended: its directory says how, or else whoever was told. Told again, nothing happens.
pub(crate) async fn settle(node: &Arc<Node>, id: &str, told: Option<Exit>) {
    let Ok(container) = node.book.container(id) else { return };
    let (on_node, of_container) = (Arc::clone(node), Arc::clone(&container));
    let read = blocking(move || {
        let started = Started::read(&of_container.places.state)?;
        let life = Life::read(&of_container.places.state, &of_container.record().stage)?;
        Ok((started.clone(), believed(&on_node, &of_container, (life, started), told)))
    });
    let Ok(sandbox) = node.book.sandbox(container.sandbox.as_str()) else {
        // Nobody asks for it any more, but it may be about to be taken away.
        if let Ok((_, ended @ Life::Exited(_))) = read.await {
            container.life.send_replace(ended);
        }
        return;
    };
    match read.await {
        Ok((started, Life::Exited(ended))) => {
            if !end(node, &sandbox, &container, (started, ended)) {
                return;
            }
        }
        Ok(_) => return,
        Err(error) => return node.tell(&format!("{}: {error}", called(&container))),
    }
    let node = Arc::clone(node);
    tokio::spawn(async move {
        let _gate = sandbox.gate.lock().await;
        if let Err(error) = clean(&node, &container).await {
            node.tell(&format!("{}: {error}", called(&container)));
        }
    });
}

/// Has it ended from now on, and tells so. False if that was known.
fn end(node: &Node, sandbox: &Sandbox, container: &Container, how: (Option<Started>, Ended)) -> bool {
    let (started, ended) = how;
    let line = format!("{} has ended with {}: {}", called(container), ended.code, ended.reason);
    let _turn = locked(&container.turns);
    // It may have ended before whoever started it could say that it runs.
    if let Some(started) = started {
        start::begin(node, sandbox, container, started);
    }
    let is_news = container.life.send_if_modified(|life| {
        let is_news = !matches!(life, Life::Exited(_));
        if is_news {
            *life = Life::Exited(ended);
        }
        is_news
    });
    if is_news {
        node.tell(&line);
        events::tell(node, ContainerEventType::ContainerStoppedEvent, &container.id, sandbox);
    }
    is_news
}

/// The monitor writes an end down before it tells, but a disk may be full: then it is written down here, and
/// counts whether or not that succeeds.
fn believed(node: &Node, container: &Container, found: (Life, Option<Started>), told: Option<Exit>) -> Life {
    let (life, started) = found;
    let (Life::Running(_), Some(exit)) = (&life, told) else { return life };
    if let Err(error) = files::write(&container.places.exit(), &exit) {
        node.tell(&format!("the end of {} is not written down: {error}", called(container)));
    }
    Life::Exited(Ended::of(&exit, started))
}

/// Writes down the end of a container that nobody was there to see: its first process is gone, and so is the
/// monitor that would tell. Blocks.
pub(crate) fn bury(node: &Node, container: &Container) -> Result<()> {
    let Life::Running(started) = Life::read(&container.places.state, &container.record().stage)? else {
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

/// Whether it has not ended; that nobody has waited for it does not count.
fn runs(mark: ProcessMark) -> bool {
    Process::open(mark.pid).is_ok_and(|process| mark.is_same() && process.is_running().unwrap_or(true))
}

/// Takes away what an ended container has in the kernel: processes that outlived its first one, its control
/// group, the engine's state. None there is fine. Under the sandbox's gate.
pub(crate) async fn clean(node: &Arc<Node>, container: &Container) -> Result<()> {
    if !container.places.state.exists() {
        return Ok(());
    }
    let (on_node, cgroup) = (Arc::clone(node), container.record().cgroup);
    blocking(move || on_node.groups.kill_all(&cgroup)).await?;
    if let Err(error) = files::read::<bundle::Job>(&container.places.job()) {
        // The program below would not know what to do. What shares our kernel is gone with its group.
        node.tell(&format!("{}: {error}", called(container)));
        let (on_node, cgroup) = (Arc::clone(node), container.record().cgroup);
        return blocking(move || on_node.groups.remove(&cgroup)).await;
    }
    delete(node, &container.places).await
}

/// The same of a container that has a directory and no record.
pub(crate) async fn clean_unknown(node: &Arc<Node>, places: &ContainerPlaces) -> Result<()> {
    match files::read::<bundle::Job>(&places.job()) {
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
        // Nobody was ever told to start it.
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

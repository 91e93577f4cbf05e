use std::sync::Arc;

use monitor::{Ending, Exit, Started};
use tokio::process::Command;
use wire::cri::ContainerEventType;

use super::{called, start};
use crate::book::Container;
use crate::error::{Error, Result};
use crate::life::Life;
use crate::node::{Node, blocking, now};
use crate::{durable, events};

/// A container has ended, and its directory says how. Told again, nothing happens.
pub(crate) async fn settle(node: &Arc<Node>, id: &str) {
    let Ok(container) = node.book.container(id) else { return };
    let Ok(sandbox) = node.book.sandbox(container.sandbox.as_str()) else { return };
    let dir = container.places.state.clone();
    let stage = container.record().stage;
    let read = blocking(move || {
        let started = Started::read(&dir)?;
        Ok((started, Life::read(&dir, &stage)?))
    });
    let ended = match read.await {
        Ok((started, Life::Exited(ended))) => {
            // It may have ended before whoever started it could say that it runs.
            if started.is_some_and(|started| start::begin(&container, started)) {
                start::tell_started(node, &sandbox, &container);
            }
            ended
        }
        Ok(_) => return,
        Err(error) => return node.tell(&format!("{}: {error}", called(&container))),
    };
    let line = format!("{} has ended with {}: {}", called(&container), ended.code, ended.reason);
    let news = container.life.send_if_modified(|life| {
        let news = !matches!(life, Life::Exited(_));
        if news {
            *life = Life::Exited(ended);
        }
        news
    });
    if !news {
        return;
    }
    node.tell(&line);
    events::tell(node, ContainerEventType::ContainerStoppedEvent, &container.id, &sandbox);
    let node = Arc::clone(node);
    tokio::spawn(async move {
        let _gate = sandbox.gate.lock().await;
        if let Err(error) = clean(&node, &container).await {
            node.tell(&format!("{}: {error}", called(&container)));
        }
    });
}

/// Writes down the end of a container that nobody was there to see: its first process is gone, and so is the
/// monitor that would tell. Blocks.
pub(crate) fn bury(node: &Node, container: &Container) -> Result<()> {
    let Life::Running(started) = Life::read(&container.places.state, &container.record().stage)? else {
        return Ok(());
    };
    let runs = started.boot_id == node.boot_id && started.process().is_same();
    let sandbox = node.layout.sandbox(&container.sandbox);
    if runs || monitor::Client::connect(&sandbox.run).is_ok() {
        return Ok(());
    }
    let exit = Exit { ending: Ending::Lost, oom: false, finished_at: now(), message: None };
    durable::write(&container.places.exit(), &exit)
}

/// Takes away what an ended container has in the kernel: processes that outlived its first one, its control
/// group, the engine's state. None there is fine. Under the sandbox's gate.
pub(crate) async fn clean(node: &Arc<Node>, container: &Container) -> Result<()> {
    if !container.places.state.exists() {
        return Ok(());
    }
    let (on_node, cgroup) = (Arc::clone(node), container.record().cgroup);
    blocking(move || on_node.groups.kill_all(&cgroup)).await?;
    let program = &node.settings.programs.container;
    let failed = |cause: String| Error::Program {
        program: format!("{} delete {}", program.display(), container.id),
        cause,
        hint: None,
    };
    let mut command = Command::new(program);
    command.arg("delete").arg(&container.places.state).kill_on_drop(true);
    command.stdin(std::process::Stdio::null());
    let done = command.output().await.map_err(|cause| failed(cause.to_string()))?;
    if done.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&done.stderr);
    Err(failed(format!("{} ({})", said.trim().replace('\n', " "), done.status)))
}

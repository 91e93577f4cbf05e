use std::sync::Arc;
use std::time::Duration;

use monitor::Request;
use tokio::time::timeout;
use tracing::warn;

use super::{called, ended};
use crate::container_state::ContainerState;
use crate::error::{Error, Result};
use crate::monitors;
use crate::node::Node;
use crate::store::{Container, if_any};
use crate::work::blocking;

/// How long a process may take to end after it was killed.
const AFTER_KILL: Duration = Duration::from_millis(250);
/// How often it is killed again: one may be started by another just then.
const KILLS: u32 = 80;

/// Asks a container to end, and kills it when the time is over; one that does not run is fine.
pub(crate) async fn stop(node: Arc<Node>, id: String, seconds: i64) -> Result<()> {
    let Some(container) = if_any(node.store.container(&id))? else { return Ok(()) };
    if !matches!(container.state(), ContainerState::Running(_)) {
        return Ok(());
    }
    let grace = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
    if !grace.is_zero() {
        let why = match ask(&node, &container).await {
            Ok(()) if timeout(grace, container.ended()).await.is_ok() => return Ok(()),
            Ok(()) => format!("has not ended within {seconds} s"),
            Err(error) => format!("cannot be asked to end: {error}"),
        };
        let name = called(&container);
        warn!(parent: &node.span(&container), container = %container.id, "{name} {why}; it is killed");
    }
    kill(&node, &container).await
}

/// Sends the container's own signal to its first process.
async fn ask(node: &Arc<Node>, container: &Arc<Container>) -> Result<()> {
    let sandbox = node.store.sandbox(container.sandbox.as_str())?;
    let (on_node, asked) = (Arc::clone(node), Arc::clone(container));
    blocking(move || {
        let request = Request::Signal { container: asked.id.to_string(), signal: asked.record().stop_signal };
        let mut client = monitors::client(&on_node, &sandbox)?;
        match monitors::done(client.call(&request, &[])?) {
            // It ended just now.
            Err(_)
                if !matches!(
                    ContainerState::read(&asked.places.state, &asked.record().stage),
                    Ok(ContainerState::Running(_))
                ) =>
            {
                Ok(())
            }
            answer => answer,
        }
    })
    .await
}

/// Kills everything in the container's control group, until its first process has ended.
pub(crate) async fn kill(node: &Arc<Node>, container: &Arc<Container>) -> Result<()> {
    for _ in 0..KILLS {
        if !matches!(container.state(), ContainerState::Running(_)) {
            return Ok(());
        }
        let (on_node, cgroup, life) = (Arc::clone(node), container.record().cgroup, container.state());
        blocking(move || {
            on_node.groups.kill_all(&cgroup)?;
            kill_first(&on_node, &life)
        })
        .await?;
        if timeout(AFTER_KILL, container.ended()).await.is_ok() {
            return Ok(());
        }
        // The monitor that would report the end may have died.
        let (on_node, dead) = (Arc::clone(node), Arc::clone(container));
        blocking(move || ended::record_lost_exit(&on_node, &dead)).await?;
        ended::settle(node, container.id.as_str(), None).await;
    }
    Err(Error::Step {
        step: format!("kill {}", called(container)),
        cause: "it has not ended".to_owned(),
        hint: Some("a process that waits for a disk or a server that is gone cannot be killed".to_owned()),
    })
}

/// The first process itself, in case it has left its control group.
fn kill_first(node: &Node, life: &ContainerState) -> Result<()> {
    match life {
        // In another boot its number was another's.
        ContainerState::Running(started) if started.boot_id == node.boot_id => {
            monitors::kill(started.process())
        }
        _ => Ok(()),
    }
}

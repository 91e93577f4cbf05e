//! Recovery at the start of a server: reconciles processes, mounts and directories of the last server with its records.
//!
//! - Directories and cgroups without a record are removed, but only in the server's own directories and below its own
//!   cgroup.
//! - Sandboxes and containers whose creation was interrupted are removed.
//! - The server reconnects to the monitors of running sandboxes; a sandbox without processes is shown as ended.
//! - The node's allocator receives the SELinux category pairs in use; the server's other pairs are freed.
//! - A damaged record is set aside, and its sandbox or container is killed and removed.
//! - If a record cannot be read, or a newer server wrote it, the server does not start and changes nothing.

mod orphans;
mod read;

use std::sync::Arc;
use std::time::Duration;

use monitor::Client;
use tokio::task::JoinSet;
use tracing::warn;

use crate::container::{self, ended, start};
use crate::container_state::ContainerState;
use crate::error::Result;
use crate::id::Id;
use crate::monitors;
use crate::node::Node;
use crate::records::{ContainerStage, SandboxStage};
use crate::sandbox;
use crate::sandbox::namespaces::{self, Own};
use crate::store::{Container, Sandbox};
use crate::work::blocking;

/// How long a container start of the last server may take to finish. The server answers no call before.
const PATIENCE: Duration = Duration::from_secs(10);

/// Reconciles the node with the records. A failure of one pod is logged, and does not affect other pods.
pub(crate) async fn recover(node: &Arc<Node>) -> Result<()> {
    let on_node = Arc::clone(node);
    let known = blocking(move || read::all(&on_node)).await?;
    orphans::remove(node, &known).await;
    // All at once: a pod can keep a start under way from ending, and must not keep other pods from being served.
    let mut pods = JoinSet::new();
    for sandbox in node.store.sandboxes() {
        let node = Arc::clone(node);
        pods.spawn(async move {
            let _gate = sandbox.gate.lock().await;
            if let Err(error) = one(&node, &sandbox).await {
                warn!(parent: &sandbox.span, sandbox = %sandbox.id, "sandbox {}: {error}", sandbox.id);
            }
        });
    }
    while pods.join_next().await.is_some() {}
    for container in orphans(node) {
        if let Err(error) = container::remove::take_away(node, &container).await {
            warn!(container = %container.id, "container {}: {error}", container.id);
        }
    }
    let on_node = Arc::clone(node);
    blocking(move || {
        sandbox::label::adopt_pairs(&on_node);
        Ok(())
    })
    .await
}

/// Containers of a sandbox that is gone.
fn orphans(node: &Node) -> Vec<Arc<Container>> {
    let mut found = node.store.containers();
    found.retain(|container| node.store.sandbox(container.sandbox.as_str()).is_err());
    found
}

async fn one(node: &Arc<Node>, sandbox: &Arc<Sandbox>) -> Result<()> {
    for container in node.store.containers_of(&sandbox.id) {
        if container.record().stage == ContainerStage::Making {
            container::remove::take_away(node, &container).await?;
        }
    }
    match sandbox.record().stage {
        SandboxStage::Making => sandbox::remove::take_away(node, sandbox).await,
        SandboxStage::Stopped => sandbox::stop::tear_down(node, sandbox).await,
        SandboxStage::Ready if lives(node, sandbox).await? => {
            // Also on failure: the listener tries again.
            let outcome = again(node, sandbox).await;
            monitors::listen(node, sandbox);
            outcome
        }
        SandboxStage::Ready => {
            let (id, ended_by) = (&sandbox.id, what_ended_it(node, sandbox));
            warn!(parent: &sandbox.span, sandbox = %id, "sandbox {id} did not outlive {ended_by}");
            let (on_node, of_sandbox) = (Arc::clone(node), Arc::clone(sandbox));
            blocking(move || bury_all(&on_node, &of_sandbox)).await?;
            sandbox::stop::tear_down(node, sandbox).await
        }
    }
}

async fn lives(node: &Node, sandbox: &Arc<Sandbox>) -> Result<bool> {
    let (boot_id, of_sandbox) = (node.boot_id.clone(), Arc::clone(sandbox));
    blocking(move || {
        let record = of_sandbox.record();
        let own = Own::of(&record.config)?;
        Ok(record.boot_id == boot_id && namespaces::are_there(&of_sandbox.places, own, record.ids.as_ref()))
    })
    .await
}

fn what_ended_it(node: &Node, sandbox: &Sandbox) -> &'static str {
    if sandbox.record().boot_id == node.boot_id {
        "the loss of its namespaces"
    } else {
        "a restart of the host"
    }
}

/// Its first processes are gone with the boot they were started in.
fn bury_all(node: &Node, sandbox: &Sandbox) -> Result<()> {
    for container in node.store.containers_of(&sandbox.id) {
        ended::record_lost_exit(node, &container)?;
        if container.record().stage == ContainerStage::Starting
            && container.state() == ContainerState::Created
        {
            start::fail(&container, &start::of(&container, "its sandbox is gone".to_owned()))?;
        }
        let life = ContainerState::read(&container.places.state, &container.record().stage)?;
        container.state.send_replace(life);
    }
    Ok(())
}

/// One that lives: its monitor is listened to, and started anew if it is gone.
async fn again(node: &Arc<Node>, sandbox: &Arc<Sandbox>) -> Result<()> {
    let (on_node, of_sandbox) = (Arc::clone(node), Arc::clone(sandbox));
    let failed = blocking(move || {
        let mut client = monitors::client(&on_node, &of_sandbox)?;
        settle_starts(&on_node, &of_sandbox, &mut client)
    })
    .await?;
    for container in node.store.containers_of(&sandbox.id) {
        let has_ended = matches!(container.state(), ContainerState::Exited(_));
        // A process that starts a container may not have created the cgroup yet.
        let may_have_more = failed.contains(&container.id) || node.groups.exists(&container.record().cgroup);
        if has_ended && may_have_more {
            ended::clean(node, &container).await?;
        }
    }
    Ok(())
}

/// Settles the containers that the last server was starting: each runs by now, or is recorded as failed.
fn settle_starts(node: &Node, sandbox: &Sandbox, client: &mut Client) -> Result<Vec<Id>> {
    let mut failed = vec![];
    for container in node.store.containers_of(&sandbox.id) {
        if container.record().stage != ContainerStage::Starting
            || container.state() != ContainerState::Created
        {
            continue;
        }
        start::wait(client, &container, PATIENCE)?;
        let life = ContainerState::read(&container.places.state, &container.record().stage)?;
        if life == ContainerState::Created {
            node.groups.kill_all(&container.record().cgroup)?;
            let what = "the server ended while it was being started".to_owned();
            start::fail(&container, &start::of(&container, what))?;
            failed.push(container.id.clone());
        } else {
            container.state.send_replace(life);
        }
    }
    Ok(failed)
}

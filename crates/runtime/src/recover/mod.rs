//! The start of a server: what the last one left, however it ended, becomes what its records say.
//!
//! - What has no record is nobody's and is removed, but only in our own directories and below our own
//!   control group.
//! - What was half made is taken away.
//! - What has a record and still lives is listened to again; what does not live any more is shown as ended.
//! - A damaged record counts as none: it is kept aside, and all else of what it stood for is ended and removed.
//! - A record of a newer server, or one that the system keeps from us, keeps this server from starting: nothing is
//!   touched.

mod read;
mod strays;

use std::sync::Arc;
use std::time::Duration;

use monitor::Client;
use tokio::task::JoinSet;

use crate::book::{Container, Sandbox};
use crate::container::{self, ended, start};
use crate::error::Result;
use crate::id::Id;
use crate::life::Life;
use crate::monitors;
use crate::node::{Node, blocking};
use crate::records::{ContainerStage, SandboxStage};
use crate::sandbox;
use crate::sandbox::spaces::{self, Own};

/// How long a start that the last server began may go on: nobody is served before.
const PATIENCE: Duration = Duration::from_secs(10);

/// Brings everything into line with the records. What fails for one pod is told, and keeps no other.
pub(crate) async fn recover(node: &Arc<Node>) -> Result<()> {
    let on_node = Arc::clone(node);
    let known = blocking(move || read::all(&on_node)).await?;
    strays::remove(node, &known).await;
    // All at once: a pod can keep a start under way from ending, and must not keep other pods from being served.
    let mut pods = JoinSet::new();
    for sandbox in node.book.sandboxes() {
        let node = Arc::clone(node);
        pods.spawn(async move {
            let _gate = sandbox.gate.lock().await;
            if let Err(error) = one(&node, &sandbox).await {
                node.tell(&format!("sandbox {}: {error}", sandbox.id));
            }
        });
    }
    while pods.join_next().await.is_some() {}
    for container in orphans(node) {
        if let Err(error) = container::remove::take_away(node, &container).await {
            node.tell(&format!("container {}: {error}", container.id));
        }
    }
    Ok(())
}

/// Containers of a sandbox that is gone.
fn orphans(node: &Node) -> Vec<Arc<Container>> {
    let mut found = node.book.containers();
    found.retain(|container| node.book.sandbox(container.sandbox.as_str()).is_err());
    found
}

async fn one(node: &Arc<Node>, sandbox: &Arc<Sandbox>) -> Result<()> {
    for container in node.book.containers_of(&sandbox.id) {
        if container.record().stage == ContainerStage::Making {
            container::remove::take_away(node, &container).await?;
        }
    }
    match sandbox.record().stage {
        SandboxStage::Making => sandbox::remove::take_away(node, sandbox).await,
        SandboxStage::Stopped => sandbox::stop::tear_down(node, sandbox).await,
        SandboxStage::Ready if lives(node, sandbox).await? => {
            // Also where it fails: whoever listens tries again.
            let outcome = again(node, sandbox).await;
            monitors::listen(node, sandbox);
            outcome
        }
        SandboxStage::Ready => {
            node.tell(&format!("sandbox {} did not outlive {}", sandbox.id, what_ended_it(node, sandbox)));
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
        Ok(record.boot_id == boot_id && spaces::are_there(&of_sandbox.places, own, record.ids.as_ref()))
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
    for container in node.book.containers_of(&sandbox.id) {
        ended::bury(node, &container)?;
        if container.record().stage == ContainerStage::Starting && container.life() == Life::Created {
            start::fail(&container, &start::of(&container, "its sandbox is gone".to_owned()))?;
        }
        let life = Life::read(&container.places.state, &container.record().stage)?;
        container.life.send_replace(life);
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
    for container in node.book.containers_of(&sandbox.id) {
        let has_ended = matches!(container.life(), Life::Exited(_));
        // Whoever is on its way to start one has no group yet.
        let may_have_more = failed.contains(&container.id) || node.groups.exists(&container.record().cgroup);
        if has_ended && may_have_more {
            ended::clean(node, &container).await?;
        }
    }
    Ok(())
}

/// Containers that the last server was starting: they run by now, or they never will, and are told.
fn settle_starts(node: &Node, sandbox: &Sandbox, client: &mut Client) -> Result<Vec<Id>> {
    let mut failed = vec![];
    for container in node.book.containers_of(&sandbox.id) {
        if container.record().stage != ContainerStage::Starting || container.life() != Life::Created {
            continue;
        }
        start::wait(client, &container, PATIENCE)?;
        let life = Life::read(&container.places.state, &container.record().stage)?;
        if life == Life::Created {
            node.groups.kill_all(&container.record().cgroup)?;
            let what = "the server ended while it was being started".to_owned();
            start::fail(&container, &start::of(&container, what))?;
            failed.push(container.id.clone());
        } else {
            container.life.send_replace(life);
        }
    }
    Ok(failed)
}

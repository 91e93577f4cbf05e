//! The start of a server: what the last one left, however it ended, becomes what its records say.
//!
//! - What has no record is nobody's and is removed, but only in our own directories and below our own
//!   control group.
//! - What was half made is taken away.
//! - What has a record and still lives is listened to again; what does not live any more is shown as ended.
//! - What cannot be read stays as it is, and is told.

mod read;
mod strays;

use std::sync::Arc;

use monitor::{Client, Reply, Request};

use crate::book::{Container, Sandbox};
use crate::container::{self, ended, start};
use crate::error::Result;
use crate::life::Life;
use crate::monitors;
use crate::node::{Node, blocking};
use crate::records::{ContainerStage, SandboxStage};
use crate::sandbox;
use crate::sandbox::spaces::{self, Own};

/// Brings everything into line with the records. What fails for one pod is told, and keeps no other.
pub(crate) async fn recover(node: &Arc<Node>) -> Result<()> {
    let on_node = Arc::clone(node);
    let known = blocking(move || read::all(&on_node)).await?;
    strays::remove(node, &known).await;
    for sandbox in node.book.sandboxes() {
        let _gate = sandbox.gate.lock().await;
        if let Err(error) = one(node, &sandbox).await {
            node.tell(&format!("sandbox {}: {error}", sandbox.id));
        }
    }
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
        SandboxStage::Ready if lives(node, sandbox).await? => again(node, sandbox).await,
        SandboxStage::Ready => {
            node.tell(&format!("sandbox {} did not outlive a restart of the host", sandbox.id));
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

/// Its first processes are gone with the boot they were started in.
fn bury_all(node: &Node, sandbox: &Sandbox) -> Result<()> {
    for container in node.book.containers_of(&sandbox.id) {
        ended::bury(node, &container)?;
        let life = Life::read(&container.places.state, &container.record().stage)?;
        container.life.send_replace(life);
    }
    Ok(())
}

/// One that lives: its monitor is listened to, and started anew if it is gone.
async fn again(node: &Arc<Node>, sandbox: &Arc<Sandbox>) -> Result<()> {
    let (on_node, of_sandbox) = (Arc::clone(node), Arc::clone(sandbox));
    blocking(move || {
        let mut client = monitors::client(&on_node, &of_sandbox)?;
        settle_starts(&on_node, &of_sandbox, &mut client)
    })
    .await?;
    for container in node.book.containers_of(&sandbox.id) {
        if let Life::Exited(_) = container.life()
            && node.groups.exists(&container.record().cgroup)
        {
            ended::clean(node, &container).await?;
        }
    }
    monitors::listen(node, sandbox);
    Ok(())
}

/// Containers that the last server was starting: they run by now, or they never will.
fn settle_starts(node: &Node, sandbox: &Sandbox, client: &mut Client) -> Result<()> {
    for container in node.book.containers_of(&sandbox.id) {
        if container.record().stage != ContainerStage::Starting || container.life() != Life::Created {
            continue;
        }
        while under_way(client, &container)? {
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        let life = Life::read(&container.places.state, &container.record().stage)?;
        if life == Life::Created {
            node.groups.kill_all(&container.record().cgroup)?;
            let what = "the server ended while it was being started".to_owned();
            start::fail(&container, &start::of(&container, what))?;
        } else {
            container.life.send_replace(life);
        }
    }
    Ok(())
}

/// Whether the monitor still waits for it to start.
fn under_way(client: &mut Client, container: &Container) -> Result<bool> {
    let Reply::Listed(listed) = client.call(&Request::List, &[])? else { return Ok(false) };
    let own = listed.iter().find(|listed| listed.container == container.id.as_str());
    Ok(own.is_some_and(|listed| listed.pid.is_none() && listed.running && listed.exit.is_none()))
}

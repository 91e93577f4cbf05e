//! The pods' monitors: started, listened to, started anew when one is gone.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kernel::{NamespaceKind, Process};
use monitor::{Client, Event, Launch, MonitorRecord, ProcessId, Reply, Request, SharedPid};
use rustix::process::Signal;
use tracing::warn;

use crate::container::ended;
use crate::container_state::ContainerState;
use crate::error::{Error, Result};
use crate::layout::SandboxPlaces;
use crate::node::Node;
use crate::readiness::Readiness;
use crate::records::SandboxStage;
use crate::sandbox::namespaces::{Own, Sharing};
use crate::store::{Sandbox, locked};
use crate::watchers;
use crate::work::blocking;

/// Between two tries to get a monitor.
const PAUSE: Duration = Duration::from_secs(1);

/// A connection to a sandbox's monitor, which is started if there is none. Blocks.
pub(crate) fn client(node: &Node, sandbox: &Sandbox) -> Result<Client> {
    match Client::connect(&sandbox.places.run) {
        Ok(client) => Ok(client),
        Err(monitor::Error::NoMonitor { .. }) => {
            let _one = locked(&sandbox.monitor);
            // Another call may have started the monitor meanwhile, or stopped the sandbox.
            match Client::connect(&sandbox.places.run) {
                Ok(client) => Ok(client),
                Err(error) if sandbox.is(SandboxStage::Stopped) => Err(error.into()),
                Err(_) => start(node, sandbox),
            }
        }
        Err(error) => Err(error.into()),
    }
}

/// Starts a monitor and gives it the containers that run.
fn start(node: &Node, sandbox: &Sandbox) -> Result<Client> {
    let record = sandbox.record();
    let own = Own::of(&record.config)?;
    let shared_pid = (own.pid == Sharing::Pod).then(|| match record.ids {
        Some(_) => SharedPid::Userns(sandbox.places.pin(NamespaceKind::User)),
        None => SharedPid::Host,
    });
    let launch = Launch {
        program: node.settings.programs.monitor.clone(),
        dir: sandbox.places.run.clone(),
        container_program: node.settings.programs.container.clone(),
        shared_pid,
    };
    let spawned = launch.spawn();
    if spawned.is_err() {
        watchers::end_half_made(&sandbox.places.run)?;
    }
    let mut client = spawned?;
    adopt(node, sandbox, &mut client)?;
    Ok(client)
}

/// Gives the monitor all containers that run and that it does not know: those of another one that is gone.
pub(crate) fn adopt(node: &Node, sandbox: &Sandbox, client: &mut Client) -> Result<()> {
    let known = match client.call(&Request::List, &[])? {
        Reply::Listed(listed) => listed,
        _ => vec![],
    };
    for container in node.store.containers_of(&sandbox.id) {
        let is_known = known.iter().any(|listed| listed.container == container.id.as_str());
        if let ContainerState::Running(_) = container.state()
            && !is_known
        {
            let request = Request::Adopt {
                container: container.id.to_string(),
                dir: container.places.state.clone(),
                log: container.record().log,
            };
            done(client.call(&request, &[])?)?;
        }
    }
    Ok(())
}

/// The answer to what is done or refused.
pub(crate) fn done(reply: Reply) -> Result<()> {
    match reply {
        Reply::Refused { what } => {
            Err(Error::Step { step: "have the pod's monitor do it".to_owned(), cause: what, hint: None })
        }
        _ => Ok(()),
    }
}

/// The init process of the pod's shared PID namespace. Blocks.
pub(crate) fn pid_namespace(client: &mut Client) -> Result<Process> {
    match client.call(&Request::PidNamespace, &[])? {
        Reply::PidNamespace { pid: Some(pid) } => Ok(Process::open(pid)?),
        _ => Err(Error::Step {
            step: "share a PID namespace among the pod's containers".to_owned(),
            cause: "its first process is gone".to_owned(),
            hint: None,
        }),
    }
}

/// Ends the monitor of a pod none of whose containers live; none there is fine. Blocks.
pub(crate) fn end(sandbox: &Sandbox) -> Result<()> {
    let _one = locked(&sandbox.monitor);
    let places = &sandbox.places;
    let record = MonitorRecord::read(&places.run)?;
    let Ok(mut client) = Client::connect(&places.run) else { return end_unasked(places) };
    match client.call(&Request::End, &[]) {
        Ok(reply) => done(reply)?,
        // It is ended, so it may not come to answer.
        Err(monitor::Error::Gone { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    for id in record.into_iter().flat_map(|record| record.pid_namespace.into_iter().chain([record.process])) {
        kill_of(id, places)?;
    }
    Ok(())
}

/// Ends all that may be left of a pod's monitor, whatever it still does. Blocks.
pub(crate) fn end_unasked(places: &SandboxPlaces) -> Result<()> {
    watchers::end_all(|dir| dir == places.run)?;
    watchers::end_init(&places.run)
}

/// Kills one of the monitor's processes. A record may be of another boot, in which others had these numbers.
fn kill_of(id: ProcessId, places: &SandboxPlaces) -> Result<()> {
    let Ok(process) = Process::open(id.pid) else { return Ok(()) };
    let is_ours = watchers::is_of(&process, &places.run) || watchers::is_init(&process);
    if id.is_same() && is_ours {
        process.signal(Signal::KILL)?;
    }
    Ok(())
}

/// Kills the process that is meant, and no other that has its number now.
pub(crate) fn kill(id: ProcessId) -> Result<()> {
    let Ok(process) = Process::open(id.pid) else { return Ok(()) };
    if id.is_same() {
        process.signal(Signal::KILL)?;
    }
    Ok(())
}

/// Listens to a sandbox's monitor for as long as the sandbox is ready, and sees to it that there is one.
pub(crate) fn listen(node: &Arc<Node>, sandbox: &Arc<Sandbox>) {
    let (node, sandbox) = (Arc::clone(node), Arc::clone(sandbox));
    tokio::spawn(async move {
        while sandbox.is(SandboxStage::Ready) {
            let begun = Instant::now();
            if let Err(error) = session(&node, &sandbox).await {
                warn!(parent: &sandbox.span, sandbox = %sandbox.id, "sandbox {}: {error}", sandbox.id);
            }
            // One that ends as soon as it is there is not started over and over.
            tokio::time::sleep(PAUSE.saturating_sub(begun.elapsed())).await;
        }
    });
}

/// One connection, from its beginning to its end.
async fn session(node: &Arc<Node>, sandbox: &Arc<Sandbox>) -> Result<()> {
    let (on_node, of_sandbox) = (Arc::clone(node), Arc::clone(sandbox));
    let connect = move || {
        let mut client = client(&on_node, &of_sandbox)?;
        // The server that started the monitor may have been killed before it did this.
        adopt(&on_node, &of_sandbox, &mut client)?;
        // Record the containers that ended while no server was connected.
        let listed = client.call(&Request::List, &[])?;
        Ok((client, listed))
    };
    let (mut client, listed) = blocking(connect).await?;
    if let Reply::Listed(containers) = listed {
        for listed in containers.iter().filter(|listed| listed.exit.is_some()) {
            ended::settle(node, &listed.container, listed.exit.clone()).await;
        }
    }
    let failed = |cause| Error::step("listen to the pod's monitor", cause);
    let socket = client.as_fd().try_clone_to_owned().map_err(failed)?;
    let ready = Readiness::of(socket).map_err(failed)?;
    loop {
        match client.try_next() {
            Ok(Some(Event::Exited(exited))) => {
                ended::settle(node, &exited.container, Some(exited.exit)).await;
            }
            Ok(None) => ready.wait().await.map_err(failed)?,
            Err(monitor::Error::Gone { .. }) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}

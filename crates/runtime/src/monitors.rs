//! The pods' monitors: started, listened to, started anew when one is gone.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use kernel::{NamespaceKind, Process};
use monitor::{Client, Event, Launch, MonitorRecord, ProcessMark, Reply, Request, SharedPid};
use rustix::process::Signal;

use crate::book::Sandbox;
use crate::container::ended;
use crate::error::{Error, Result};
use crate::layout::SandboxPlaces;
use crate::life::Life;
use crate::node::{Node, blocking};
use crate::readiness::Readiness;
use crate::records::SandboxStage;
use crate::sandbox::spaces::{Own, Sharing};

/// Between two tries to get a monitor.
const PAUSE: Duration = Duration::from_secs(1);

/// A connection to a sandbox's monitor, which is started if there is none. Blocks.
pub(crate) fn client(node: &Node, sandbox: &Sandbox) -> Result<Client> {
    match Client::connect(&sandbox.places.run) {
        Ok(client) => Ok(client),
        Err(monitor::Error::NoMonitor { .. }) => start(node, sandbox),
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
    let mut client = match launch.spawn() {
        Ok(client) => client,
        // Somebody else of this server was faster.
        Err(error) => return Client::connect(&sandbox.places.run).map_err(|_| error.into()),
    };
    for container in node.book.containers_of(&sandbox.id) {
        if let Life::Running(_) = container.life() {
            let request = Request::Adopt {
                container: container.id.to_string(),
                dir: container.places.state.clone(),
                log: container.record().log,
            };
            done(client.call(&request, &[])?)?;
        }
    }
    Ok(client)
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

/// Who keeps the pod's shared PID namespace. Blocks.
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
pub(crate) fn end(places: &SandboxPlaces) -> Result<()> {
    if let Ok(mut client) = Client::connect(&places.run) {
        match client.call(&Request::End, &[]) {
            Ok(reply) => done(reply)?,
            // It is ended, so it may not come to answer.
            Err(monitor::Error::Gone { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let Some(record) = MonitorRecord::read(&places.run)? else { return Ok(()) };
    for mark in record.pid_namespace.into_iter().chain([record.process]) {
        kill(mark)?;
    }
    Ok(())
}

/// Kills the process that is meant, and no other that has its number now.
pub(crate) fn kill(mark: ProcessMark) -> Result<()> {
    let Ok(process) = Process::open(mark.pid) else { return Ok(()) };
    if mark.is_same() {
        process.signal(Signal::KILL)?;
    }
    Ok(())
}

/// Listens to a sandbox's monitor for as long as the sandbox is ready, and sees to it that there is one.
pub(crate) fn listen(node: &Arc<Node>, sandbox: &Arc<Sandbox>) {
    let (node, sandbox) = (Arc::clone(node), Arc::clone(sandbox));
    tokio::spawn(async move {
        while sandbox.is(SandboxStage::Ready) {
            if let Err(error) = session(&node, &sandbox).await {
                node.tell(&format!("sandbox {}: {error}", sandbox.id));
                tokio::time::sleep(PAUSE).await;
            }
        }
    });
}

/// One connection, from its beginning to its end.
async fn session(node: &Arc<Node>, sandbox: &Arc<Sandbox>) -> Result<()> {
    let (on_node, of_sandbox) = (Arc::clone(node), Arc::clone(sandbox));
    let connect = move || {
        let mut client = client(&on_node, &of_sandbox)?;
        // What ended while nobody listened is told now.
        let listed = client.call(&Request::List, &[])?;
        Ok((client, listed))
    };
    let (mut client, listed) = blocking(connect).await?;
    if let Reply::Listed(containers) = listed {
        for listed in containers.iter().filter(|listed| listed.exit.is_some()) {
            ended::settle(node, &listed.container).await;
        }
    }
    let failed = |cause| Error::step("listen to the pod's monitor", cause);
    let socket = client.as_fd().try_clone_to_owned().map_err(failed)?;
    let ready = Readiness::of(socket).map_err(failed)?;
    loop {
        match client.try_next() {
            Ok(Some(Event::Exited(exited))) => ended::settle(node, &exited.container).await,
            Ok(None) => ready.wait().await.map_err(failed)?,
            Err(monitor::Error::Gone { .. }) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}

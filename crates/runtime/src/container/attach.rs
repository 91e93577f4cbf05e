use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use monitor::{Attach, Client, Request};
use streaming::{AttachRequest, Size, Streams};
use tokio::task::JoinHandle;

use super::running;
use crate::error::{Error, Result};
use crate::monitors;
use crate::node::Node;
use crate::store::{Container, Sandbox};
use crate::streams::pipes::{Input, pump, reader, writer};
use crate::work::blocking;

/// Joins a container's own streams, until it has ended or the client has gone.
pub(crate) async fn attach(node: &Arc<Node>, request: AttachRequest, mut client: Streams) -> Result<()> {
    let container = node.store.container(&request.container)?;
    running(&container)?;
    let sandbox = node.store.sandbox(container.sandbox.as_str())?;
    let mut given = vec![];
    let (stdin, stdout) = (client.stdin.take(), client.stdout.take());
    // With a terminal all output is one stream.
    let stderr = client.stderr.take().filter(|_| !container.record().config.tty);
    let wanted = Attach {
        container: container.id.to_string(),
        stdin: stdin.is_some(),
        stdout: stdout.is_some(),
        stderr: stderr.is_some(),
    };
    let input = stdin.map(|from| pipe(&mut given, End::Read).map(|ours| (from, ours))).transpose()?;
    let mut outputs = vec![];
    for to in [stdout, stderr].into_iter().flatten() {
        outputs.push((pipe(&mut given, End::Write)?, to));
    }
    ask(node, &sandbox, Request::Attach(wanted), given).await?;
    let mut output = vec![];
    for (from, to) in outputs {
        output.push(pump(reader(&from)?, to));
    }
    // Its end is the end of the container's input, where that is to end with the first client's.
    let _input = match input {
        Some((from, to)) => Some(Input::carry(from, Box::new(writer(&to)?))),
        None => None,
    };
    loop {
        tokio::select! {
            () = container.ended() => break,
            size = client.resize.recv() => match size {
                Some(size) => resize(node, &sandbox, &container, size).await?,
                None => {
                    output.iter().for_each(JoinHandle::abort);
                    return Ok(());
                }
            },
        }
    }
    // The monitor closes them once all output is written, and disconnects a client that does not read.
    for task in output {
        let _ = task.await;
    }
    Ok(())
}

/// Which end of a pipe the monitor gets.
#[derive(Clone, Copy)]
enum End {
    Read,
    Write,
}

/// A new pipe: one end among those that are given away, the other for us.
fn pipe(given: &mut Vec<OwnedFd>, theirs: End) -> Result<OwnedFd> {
    let (reading, writing) = io::pipe().map_err(|cause| Error::step("make a pipe", cause))?;
    let (theirs, ours): (OwnedFd, OwnedFd) = match theirs {
        End::Read => (reading.into(), writing.into()),
        End::Write => (writing.into(), reading.into()),
    };
    given.push(theirs);
    Ok(ours)
}

/// Has the sandbox's monitor do something; what is given is the monitor's then.
async fn ask(node: &Arc<Node>, sandbox: &Arc<Sandbox>, request: Request, given: Vec<OwnedFd>) -> Result<()> {
    let (on_node, of_sandbox) = (Arc::clone(node), Arc::clone(sandbox));
    blocking(move || {
        let mut client: Client = monitors::client(&on_node, &of_sandbox)?;
        let given: Vec<_> = given.iter().map(AsFd::as_fd).collect();
        monitors::done(client.call(&request, &given)?)
    })
    .await
}

async fn resize(node: &Arc<Node>, sandbox: &Arc<Sandbox>, container: &Container, size: Size) -> Result<()> {
    if !container.record().config.tty {
        return Ok(());
    }
    let request =
        Request::Resize { container: container.id.to_string(), rows: size.rows, cols: size.columns };
    ask(node, sandbox, request, vec![]).await
}

/// Reopens a container's log after the client has rotated it.
pub(crate) async fn reopen_log(node: Arc<Node>, id: String) -> Result<()> {
    let container = node.store.container(&id)?;
    running(&container)?;
    let sandbox = node.store.sandbox(container.sandbox.as_str())?;
    ask(&node, &sandbox, Request::Reopen { container: container.id.to_string() }, vec![]).await
}

//! What is behind the URLs of exec, attach and port-forward.

mod output;
pub(crate) mod pipes;

use std::os::fd::{AsFd, OwnedFd};
use std::process::Stdio;
use std::sync::{Arc, Weak};

use rustix::termios::{Winsize, tcsetwinsize};
use streaming::{Answer, AttachRequest, Connection, Ended, ExecRequest, Handler, Size, Streams as Client};

use crate::container::attach;
use crate::container::exec::{Ending, Exec, ExecCommand, Streams};
use crate::error::{Result, chain};
use crate::node::Node;
use crate::sandbox::forward;
use output::{Output, drained};
use pipes::{Input, reader, writer};

/// The runtime, as the server of streams sees it. It does not keep the runtime alive.
#[derive(Debug)]
pub(crate) struct Served(pub(crate) Weak<Node>);

impl Served {
    fn node(&self) -> Result<Arc<Node>, String> {
        self.0.upgrade().ok_or_else(|| "the runtime has ended".to_owned())
    }
}

impl Handler for Served {
    fn exec(&self, request: ExecRequest, client: Client) -> Answer<'_, Ended> {
        Box::pin(async move {
            let node = self.node()?;
            let ending = exec(&node, request, client).await.map_err(|error| chain(&error))?;
            Ok(match ending {
                Ending::Code(code) => Ended::Code(code),
                Ending::Signal(signal) => Ended::Signal(signal),
            })
        })
    }

    fn attach(&self, request: AttachRequest, client: Client) -> Answer<'_, ()> {
        Box::pin(async move {
            let node = self.node()?;
            attach::attach(&node, request, client).await.map_err(|error| chain(&error))
        })
    }

    fn port_forward(&self, sandbox: String, port: u16, connection: Connection) -> Answer<'_, ()> {
        Box::pin(async move {
            let node = self.node()?;
            forward::forward(&node, &sandbox, port, connection).await.map_err(|error| chain(&error))
        })
    }
}

async fn exec(node: &Node, request: ExecRequest, mut client: Client) -> Result<Ending> {
    let container = node.store.container(&request.container)?;
    let piped = |wanted: bool| if wanted && !request.tty { Stdio::piped() } else { Stdio::null() };
    let streams =
        Streams { stdin: piped(request.stdin), stdout: piped(request.stdout), stderr: piped(request.stderr) };
    let mut wanted = ExecCommand::new(request.command);
    wanted.tty = request.tty;
    let mut exec = Exec::start(node, &container, &wanted, streams).await?;
    let terminal = exec.terminal.take();
    let mut output = vec![];
    let _input = if let Some(terminal) = &terminal {
        let (reading, writing) = (reader(terminal.as_fd())?, writer(terminal.as_fd())?);
        output.extend(client.stdout.take().map(|to| Output::carry(reading, to)));
        // Not closed with the client's input: that would hang up the terminal for all clients.
        client.stdin.take().map(|from| Input::carry(from, Box::new(writing)))
    } else {
        let stdout = exec.child.stdout.take().zip(client.stdout.take());
        output.extend(stdout.map(|(from, to)| Output::carry(from, to)));
        let stderr = exec.child.stderr.take().zip(client.stderr.take());
        output.extend(stderr.map(|(from, to)| Output::carry(from, to)));
        let input = client.stdin.take().zip(exec.child.stdin.take());
        input.map(|(from, to)| Input::carry(from, Box::new(to)))
    };
    let ending = loop {
        tokio::select! {
            ending = exec.ended() => break ending?,
            size = client.resize.recv() => match (size, &terminal) {
                (Some(size), Some(terminal)) => resize(terminal, size),
                (Some(_), None) => {}
                (None, _) => {
                    exec.kill().await;
                    break Ending::Signal(9);
                }
            },
        }
    };
    drained(output).await;
    Ok(ending)
}

fn resize(terminal: &OwnedFd, size: Size) {
    let size = Winsize { ws_row: size.rows, ws_col: size.columns, ws_xpixel: 0, ws_ypixel: 0 };
    // A program that has just ended needs no size.
    let _ = tcsetwinsize(terminal, size);
}

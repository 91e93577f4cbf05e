//! What is behind the URLs of exec, attach and port-forward.

mod output;

use std::os::fd::{AsFd, OwnedFd};
use std::process::Stdio;
use std::sync::{Arc, Weak};

use rustix::termios::{Winsize, tcsetwinsize};
use streaming::{
    Answer, AttachRequest, Connection, Ended, ExecRequest, Handler, Size, Streams as Client, Writer,
};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::unix::pipe;
use tokio::task::JoinHandle;

use crate::container::attach;
use crate::container::exec::{Ending, Exec, Streams, Wanted};
use crate::error::{Result, chain};
use crate::node::Node;
use crate::sandbox::forward;
use output::{Output, drained};

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
    let container = node.book.container(&request.container)?;
    let piped = |wanted: bool| if wanted && !request.tty { Stdio::piped() } else { Stdio::null() };
    let streams =
        Streams { stdin: piped(request.stdin), stdout: piped(request.stdout), stderr: piped(request.stderr) };
    let mut wanted = Wanted::new(request.command);
    wanted.tty = request.tty;
    let mut exec = Exec::start(node, &container, &wanted, streams).await?;
    let terminal = exec.terminal.take();
    let mut output = vec![];
    if let Some(terminal) = &terminal {
        let (reading, writing) = (reader(terminal.as_fd())?, writer(terminal.as_fd())?);
        output.extend(client.stdout.take().map(|to| Output::carry(reading, to)));
        // Not closed with the client's input: that would be the terminal's end for everybody.
        drop(client.stdin.take().map(|from| pump(from, Box::new(writing))));
    } else {
        let stdout = exec.child.stdout.take().zip(client.stdout.take());
        output.extend(stdout.map(|(from, to)| Output::carry(from, to)));
        let stderr = exec.child.stderr.take().zip(client.stderr.take());
        output.extend(stderr.map(|(from, to)| Output::carry(from, to)));
        let input = client.stdin.take().zip(exec.child.stdin.take());
        drop(input.map(|(from, to)| pump(from, Box::new(to))));
    }
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

/// Carries bytes from one to the other until one of them ends, and ends the other's input.
pub(crate) fn pump(mut from: impl AsyncRead + Send + Unpin + 'static, mut to: Writer) -> JoinHandle<()> {
    tokio::spawn(async move {
        // Whoever broke off knows why.
        let _ = tokio::io::copy(&mut from, &mut to).await;
        let _ = to.shutdown().await;
    })
}

/// A descriptor of ours to read from as it comes.
pub(crate) fn reader(from: impl AsFd) -> Result<pipe::Receiver> {
    let own = waitless(from)?;
    pipe::Receiver::from_owned_fd_unchecked(own).map_err(failed)
}

/// A descriptor of ours to write to as it goes.
pub(crate) fn writer(to: impl AsFd) -> Result<impl AsyncWrite + Send + Unpin + 'static> {
    let own = waitless(to)?;
    pipe::Sender::from_owned_fd_unchecked(own).map_err(failed)
}

fn waitless(descriptor: impl AsFd) -> Result<OwnedFd> {
    let own = descriptor.as_fd().try_clone_to_owned().map_err(failed)?;
    rustix::io::ioctl_fionbio(&own, true).map_err(|errno| failed(errno.into()))?;
    Ok(own)
}

fn failed(cause: std::io::Error) -> crate::error::Error {
    crate::error::Error::step("carry a stream", cause)
}

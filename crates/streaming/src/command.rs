//! A session that runs a command or joins a container's streams, whatever carries it.

use std::sync::Arc;

use tokio::io::AsyncWriteExt;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use crate::handler::{AttachRequest, ExecRequest, Handler, Reader, Streams, Writer};
use crate::lent::{Lender, lend};
use crate::link::{Drained, Stream};
use crate::resize;
use crate::status::Outcome;

/// What is to be done.
#[derive(Clone, Debug)]
pub(crate) enum Asked {
    Exec(ExecRequest),
    Attach(AttachRequest),
}

/// What a stream is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Role {
    Stdin,
    Stdout,
    Stderr,
    Error,
    Resize,
}

impl Role {
    /// Its number among WebSocket's channels.
    pub(crate) fn channel(self) -> u8 {
        match self {
            Self::Stdin => 0,
            Self::Stdout => 1,
            Self::Stderr => 2,
            Self::Error => 3,
            Self::Resize => 4,
        }
    }

    /// The name that SPDY gives it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Stdin => "stdin",
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
            Self::Error => "error",
            Self::Resize => "resize",
        }
    }

    /// By the name that SPDY gives it.
    pub(crate) fn named(name: &str) -> Option<Self> {
        match name {
            "stdin" => Some(Self::Stdin),
            "stdout" => Some(Self::Stdout),
            "stderr" => Some(Self::Stderr),
            "error" => Some(Self::Error),
            "resize" => Some(Self::Resize),
            _ => None,
        }
    }
}

/// How the error stream speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Text,
    Json,
}

impl Asked {
    /// The streams that there are at least.
    pub(crate) fn roles(&self) -> Vec<Role> {
        let (stdin, stdout, stderr) = match self {
            Self::Exec(asked) => (asked.stdin, asked.stdout, asked.stderr),
            Self::Attach(asked) => (asked.stdin, asked.stdout, asked.stderr),
        };
        let wanted =
            [(Role::Stdin, stdin), (Role::Stdout, stdout), (Role::Stderr, stderr), (Role::Error, true)];
        wanted.into_iter().filter_map(|(role, wanted)| wanted.then_some(role)).collect()
    }

    /// Whether there is a terminal whose size can change.
    pub(crate) fn tty(&self) -> bool {
        match self {
            Self::Exec(asked) => asked.tty,
            Self::Attach(asked) => asked.tty,
        }
    }
}

/// The streams of a session.
#[derive(Default)]
pub(crate) struct Channels {
    open: Vec<(Role, Stream)>,
}

impl Channels {
    /// False if there is one for this role already.
    pub(crate) fn add(&mut self, role: Role, stream: Stream) -> bool {
        let new = self.open.iter().all(|(other, _)| *other != role);
        if new {
            self.open.push((role, stream));
        }
        new
    }

    pub(crate) fn has(&self, role: Role) -> bool {
        self.open.iter().any(|(other, _)| *other == role)
    }

    fn take(&mut self, role: Role) -> Option<Stream> {
        let at = self.open.iter().position(|(other, _)| *other == role)?;
        Some(self.open.swap_remove(at).1)
    }
}

/// Runs it to its end: the output first, the verdict last.
pub(crate) async fn run(
    handler: &Arc<dyn Handler>,
    asked: Asked,
    mut channels: Channels,
    verdict: Verdict,
    gone: watch::Receiver<bool>,
) {
    let (sender, resize) = mpsc::channel(1);
    let mut resizing = JoinSet::new();
    resizing.spawn(resize::forward(channels.take(Role::Resize).map(|stream| stream.io), sender, gone));
    let mut lending = Lending::default();
    let streams = Streams {
        stdin: lending.lend(channels.take(Role::Stdin)).map(|lent| Box::new(lent) as Reader),
        stdout: lending.lend(channels.take(Role::Stdout)).map(|lent| Box::new(lent) as Writer),
        stderr: lending.lend(channels.take(Role::Stderr)).map(|lent| Box::new(lent) as Writer),
        resize,
    };
    let outcome = match asked {
        Asked::Exec(request) => Outcome::of_command(handler.exec(request, streams).await),
        Asked::Attach(request) => Outcome::of_attachment(handler.attach(request, streams).await),
    };
    lending.end().await;
    if let Some(Stream { mut io, drained }) = channels.take(Role::Error) {
        let said = match verdict {
            Verdict::Text => outcome.text(),
            Verdict::Json => outcome.json(),
        };
        let _ = io.write_all(said.as_bytes()).await;
        drop(io);
        drained.wait().await;
    }
}

/// The streams that a handler has.
#[derive(Default)]
struct Lending {
    lent: Vec<(Lender, Drained)>,
}

impl Lending {
    fn lend(&mut self, stream: Option<Stream>) -> Option<crate::lent::Lent> {
        let Stream { io, drained } = stream?;
        let (lender, lent) = lend(io);
        self.lent.push((lender, drained));
        Some(lent)
    }

    /// Takes them back and waits until all that was written is on its way.
    async fn end(self) {
        for (lender, drained) in self.lent {
            drop(lender);
            drained.wait().await;
        }
    }
}

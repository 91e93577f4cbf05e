//! The messages of the socket: JSON, one message per packet.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::record::Exit;

/// A request to a monitor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Request {
    /// Start a container. The reply is [`Reply::Started`] or [`Reply::Failed`] once the outcome is known.
    Start(StartRequest),
    /// Watch a container that an earlier monitor has started.
    #[serde(rename_all = "camelCase")]
    Adopt {
        /// Its name.
        container: String,
        /// Where its records are.
        dir: PathBuf,
        /// Its log. Its streams ended with the monitor that had them: nothing more is written there.
        log: Option<PathBuf>,
    },
    /// Connect these streams to a container; their descriptors come with the packet, in this order.
    Attach(Attach),
    /// No more input will come.
    CloseStdin {
        /// The container.
        container: String,
    },
    /// The terminal has another size.
    Resize {
        /// The container.
        container: String,
        /// Lines.
        rows: u16,
        /// Characters in a line.
        cols: u16,
    },
    /// The log was renamed (rotated): open it anew.
    Reopen {
        /// The container.
        container: String,
    },
    /// Send a signal to the container's first process. SIGKILL also ends a start that takes too long.
    Signal {
        /// The container.
        container: String,
        /// The signal's number.
        signal: i32,
    },
    /// List the containers.
    List,
    /// The process that keeps the pod's shared PID namespace.
    PidNamespace,
    /// Forget a container that has ended.
    Forget {
        /// The container.
        container: String,
    },
    /// End, if no container runs.
    End,
}

/// The container to start: its name, its directory and its streams.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StartRequest {
    /// Its name.
    pub container: String,
    /// Where its `job.json` is, and where its records are written.
    pub dir: PathBuf,
    /// Its log.
    pub log: Option<PathBuf>,
    /// Whether it has a terminal instead of pipes.
    pub terminal: bool,
    /// Its input.
    pub stdin: Stdin,
    /// The size at which the monitor itself rotates the log.
    pub limits: Option<LogLimits>,
}

/// A container's input.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Stdin {
    /// It stays open when a client's input ends.
    Open,
    /// It ends with the first client's input.
    Once,
    /// There is none.
    #[default]
    None,
}

/// How large a log may grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LogLimits {
    /// Bytes of one file; a line is never cut for it.
    pub max_size: u64,
    /// Files beside the current one: `LOG.1` is the youngest.
    pub max_files: u32,
}

/// The streams to connect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Attach {
    /// The container.
    pub container: String,
    /// A descriptor to read the container's input from.
    pub stdin: bool,
    /// A descriptor to write its output to.
    pub stdout: bool,
    /// A descriptor to write its error output to; a terminal has none.
    pub stderr: bool,
}

impl Attach {
    /// How many descriptors come with it.
    #[must_use]
    pub fn descriptors(&self) -> usize {
        [self.stdin, self.stdout, self.stderr].into_iter().filter(|wanted| *wanted).count()
    }
}

/// A reply of a monitor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Reply {
    /// The container runs, or has run, and `started.json` is written.
    Started(Started),
    /// It was not started.
    Failed(Failed),
    /// The request was executed.
    Done,
    /// The containers, oldest first. Their exits have no message: `exit.json` has it.
    Listed(Vec<Listed>),
    /// The process that keeps the shared PID namespace, if one was requested and it still lives.
    PidNamespace {
        /// Its PID.
        pid: Option<u32>,
    },
    /// The request was refused.
    Refused {
        /// The cause.
        what: String,
    },
}

/// A container that was started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Started {
    /// The container.
    pub container: String,
    /// Its first process.
    pub pid: u32,
}

/// A container that was not started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Failed {
    /// The container.
    pub container: String,
    /// The error, on one line.
    pub what: String,
    /// What the user can do about it.
    pub hint: Option<String>,
    /// `RunContainerError`, `StartError` and the like.
    pub reason: String,
}

/// A container of this monitor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Listed {
    /// The container.
    pub container: String,
    /// Its first process; `None` while it is being started.
    pub pid: Option<u32>,
    /// Whether it has not ended.
    pub running: bool,
    /// How it ended.
    pub exit: Option<Exit>,
}

/// An event that every connected client gets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Event {
    /// A container has ended, and `exit.json` is written.
    Exited(Exited),
}

/// A container that has ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exited {
    /// The container.
    pub container: String,
    /// How it ended.
    pub exit: Exit,
}

/// A request on the wire.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Asked {
    /// Comes back with the reply; not 0.
    pub id: u64,
    /// The request.
    pub request: Request,
}

/// A message of a monitor on the wire.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Told {
    /// The reply to a request.
    Reply {
        /// The request's ID; 0 if that could not be read.
        id: u64,
        /// The reply.
        reply: Reply,
    },
    /// An event.
    Event(Event),
}

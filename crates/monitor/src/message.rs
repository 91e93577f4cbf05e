//! What is said on the socket: JSON, one message a packet.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::record::Exit;

/// What a monitor is asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Request {
    /// Start a container. Answered by [`Reply::Started`] or [`Reply::Failed`] once it is known.
    Start(Start),
    /// Watch a container that a monitor which is gone has started.
    #[serde(rename_all = "camelCase")]
    Adopt {
        /// Its name.
        container: String,
        /// Where its records are.
        dir: PathBuf,
        /// Its log. Its streams are gone with the monitor that had them: nothing more is written there.
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
    /// Somebody has moved the log away: open it anew.
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
    /// Which containers there are.
    List,
    /// The process that keeps the pod's shared PID namespace.
    PidNamespace,
    /// Leave out a container that has ended.
    Forget {
        /// The container.
        container: String,
    },
    /// End, if no container lives.
    End,
}

/// A container to be started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Start {
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
    /// How large the log may grow before the monitor itself begins another.
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

/// Which streams are connected.
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

/// What a monitor answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Reply {
    /// The container runs, or has run, and `started.json` says so.
    Started(Started),
    /// It was not started.
    Failed(Failed),
    /// It is done.
    Done,
    /// The containers, oldest first. Their ends are without words: `exit.json` has them.
    Listed(Vec<Listed>),
    /// Who keeps the shared PID namespace, if one was asked for and it still lives.
    PidNamespace {
        /// Its number.
        pid: Option<u32>,
    },
    /// It is not done.
    Refused {
        /// Why.
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
    /// What went wrong, in one line.
    pub what: String,
    /// What somebody can do about it.
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

/// What is told to everybody who is connected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Event {
    /// A container has ended, and `exit.json` says so.
    Exited(Exited),
}

/// A container that has ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exited {
    /// The container.
    pub container: String,
    /// How.
    pub exit: Exit,
}

/// A request as it travels.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Asked {
    /// Comes back with the reply; not 0.
    pub id: u64,
    /// What is asked for.
    pub request: Request,
}

/// What a monitor says, as it travels.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Told {
    /// The answer to a request.
    Reply {
        /// The request's; 0 if that could not be read.
        id: u64,
        /// The answer.
        reply: Reply,
    },
    /// Something happened.
    Event(Event),
}

//! Sessions of exec, attach and port-forward, and commands that run to their end.
//!
//! The runtime serves a session at a URL; this server passes its bytes on, so that whatever protocol client and runtime agree
//! on is spoken between them. But the newest WebSocket protocols of `kubectl` are none that runtimes speak: these are bridged to
//! SPDY, as by a kubelet.

mod activity;
mod dial;
mod query;
mod tunnel;

use std::future::Future;
use std::pin::Pin;

pub(crate) use query::{command, wanted_streams};
pub(crate) use tunnel::{Asked, Tunnel, Upgraded, Way, open};

/// Which streams of a process a client wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// Its standard input.
    pub stdin: bool,
    /// Its standard output.
    pub stdout: bool,
    /// Its standard error; never with a terminal.
    pub stderr: bool,
    /// Whether it has a terminal.
    pub tty: bool,
}

impl From<Wanted> for streaming::bridge::Wanted {
    fn from(wanted: Wanted) -> Self {
        let Wanted { stdin, stdout, stderr, tty } = wanted;
        Self { stdin, stdout, stderr, tty }
    }
}

/// What a client wants of a pod that runs. Containers are named by the IDs of the runtime.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Session {
    /// One more process.
    Exec {
        /// The container.
        container: String,
        /// Its program and arguments.
        command: Vec<String>,
        /// Its streams.
        wanted: Wanted,
    },
    /// The streams of the first process.
    Attach {
        /// The container.
        container: String,
        /// The streams.
        wanted: Wanted,
    },
    /// Connections to ports of a pod.
    PortForward {
        /// The UID of the pod.
        uid: String,
        /// The ports that are named beforehand; empty if each stream names its own.
        ports: Vec<u16>,
    },
}

/// Why the runtime offers no session, or a command did not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StreamError {
    /// What is asked for is not there.
    NotFound(String),
    /// Too much is asked for at once.
    Exhausted(String),
    /// Anything else.
    Failed(String),
}

/// What a command has written, and how it ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunOutput {
    /// Its standard output.
    pub stdout: Vec<u8>,
    /// Its standard error.
    pub stderr: Vec<u8>,
    /// Its exit code.
    pub code: i32,
}

/// A call to the runtime.
pub type Call<'a, T> = Pin<Box<dyn Future<Output = Result<T, StreamError>> + Send + 'a>>;

/// The runtime, as far as sessions need it: a port that the caller implements.
pub trait Streams: Send + Sync {
    /// A URL, of plain HTTP, at which the runtime serves this session to one client.
    fn url(&self, session: Session) -> Call<'_, String>;

    /// Runs a command in a container of this ID, to its end.
    fn run(&self, container: String, command: Vec<String>) -> Call<'_, RunOutput>;
}

//! What a runtime does for clients of the streaming server.

use std::future::Future;
use std::pin::Pin;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;

/// Bytes from the client.
pub type Reader = Box<dyn AsyncRead + Send + Unpin>;

/// Bytes to the client. It is the client's end of file when this is shut down or dropped.
pub type Writer = Box<dyn AsyncWrite + Send + Unpin>;

/// Bytes both ways: shutting it down tells the client that no more come, dropping it ends both ways.
pub type Connection = Box<dyn ReadWrite>;

/// The future that a handler returns: the client gets the text of a failure.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, String>> + Send + 'a>>;

/// Both ways in one trait, so that it can be boxed.
pub trait ReadWrite: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> ReadWrite for T {}

/// A command to be run in a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecRequest {
    /// The container's ID.
    pub container: String,
    /// The command and its arguments.
    pub command: Vec<String>,
    /// Whether the command gets a terminal.
    pub tty: bool,
    /// Whether the client sends input.
    pub stdin: bool,
    /// Whether the client wants the output.
    pub stdout: bool,
    /// Whether the client wants the error output. Not together with `tty`: a terminal has one output.
    pub stderr: bool,
}

/// A container whose own streams are to be joined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttachRequest {
    /// The container's ID.
    pub container: String,
    /// Whether the container has a terminal.
    pub tty: bool,
    /// Whether the client sends input.
    pub stdin: bool,
    /// Whether the client wants the output.
    pub stdout: bool,
    /// Whether the client wants the error output. Not together with `tty`.
    pub stderr: bool,
}

/// A sandbox whose ports are to be reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortForwardRequest {
    /// The sandbox's ID.
    pub sandbox: String,
    /// The ports, for clients that cannot name one for each connection: the first WebSocket protocols. Others
    /// name any port.
    pub ports: Vec<u16>,
}

/// A terminal's size in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Lines.
    pub rows: u16,
    /// Characters in a line.
    pub columns: u16,
}

/// A client's streams: those that were asked for.
///
/// When the client has gone, whether it said so or not, `stdin` is at its end, writing fails, and `resize` gives
/// nothing any more. A client that only closes its input is still there.
pub struct Streams {
    /// Its input, which ends when the client closes it.
    pub stdin: Option<Reader>,
    /// Where output goes.
    pub stdout: Option<Writer>,
    /// Where error output goes.
    pub stderr: Option<Writer>,
    /// Its terminal's sizes, the latest where several came in haste. It ends when the client has gone, and not
    /// before, with or without a terminal: that is how a handler that only waits for a command learns of it.
    pub resize: mpsc::Receiver<Size>,
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// By itself, with this code.
    Code(i32),
    /// Killed by this signal: the client gets 128 plus its number, as from a shell.
    Signal(i32),
}

/// A runtime's part. A method's answer is the end of the client's session: what was written before it is delivered
/// first.
pub trait Handler: Send + Sync + 'static {
    /// Runs a command in a container.
    fn exec(&self, request: ExecRequest, streams: Streams) -> Answer<'_, Ended>;

    /// Joins a container's own streams until the container or the client has gone.
    fn attach(&self, request: AttachRequest, streams: Streams) -> Answer<'_, ()>;

    /// Connects to a port inside a sandbox and carries bytes both ways until both ends are through.
    fn port_forward(&self, sandbox: String, port: u16, connection: Connection) -> Answer<'_, ()>;
}

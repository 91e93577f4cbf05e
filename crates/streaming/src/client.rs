//! The other end of a URL: a command in a container, from here, over SPDY/3.1, which every CRI runtime speaks and
//! in which input can be closed while output goes on.

mod dial;
mod verdict;

use std::io::ErrorKind;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;

use crate::command::Role;
use crate::error::{Error, Result};
use crate::handler::Size;
use crate::spdy::client::{Event, Events, opening, stream_of};
use crate::spdy::frame;

/// As much as is kept of what the error stream says.
pub(crate) const LONGEST_VERDICT: usize = 64 << 10;

/// Where output of a command belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Its standard output.
    Stdout,
    /// Its standard error; with a terminal it has none.
    Stderr,
}

/// What a command is given and gives. The request that the URL is for must ask for the same.
pub struct Session<F> {
    /// Its input; the end of the queue is the end of it.
    pub stdin: Option<mpsc::Receiver<Vec<u8>>>,
    /// The sizes of its terminal, if it has one.
    pub sizes: Option<mpsc::Receiver<Size>>,
    /// Is given its output, in order.
    pub output: F,
}

/// Runs what the URL is for to its end: its exit code.
///
/// # Errors
/// If no server listens at the URL, the runtime could not run it, or the connection broke before its end.
pub async fn run<F: FnMut(Output, &[u8])>(url: &str, session: Session<F>) -> Result<i32> {
    let broken = |cause: String| Error::Broken { url: url.to_owned(), cause };
    let stream = dial::upgraded(url).await.map_err(broken)?;
    let (reader, writer) = tokio::io::split(stream);
    let (frames, queue) = mpsc::channel(4);
    let Session { stdin, sizes, output } = session;
    let has_terminal = sizes.is_some();
    let mut streams = vec![Role::Error, Role::Stdout];
    streams.extend((!has_terminal).then_some(Role::Stderr));
    let open = streams.iter().map(|role| stream_of(*role)).collect();
    streams.extend(stdin.is_some().then_some(Role::Stdin));
    streams.extend(has_terminal.then_some(Role::Resize));
    frames.send(opening(&streams)).await.map_err(|e| broken(e.to_string()))?;
    let pumps = async {
        tokio::join!(input(stdin, frames.clone()), resize(sizes, frames.clone()));
        // Only the reader ends a session.
        std::future::pending::<()>().await;
    };
    let receiver = Receiver { output, verdict: Vec::new(), open, frames: frames.clone() };
    tokio::select! {
        said = receiver.run(reader) => verdict::read(&said.map_err(|e| broken(e.to_string()))?),
        written = write(writer, queue) => Err(broken(written.err().map_or("it was closed".to_owned(), |e| e.to_string()))),
        () = pumps => Err(broken("it was left".to_owned())),
    }
}

/// Writes frames until there are no more.
pub(crate) async fn write(
    mut writer: impl AsyncWrite + Unpin,
    mut frames: mpsc::Receiver<Vec<u8>>,
) -> std::io::Result<()> {
    while let Some(frame) = frames.recv().await {
        writer.write_all(&frame).await?;
        writer.flush().await?;
    }
    Ok(())
}

async fn input(stdin: Option<mpsc::Receiver<Vec<u8>>>, frames: mpsc::Sender<Vec<u8>>) {
    let Some(mut stdin) = stdin else { return };
    while let Some(piece) = stdin.recv().await {
        if frames.send(frame::data(stream_of(Role::Stdin), &piece)).await.is_err() {
            return;
        }
    }
    let _ = frames.send(frame::end(stream_of(Role::Stdin))).await;
}

async fn resize(sizes: Option<mpsc::Receiver<Size>>, frames: mpsc::Sender<Vec<u8>>) {
    let Some(mut sizes) = sizes else { return };
    while let Some(size) = sizes.recv().await {
        let text = format!("{{\"Width\":{},\"Height\":{}}}\n", size.columns, size.rows);
        if frames.send(frame::data(stream_of(Role::Resize), text.as_bytes())).await.is_err() {
            return;
        }
    }
}

/// Hands on what comes.
struct Receiver<F> {
    output: F,
    verdict: Vec<u8>,
    /// Streams that have not ended and must before the session is over.
    open: Vec<u32>,
    frames: mpsc::Sender<Vec<u8>>,
}

impl<F: FnMut(Output, &[u8])> Receiver<F> {
    /// Until every stream has ended or the connection has: what the error stream said.
    async fn run(mut self, reader: impl AsyncRead + Unpin) -> std::io::Result<Vec<u8>> {
        let mut events = Events::new(reader);
        while !self.open.is_empty() {
            let event = match events.next().await {
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => None,
                event => event?,
            };
            match event {
                None if self.verdict.is_empty() => return Err(ErrorKind::UnexpectedEof.into()),
                None => break,
                Some(Event::Data { stream, piece }) => self.data(stream, piece),
                Some(Event::Ended(stream)) => self.open.retain(|open| *open != stream),
                Some(Event::Ping(answer)) => {
                    let _ = self.frames.send(answer).await;
                }
                Some(Event::Other) => {}
            }
        }
        Ok(self.verdict)
    }

    fn data(&mut self, stream: u32, piece: &[u8]) {
        if stream == stream_of(Role::Stdout) {
            (self.output)(Output::Stdout, piece);
        } else if stream == stream_of(Role::Stderr) {
            (self.output)(Output::Stderr, piece);
        } else if stream == stream_of(Role::Error) && self.verdict.len() < LONGEST_VERDICT {
            self.verdict.extend_from_slice(piece);
        }
    }
}

//! The other end of a URL: a command in a container, from here, over SPDY/3.1, which every CRI runtime speaks and
//! in which input can be closed while output goes on.

mod dial;
mod verdict;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;

use crate::error::{Error, Result};
use crate::handler::Size;
use crate::spdy::frame::{self, Head};
use crate::spdy::headers::Deflater;

/// A client's streams have odd numbers.
const ERROR: u32 = 1;
const STDIN: u32 = 3;
const STDOUT: u32 = 5;
const STDERR: u32 = 7;
const RESIZE: u32 = 9;

/// As much as is kept of what the error stream says.
const LONGEST_VERDICT: usize = 64 << 10;
const PING: u16 = 6;
const RESET: u16 = 3;

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
    let mut open = vec![ERROR, STDOUT];
    open.extend((!has_terminal).then_some(STDERR));
    frames.send(opening(stdin.is_some(), has_terminal)).await.map_err(|e| broken(e.to_string()))?;
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

/// All streams of a session, as their names say.
fn opening(has_stdin: bool, has_terminal: bool) -> Vec<u8> {
    let mut deflater = Deflater::default();
    let streams = [
        (ERROR, "error", true),
        (STDIN, "stdin", has_stdin),
        (STDOUT, "stdout", true),
        (STDERR, "stderr", !has_terminal),
        (RESIZE, "resize", has_terminal),
    ];
    let wanted = streams.into_iter().filter(|(_, _, is_wanted)| *is_wanted);
    wanted.flat_map(|(id, kind, _)| frame::open(id, &deflater.block(&[("streamtype", kind)]))).collect()
}

async fn write(
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
        if frames.send(frame::data(STDIN, &piece)).await.is_err() {
            return;
        }
    }
    let _ = frames.send(frame::end(STDIN)).await;
}

async fn resize(sizes: Option<mpsc::Receiver<Size>>, frames: mpsc::Sender<Vec<u8>>) {
    let Some(mut sizes) = sizes else { return };
    while let Some(size) = sizes.recv().await {
        let text = format!("{{\"Width\":{},\"Height\":{}}}\n", size.columns, size.rows);
        if frames.send(frame::data(RESIZE, text.as_bytes())).await.is_err() {
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
    async fn run(mut self, mut reader: impl AsyncRead + Unpin) -> std::io::Result<Vec<u8>> {
        while !self.open.is_empty() {
            let mut bytes = [0; 8];
            match reader.read_exact(&mut bytes).await {
                Err(e) if e.kind() == std::io::ErrorKind::UnexpectedEof && !self.verdict.is_empty() => break,
                read => read.map(drop)?,
            }
            match Head::parse(bytes).map_err(std::io::Error::other)? {
                Head::Data { stream, fin, length } => {
                    self.data(stream, (&mut reader).take(u64::try_from(length).unwrap_or(u64::MAX))).await?;
                    self.ended(stream, fin);
                }
                Head::Control { kind, length, .. } => {
                    let mut payload = vec![0; length];
                    reader.read_exact(&mut payload).await?;
                    self.control(kind, &payload).await;
                }
            }
        }
        Ok(self.verdict)
    }

    async fn data(&mut self, stream: u32, mut from: impl AsyncRead + Unpin) -> std::io::Result<()> {
        let mut piece = vec![0; 32 << 10];
        loop {
            let read = from.read(&mut piece).await?;
            let bytes = piece.get(..read).unwrap_or_default();
            match stream {
                _ if read == 0 => return Ok(()),
                STDOUT => (self.output)(Output::Stdout, bytes),
                STDERR => (self.output)(Output::Stderr, bytes),
                ERROR if self.verdict.len() < LONGEST_VERDICT => self.verdict.extend_from_slice(bytes),
                _ => {}
            }
        }
    }

    fn ended(&mut self, stream: u32, fin: bool) {
        if fin {
            self.open.retain(|open| *open != stream);
        }
    }

    async fn control(&mut self, kind: u16, payload: &[u8]) {
        let number = payload.first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes));
        match kind {
            // A server's have even numbers, and are sent back.
            PING if number.is_multiple_of(2) => {
                let _ = self.frames.send(frame::ping(number)).await;
            }
            RESET => self.ended(number, true),
            _ => {}
        }
    }
}

use std::future::pending;
use std::io;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream};
use tokio::sync::mpsc;

use super::Wanted;
use crate::client::{LONGEST_VERDICT, write};
use crate::command::Role;
use crate::link::{CHUNK, Drained, Link, Stream};
use crate::spdy::client::{Event, Events, opening, stream_of};
use crate::spdy::frame;
use crate::status::Outcome;
use crate::websocket::{self, Closing, Coding, Layout};

/// How many frames wait to be written to the runtime.
const QUEUE: usize = 4;

/// A command or an attachment: output first, the verdict last.
pub(super) async fn run<C, R>(client: C, runtime: R, wanted: Wanted)
where
    C: AsyncRead + AsyncWrite + Send + 'static,
    R: AsyncRead + AsyncWrite + Send + 'static,
{
    let (link, mut channels) = Channels::open(client, wanted);
    let first = [Role::Stdout, Role::Stderr].into_iter().find(|role| wanted.roles().contains(role));
    // Clients take the first message for the sign that they are connected.
    link.send(Coding::Plain.message(first.unwrap_or(Role::Error).channel(), &[])).await;
    let (from_runtime, to_runtime) = tokio::io::split(runtime);
    let (frames, queue) = mpsc::channel(QUEUE);
    let _ = frames.send(opening(&wanted.roles())).await;
    let (stdin, resize) = (channels.stdin.take(), channels.resize.take());
    let pumping = async {
        tokio::join!(pump(stdin, frames.clone()), pump(resize, frames.clone()));
        // Only the runtime ends a session, and a client that has gone.
        pending::<()>().await;
    };
    let mut gone = link.gone();
    let verdict = tokio::select! {
        verdict = channels.take(from_runtime, frames.clone()) => Some(verdict),
        written = write(to_runtime, queue) => Some(Err(written.err().unwrap_or_else(|| io::ErrorKind::BrokenPipe.into()))),
        () = pumping => None,
        _ = gone.wait_for(|gone| *gone) => None,
    };
    if let Some(verdict) = verdict {
        channels.end(verdict).await;
    }
    link.close(websocket::frame::close(websocket::frame::NORMAL)).await;
}

/// What a client sends on one channel, if it has that.
type Input = Option<(Role, DuplexStream)>;

/// The client's channels.
#[derive(Default)]
struct Channels {
    stdin: Input,
    resize: Input,
    /// Those that are not over yet, by the runtime's numbers.
    outputs: Vec<(u32, DuplexStream)>,
    error: Option<DuplexStream>,
    drained: Vec<Drained>,
}

impl Channels {
    fn open<C: AsyncRead + AsyncWrite + Send + 'static>(client: C, wanted: Wanted) -> (Link, Self) {
        let roles = wanted.roles();
        let numbers: Vec<u8> = roles.iter().map(|role| role.channel()).collect();
        let layout = Layout::Channels(Coding::Plain, Closing::Possible);
        let (link, streams) = websocket::open(client, layout, &numbers);
        let mut all = Self::default();
        for (role, Stream { io, drained }) in roles.into_iter().zip(streams) {
            match role {
                Role::Stdin => all.stdin = Some((role, io)),
                Role::Resize => all.resize = Some((role, io)),
                Role::Stdout | Role::Stderr => {
                    all.outputs.push((stream_of(role), io));
                    all.drained.push(drained);
                }
                Role::Error => {
                    all.error = Some(io);
                    all.drained.push(drained);
                }
            }
        }
        (link, all)
    }

    /// Passes output on until all streams of the runtime have ended, or the connection has: what its error stream said.
    async fn take<R: AsyncRead + Unpin>(
        &mut self,
        runtime: R,
        frames: mpsc::Sender<Vec<u8>>,
    ) -> io::Result<Vec<u8>> {
        let mut events = Events::new(runtime);
        let error = stream_of(Role::Error);
        let (mut verdict, mut is_said) = (Vec::new(), false);
        while !is_said || !self.outputs.is_empty() {
            let event = match events.next().await {
                // A runtime may close the connection instead of each stream.
                Ok(None) | Err(_) if !verdict.is_empty() => break,
                event => event?.ok_or(io::ErrorKind::UnexpectedEof)?,
            };
            match event {
                Event::Data { stream, piece } if stream == error => {
                    let room = LONGEST_VERDICT.saturating_sub(verdict.len());
                    verdict.extend_from_slice(piece.get(..piece.len().min(room)).unwrap_or_default());
                }
                Event::Data { stream, piece } => self.put(stream, piece).await,
                Event::Ended(stream) => {
                    is_said |= stream == error;
                    self.outputs.retain(|(open, _)| *open != stream);
                }
                Event::Ping(answer) => drop(frames.send(answer).await),
                Event::Other => {}
            }
        }
        Ok(verdict)
    }

    /// Waits while the client does not read.
    async fn put(&mut self, stream: u32, piece: &[u8]) {
        if let Some((_, output)) = self.outputs.iter_mut().find(|(open, _)| *open == stream) {
            // If the client has gone, the link says so.
            let _ = output.write_all(piece).await;
        }
    }

    /// Sends the verdict behind all output.
    async fn end(self, verdict: io::Result<Vec<u8>>) {
        let said = verdict.unwrap_or_else(|cause| {
            let cause = format!("the connection to the runtime broke before the end of the session: {cause}");
            Outcome::Failed(cause).json().into_bytes()
        });
        let Self { outputs, error, drained, .. } = self;
        drop(outputs);
        if let Some(mut error) = error {
            let _ = error.write_all(&said).await;
        }
        for drained in drained {
            drained.wait().await;
        }
    }
}

/// Passes on what a client sends on a channel, and that it sends no more.
async fn pump(input: Input, frames: mpsc::Sender<Vec<u8>>) {
    let Some((role, mut from)) = input else { return };
    let stream = stream_of(role);
    let mut buffer = vec![0; CHUNK];
    while let Ok(length @ 1..) = from.read(&mut buffer).await {
        let piece = buffer.get(..length).unwrap_or_default();
        if frames.send(frame::data(stream, piece)).await.is_err() {
            return;
        }
    }
    let _ = frames.send(frame::end(stream)).await;
}

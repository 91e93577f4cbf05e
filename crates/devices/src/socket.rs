//! Serving gRPC on a Unix socket.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{UnixListener, UnixSocket, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::server::Connected;
use tracing::warn;

use crate::error::{Error, Result};
use crate::rewrite::Rewriter;

/// Only root registers plugins, and asks which pod has which device.
const MODE: u32 = 0o600;
const BACKLOG: u32 = 128;
/// How many connections a socket has at the same time; others wait.
const CONNECTIONS: usize = 128;
/// How much is read from a client at once.
const PIECE: usize = 8 << 10;
/// The pause when no connection can be accepted, for lack of descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// A socket on which connections are accepted. Its file goes with this value.
#[derive(Debug)]
pub(crate) struct Listener {
    listener: UnixListener,
    file: SocketFile,
}

/// The socket's file, ours for as long as its inode is.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    inode: (u64, u64),
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // Another process may have replaced it since; that one stays.
        if inode(&self.path).is_ok_and(|found| found == self.inode) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn inode(path: &Path) -> io::Result<(u64, u64)> {
    fs::symlink_metadata(path).map(|found| (found.dev(), found.ino()))
}

/// Whether there is a socket at this path. Links are not followed.
pub(crate) fn is_socket(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket())
}

/// Refuses a socket on which a process serves.
pub(crate) async fn check_unused(path: &Path) -> Result<()> {
    match UnixStream::connect(path).await {
        Ok(_) => Err(Error::Taken(path.to_owned())),
        // It accepts nothing, and its queue is full.
        Err(cause) if cause.kind() == io::ErrorKind::WouldBlock => Err(Error::Taken(path.to_owned())),
        Err(_) => Ok(()),
    }
}

impl Listener {
    /// Listens at this path, in the place of a socket that an ended process has left.
    ///
    /// # Errors
    /// If another process serves there, or the kernel refuses.
    pub(crate) async fn bind(path: &Path) -> Result<Self> {
        let failed = |action| {
            let path = path.to_owned();
            move |cause| Error::Socket { action, path, cause }
        };
        if is_socket(path) {
            check_unused(path).await?;
            fs::remove_file(path).map_err(failed("remove the socket that was left at"))?;
        }
        let socket = UnixSocket::new_stream().map_err(failed("make a socket for"))?;
        socket.bind(path).map_err(failed("bind"))?;
        let file = SocketFile { path: path.to_owned(), inode: inode(path).map_err(failed("look at"))? };
        // No client can connect before it listens, so that none does with the mode that it was made with.
        fs::set_permissions(path, Permissions::from_mode(MODE)).map_err(failed("close to others"))?;
        let listener = socket.listen(BACKLOG).map_err(failed("listen on"))?;
        Ok(Self { listener, file })
    }

    /// Accepts connections in a task, which ends with the stream.
    pub(crate) fn incoming(self) -> Incoming {
        let Self { listener, file } = self;
        let (sender, connections) = mpsc::channel(1);
        tokio::spawn(async move {
            let slots = Arc::new(Semaphore::new(CONNECTIONS));
            let accepted = accept(listener, slots, &sender);
            tokio::select! {
                () = accepted => {}
                () = sender.closed() => {}
            }
            drop(file);
        });
        ReceiverStream::new(connections)
    }
}

/// The connections of a socket.
pub(crate) type Incoming = ReceiverStream<io::Result<Connection>>;

async fn accept(
    listener: UnixListener,
    slots: Arc<Semaphore>,
    sender: &mpsc::Sender<io::Result<Connection>>,
) {
    loop {
        // Never closed.
        let Ok(slot) = Arc::clone(&slots).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                if sender.send(Ok(Connection::new(stream, Some(slot)))).await.is_err() {
                    return;
                }
            }
            Err(cause) => {
                warn!("a connection is not accepted: {cause}; it is tried again");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// A connection of a client, whatever it calls the server.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: UnixStream,
    rewriter: Rewriter,
    /// What was read and not yet taken.
    ready: Vec<u8>,
    /// How much of that was taken.
    taken: usize,
    _slot: Option<OwnedSemaphorePermit>,
}

impl Connection {
    fn new(stream: UnixStream, slot: Option<OwnedSemaphorePermit>) -> Self {
        Self { stream, rewriter: Rewriter::new(), ready: Vec::new(), taken: 0, _slot: slot }
    }
}

impl Connected for Connection {
    type ConnectInfo = ();

    fn connect_info(&self) {}
}

impl AsyncRead for Connection {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let connection = self.get_mut();
        while connection.taken == connection.ready.len() {
            connection.ready.clear();
            connection.taken = 0;
            let mut piece = [0; PIECE];
            let mut read = ReadBuf::new(&mut piece);
            ready!(Pin::new(&mut connection.stream).poll_read(context, &mut read))?;
            if read.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
            connection.rewriter.push(read.filled(), &mut connection.ready);
        }
        let rest = connection.ready.get(connection.taken..).unwrap_or_default();
        let (taken, _) = rest.split_at(rest.len().min(buffer.remaining()));
        buffer.put_slice(taken);
        connection.taken += taken.len();
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Connection {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}

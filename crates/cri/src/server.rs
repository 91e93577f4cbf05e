//! Being a runtime.

use std::fs;
use std::future::Future;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use durable::{Guard, Lock};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{UnixListener, UnixSocket, UnixStream};
use tokio_stream::StreamExt;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::Server;
use tonic::transport::server::{Connected, Router};

use crate::v1::image_service_server::{ImageService, ImageServiceServer};
use crate::v1::runtime_service_server::{RuntimeService, RuntimeServiceServer};
use crate::{Endpoint, Error, LONGEST_MESSAGE, Result};

/// A process that may talk to a runtime is root on the node.
const MODE: u32 = 0o600;

/// As many connections may wait as for upstream's servers.
const BACKLOG: u32 = 1024;

/// A socket on which a runtime is served. The socket goes when this is dropped.
#[derive(Debug)]
pub struct Listener {
    listener: UnixListener,
    file: SocketFile,
}

/// The socket's file, ours for as long as its inode is.
#[derive(Debug)]
struct SocketFile {
    path: PathBuf,
    inode: (u64, u64),
    /// Held against others of our kind: between the look at a socket and its making, two that start at once
    /// would each take it for one that was left.
    _lock: Guard,
}

/// A reserved socket path on which no client can connect yet: for a server that has to prepare what no other server
/// may change meanwhile.
#[derive(Debug)]
pub struct Claim {
    path: PathBuf,
    lock: Guard,
}

impl Claim {
    /// Takes the place; a socket that an ended process has left there is removed. Needs a tokio runtime.
    ///
    /// # Errors
    /// If another process serves there, if the path is something else, or if we cannot write to the directory, or
    /// another user can.
    pub async fn take(endpoint: &Endpoint) -> Result<Self> {
        let given = endpoint.socket();
        let name = given.file_name().ok_or_else(|| Error::NoSocket { socket: given.to_owned() })?;
        // By the path without links: what stands there is ours, and stays so.
        let path = durable::check_ownership(given.parent().unwrap_or(Path::new("/")))?.join(name);
        let lock = lock(&path)?;
        clear(&path).await?;
        Ok(Self { path, lock })
    }

    /// Its path.
    #[must_use]
    pub fn socket(&self) -> &Path {
        &self.path
    }

    /// Listens there.
    ///
    /// # Errors
    /// If the directory is not ours to write to, or a process that ignores the lock was faster.
    pub fn listen(self) -> Result<Listener> {
        let Self { path, lock } = self;
        let failed = |action| {
            let path = path.clone();
            move |source| Error::Listen { action, path, source }
        };
        let socket = UnixSocket::new_stream().map_err(failed("make a socket for"))?;
        socket.bind(&path).map_err(failed("bind"))?;
        let inode = inode(&path).map_err(failed("look at"))?;
        let file = SocketFile { path: path.clone(), inode, _lock: lock };
        // No client can connect before it listens, so that none does with the mode that it was created with.
        fs::set_permissions(&path, fs::Permissions::from_mode(MODE)).map_err(failed("close to others"))?;
        let listener = socket.listen(BACKLOG).map_err(failed("listen on"))?;
        Ok(Listener { listener, file })
    }
}

impl Listener {
    /// Listens there; a socket that an ended process has left is replaced. Needs a tokio runtime.
    ///
    /// # Errors
    /// As [`Claim::take`] and [`Claim::listen`].
    pub async fn bind(endpoint: &Endpoint) -> Result<Self> {
        Claim::take(endpoint).await?.listen()
    }

    /// Its path.
    #[must_use]
    pub fn socket(&self) -> &Path {
        &self.file.path
    }

    /// Serves until `shutdown` is done and every call that had begun is answered: a service that streams has to
    /// end its streams then.
    ///
    /// # Errors
    /// If the transport fails.
    pub async fn serve<R, I>(self, services: Services<R, I>, shutdown: impl Future<Output = ()>) -> Result<()>
    where
        R: RuntimeService,
        I: ImageService,
    {
        let Self { listener, file } = self;
        let served =
            services.router().serve_with_incoming_shutdown(UnixListenerStream::new(listener), shutdown).await;
        drop(file);
        served.map_err(|e| Error::Serve { cause: e.to_string() })
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // Another process may have replaced it since; that one stays.
        if inode(&self.path).is_ok_and(|found| found == self.inode) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// What a runtime answers.
#[derive(Debug)]
pub struct Services<R, I> {
    /// Sandboxes and containers.
    pub runtime: R,
    /// Images.
    pub images: I,
}

impl<R: RuntimeService, I: ImageService> Services<R, I> {
    /// Serves over one stream of bytes, such as one half of [`tokio::io::duplex`], until `shutdown` is done and
    /// every call that had begun is answered.
    ///
    /// # Errors
    /// If the transport fails.
    pub async fn serve_over<S>(self, stream: S, shutdown: impl Future<Output = ()>) -> Result<()>
    where
        S: AsyncRead + AsyncWrite + Connected + Unpin + Send + 'static,
    {
        // A list of connections that ended would end the server with its calls unanswered.
        let incoming = tokio_stream::once(Ok::<_, io::Error>(stream)).chain(tokio_stream::pending());
        let served = self.router().serve_with_incoming_shutdown(incoming, shutdown).await;
        served.map_err(|e| Error::Serve { cause: e.to_string() })
    }

    fn router(self) -> Router {
        let runtime = RuntimeServiceServer::new(self.runtime)
            .max_decoding_message_size(LONGEST_MESSAGE)
            .max_encoding_message_size(LONGEST_MESSAGE);
        let images = ImageServiceServer::new(self.images)
            .max_decoding_message_size(LONGEST_MESSAGE)
            .max_encoding_message_size(LONGEST_MESSAGE);
        Server::builder().add_service(runtime).add_service(images)
    }
}

/// Takes the lock beside the socket.
fn lock(path: &Path) -> Result<Guard> {
    let mut name = path.to_owned().into_os_string();
    name.push(".lock");
    Lock::at(name).try_acquire()?.ok_or_else(|| Error::Taken { socket: path.to_owned() })
}

/// Removes a left-over socket at `path`; not one that is in use, and no other kind of file.
async fn clear(path: &Path) -> Result<()> {
    let socket = path.to_owned();
    let failed = |action| move |source| Error::Listen { action, path: path.to_owned(), source };
    match fs::symlink_metadata(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(source) => return Err(failed("look at")(source)),
        Ok(found) if !found.file_type().is_socket() => return Err(Error::NoSocket { socket }),
        Ok(_) => {}
    }
    match UnixStream::connect(path).await {
        Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => {
            fs::remove_file(path).map_err(failed("remove the socket that was left at"))
        }
        Err(source) => Err(failed("probe for a server on")(source)),
        Ok(_) => Err(Error::Taken { socket }),
    }
}

fn inode(path: &Path) -> io::Result<(u64, u64)> {
    fs::symlink_metadata(path).map(|found| (found.dev(), found.ino()))
}

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use monitor::packet::{self, Received};
use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, listen, socket_with,
};
use rustix::process::umask;

use crate::peer;

/// The socket on which an engine hands over the terminal of a container.
#[derive(Debug)]
pub(crate) struct Console {
    listener: OwnedFd,
    path: PathBuf,
    engine: Option<OwnedFd>,
}

impl Console {
    pub(crate) fn bind(run_dir: &Path) -> Result<Self, String> {
        let path = run_dir.join("console.sock");
        let listener = listener(&path, SocketType::STREAM)
            .map_err(|errno| format!("cannot listen at {}: {errno}", path.display()))?;
        Ok(Self { listener, path, engine: None })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The terminal, if it has arrived.
    pub(crate) fn take(&mut self) -> Option<OwnedFd> {
        if self.engine.is_none() {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            self.engine = accept_with(&self.listener, flags).ok().filter(|engine| peer::is_ours(engine));
        }
        match packet::receive(self.engine.as_ref()?) {
            Ok(Received::Packet(packet)) => packet.descriptors.into_iter().next(),
            Ok(Received::Nothing) => None,
            Ok(Received::Oversized | Received::End) | Err(_) => {
                self.engine = None;
                None
            }
        }
    }
}

impl AsFd for Console {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.engine.as_ref().unwrap_or(&self.listener).as_fd()
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        // A later one of this name is made after removing what is there.
        let _ = rustix::fs::unlink(&self.path);
    }
}

/// A socket at `path` that only the same user may connect to.
pub(crate) fn listener(path: &Path, kind: SocketType) -> Result<OwnedFd, Errno> {
    match rustix::fs::unlink(path) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(errno) => return Err(errno),
    }
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, kind, flags, None)?;
    let before = umask(Mode::XUSR | Mode::RWXG | Mode::RWXO);
    let bound = SocketAddrUnix::new(path).and_then(|address| bind(&socket, &address));
    umask(before);
    bound?;
    listen(&socket, 64)?;
    Ok(socket)
}

//! Work in a given network namespace, on threads of its own: no thread of the async runtime ever changes its
//! namespace.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::thread;

use rustix::fs::{Mode, OFlags};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use tokio::sync::oneshot;

use crate::error::{Error, Result};

/// A network namespace, held open.
#[derive(Debug)]
pub(crate) struct Netns {
    fd: OwnedFd,
    path: PathBuf,
}

impl Netns {
    /// Opens the one at a path.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let fd = rustix::fs::open(path, flags, Mode::empty()).map_err(|errno| Error::Namespace {
            step: "open",
            path: path.to_owned(),
            errno,
        })?;
        Ok(Self { fd, path: path.to_owned() })
    }

    /// Opens that of the calling thread.
    pub(crate) fn of_this_thread() -> Result<Self> {
        Self::open(Path::new("/proc/thread-self/ns/net"))
    }

    /// Runs the work in it, on a thread that ends with the work.
    pub(crate) fn run<T: Send>(&self, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        let inside = || {
            self.enter()?;
            work()
        };
        thread::scope(|scope| {
            let thread = thread::Builder::new().spawn_scoped(scope, inside).map_err(no_thread)?;
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Moves the calling thread into it; the thread must end with its work there. The kernel refuses a descriptor that
    /// is not a network namespace.
    pub(crate) fn enter(&self) -> Result<()> {
        move_into_link_name_space(self.fd.as_fd(), Some(LinkNameSpaceType::Network))
            .map_err(|errno| Error::Namespace { step: "enter", path: self.path.clone(), errno })
    }
}

impl AsFd for Netns {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Runs blocking work on a thread of its own. The work runs to its end also if the caller stops waiting for it.
pub(crate) async fn apart<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    let (tell, told) = oneshot::channel();
    let body = move || drop(tell.send(work()));
    thread::Builder::new().name("network".to_owned()).spawn(body).map_err(no_thread)?;
    told.await.unwrap_or_else(|_| Err(Error::Thread { cause: "it ended without a result".to_owned() }))
}

#[allow(clippy::needless_pass_by_value, reason = "the form that map_err takes")]
fn no_thread(error: std::io::Error) -> Error {
    Error::Thread { cause: error.to_string() }
}

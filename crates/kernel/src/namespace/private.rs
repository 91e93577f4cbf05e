use std::marker::PhantomData;
use std::os::fd::{AsFd, OwnedFd};
use std::thread;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{MountPropagationFlags, mount_change};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};

use crate::{Error, Result};

/// The calling thread in a mount namespace of its own, until dropped or left.
///
/// Mounts and unmounts of the host arrive here, none made here reaches the host; the kernel removes
/// all of them with the last process inside, however that ends. Processes started by this thread are
/// inside; other threads are not. Working directory, root and umask are this thread's own from then
/// on; the working directory becomes the root when it leaves.
#[derive(Debug)]
pub struct PrivateMountNamespace {
    home: OwnedFd,
    /// Only the thread that came in can leave.
    not_send: PhantomData<*const ()>,
}

impl PrivateMountNamespace {
    /// Takes the calling thread into a new one.
    pub fn enter() -> Result<Self> {
        let home = rustix::fs::open("/proc/thread-self/ns/mnt", OFlags::CLOEXEC, Mode::empty())
            .map_err(|errno| Error::Open { path: "/proc/thread-self/ns/mnt".into(), errno })?;
        // SAFETY: the file descriptor table, the one thing that would not be safe, stays shared.
        unsafe { unshare_unsafe(UnshareFlags::NEWNS | UnshareFlags::FS) }
            .map_err(failed("make a mount namespace"))?;
        let inside = Self { home, not_send: PhantomData };
        mount_change("/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)
            .map_err(failed("keep new mounts from the host"))?;
        Ok(inside)
    }

    /// Takes the thread back to where it came from.
    pub fn leave(self) -> Result<()> {
        self.go_home()
    }

    fn go_home(&self) -> Result<()> {
        move_into_link_name_space(self.home.as_fd(), Some(LinkNameSpaceType::Mount))
            .map_err(failed("return to the host's mount namespace"))
    }
}

impl Drop for PrivateMountNamespace {
    /// An error here leaves the thread inside, which has no further effect; `leave` reports it.
    fn drop(&mut self) {
        let _ = self.go_home();
    }
}

/// Runs `work` on a thread of its own in a mount namespace of its own, which ends with it.
pub fn in_private_mount_namespace<T, F>(work: F) -> Result<T>
where
    F: FnOnce(&PrivateMountNamespace) -> T + Send,
    T: Send,
{
    let inside = || {
        let namespace = PrivateMountNamespace::enter()?;
        Ok(work(&namespace))
    };
    thread::scope(|scope| {
        let thread = thread::Builder::new()
            .spawn_scoped(scope, inside)
            .map_err(|error| Error::Thread { cause: error.to_string() })?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn failed(step: &'static str) -> impl Fn(Errno) -> Error {
    move |errno| Error::MountNamespace { step, errno }
}

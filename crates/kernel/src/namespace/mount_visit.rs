use std::os::fd::AsFd;
use std::path::Path;
use std::thread;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};

use super::Process;
use crate::path::Dir;
use crate::{Error, Result};

/// Runs `work` on a thread of its own in the mount namespace of `process`, with the root of that namespace. The root
/// of the process itself does not count: a process can change that by chroot(2).
pub fn in_mount_namespace_of<T, F>(process: &Process, work: F) -> Result<T>
where
    F: FnOnce(&Dir) -> T + Send,
    T: Send,
{
    let path = format!("/proc/{}/ns/mnt", process.pid());
    let namespace = rustix::fs::open(&path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
        .map_err(|errno| Error::Open { path: path.into(), errno })?;
    // Still running: its PID was not reused before the namespace was opened.
    if !process.is_running()? {
        return Err(Error::Process { step: "join", pid: process.pid(), errno: Errno::SRCH });
    }
    let inside = || {
        // SAFETY: the file descriptor table, the one thing that would not be safe, stays shared.
        unsafe { unshare_unsafe(UnshareFlags::FS) }.map_err(failed("have a root of this thread's own"))?;
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Mount))
            .map_err(failed("join the container's mount namespace"))?;
        Ok(work(&Dir::open(Path::new("/"))?))
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

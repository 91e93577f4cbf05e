//! A FUSE filesystem with one empty directory that cannot be idmapped, mounted where only the test sees it.

use std::path::Path;

use rustix::mount::{UnmountFlags, unmount};
use testkit::fuse::Fuse;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Server {
    Answers,
    /// It takes no request, as one that was stopped.
    Hangs,
}

/// Does `work` while the filesystem is mounted at `fuse` in `dir`; children of this thread see it.
pub(crate) fn mounted<T>(dir: &Path, server: Server, work: impl FnOnce() -> T + Send) -> T
where
    T: Send,
{
    let point = dir.join("fuse");
    std::fs::create_dir(&point).unwrap();
    let fuse = Fuse::open();
    kernel::in_private_mount_namespace(|_| {
        fuse.mount(&point, "");
        let served = (server == Server::Answers).then(|| fuse.serve());
        let done = work();
        unmount(&point, UnmountFlags::DETACH).unwrap();
        drop(served);
        done
    })
    .unwrap()
}

//! Watches on directories, by inotify.

use std::ffi::OsString;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;
use tokio::io::unix::AsyncFd;

/// Reports changes in the watched directories. Must be created within a tokio runtime.
pub(crate) struct Watch(AsyncFd<OwnedFd>);

/// An event in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    /// The watch descriptor of the directory.
    pub(crate) watch: i32,
    /// The entry's name; none if the event is about the directory, or if events were lost.
    pub(crate) name: Option<OsString>,
    /// What happened.
    pub(crate) kind: SeenKind,
}

/// What happened to an entry of a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SeenKind {
    /// A file is being written.
    Writing,
    /// A file that was open for writing was closed.
    Closed,
    /// An entry appeared, disappeared or was renamed, or the directory did; or events were lost.
    Other,
}

impl Watch {
    /// A watch without directories.
    pub(crate) fn new() -> io::Result<Self> {
        let fd = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        #[expect(
            deprecated,
            reason = "unsound only for types that can replace their descriptor; OwnedFd cannot"
        )]
        let registered = AsyncFd::new(fd)?;
        Ok(Self(registered))
    }

    /// Watches for files that are moved into this directory.
    pub(crate) fn on(dir: &Path) -> io::Result<Self> {
        let watch = Self::new()?;
        watch.add(dir, WatchFlags::MOVED_TO | WatchFlags::ONLYDIR)?;
        Ok(watch)
    }

    /// Adds a directory to the watch, and returns its watch descriptor: that of a directory that is already
    /// watched is the same as before.
    pub(crate) fn add(&self, dir: &Path, flags: WatchFlags) -> io::Result<i32> {
        Ok(inotify::add_watch(&self.0, dir, flags)?)
    }

    /// Waits for events, and returns all since the last call. Cancel safe.
    pub(crate) async fn changed(&self) -> io::Result<Vec<Seen>> {
        loop {
            let mut guard = self.0.readable().await?;
            let seen = read_all(self.0.get_ref())?;
            guard.clear_ready();
            if !seen.is_empty() {
                return Ok(seen);
            }
        }
    }
}

fn read_all(fd: &OwnedFd) -> io::Result<Vec<Seen>> {
    let mut buffer = [MaybeUninit::uninit(); 4096];
    let mut reader = inotify::Reader::new(fd, &mut buffer);
    let mut all = Vec::new();
    loop {
        match reader.next() {
            Ok(event) => {
                let name = event.file_name().map(|name| OsString::from_vec(name.to_bytes().to_vec()));
                let kind = match event.events() {
                    events if events.contains(ReadFlags::CLOSE_WRITE) => SeenKind::Closed,
                    events if events.contains(ReadFlags::MODIFY) => SeenKind::Writing,
                    _ => SeenKind::Other,
                };
                all.push(Seen { watch: event.wd(), name, kind });
            }
            Err(Errno::INTR) => {}
            Err(Errno::WOULDBLOCK) => return Ok(all),
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_file_that_is_moved_into_place_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let watch = Watch::on(dir.path()).unwrap();
        std::fs::write(dir.path().join("new"), "x").unwrap();
        std::fs::rename(dir.path().join("new"), dir.path().join("stop.json")).unwrap();
        let seen = watch.changed().await.unwrap();
        assert!(matches!(&seen[..], [Seen { kind: SeenKind::Other, .. }]), "{seen:?}");
    }

    #[tokio::test]
    async fn a_file_that_is_written_is_told_from_one_that_is_whole() {
        let dir = tempfile::tempdir().unwrap();
        let watch = Watch::new().unwrap();
        let id = watch.add(dir.path(), WatchFlags::MODIFY | WatchFlags::CLOSE_WRITE).unwrap();
        std::fs::write(dir.path().join("a"), "x").unwrap();
        let seen = |kind| Seen { watch: id, name: Some(OsString::from("a")), kind };
        assert_eq!(watch.changed().await.unwrap(), [seen(SeenKind::Writing), seen(SeenKind::Closed)]);
    }
}

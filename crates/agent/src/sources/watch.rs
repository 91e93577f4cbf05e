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

/// About how many events a call returns. A process that writes to a directory without a pause must neither keep the reader
/// from its other work nor grow its memory; what the kernel's queue cannot hold is reported as lost.
const MOST: usize = 1024;

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

    /// Waits for events, and returns those since the last call, or the first of very many. Cancel safe.
    pub(crate) async fn changed(&self) -> io::Result<Vec<Seen>> {
        loop {
            let mut guard = self.0.readable().await?;
            let Batch { seen, queue } = read(self.0.get_ref())?;
            match queue {
                Queue::Empty => guard.clear_ready(),
                Queue::MayHaveMore => guard.retain_ready(),
            }
            if !seen.is_empty() {
                return Ok(seen);
            }
        }
    }
}

/// Events that were read.
struct Batch {
    seen: Vec<Seen>,
    queue: Queue,
}

/// The kernel's queue of events after a read.
enum Queue {
    Empty,
    MayHaveMore,
}

fn read(fd: &OwnedFd) -> io::Result<Batch> {
    let mut buffer = [MaybeUninit::uninit(); 4096];
    let mut reader = inotify::Reader::new(fd, &mut buffer);
    let mut seen = Vec::new();
    // An event that is left in the buffer would be lost.
    while seen.len() < MOST || !reader.is_buffer_empty() {
        match reader.next() {
            Ok(event) => {
                let name = event.file_name().map(|name| OsString::from_vec(name.to_bytes().to_vec()));
                let kind = match event.events() {
                    events if events.contains(ReadFlags::CLOSE_WRITE) => SeenKind::Closed,
                    events if events.contains(ReadFlags::MODIFY) => SeenKind::Writing,
                    _ => SeenKind::Other,
                };
                seen.push(Seen { watch: event.wd(), name, kind });
            }
            Err(Errno::INTR) => {}
            Err(Errno::WOULDBLOCK) => return Ok(Batch { seen, queue: Queue::Empty }),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(Batch { seen, queue: Queue::MayHaveMore })
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

    #[tokio::test]
    async fn very_many_events_come_in_several_batches() {
        let dir = tempfile::tempdir().unwrap();
        let watch = Watch::new().unwrap();
        watch.add(dir.path(), WatchFlags::CREATE | WatchFlags::DELETE).unwrap();
        let names: Vec<_> = (0..3 * MOST).map(|number| dir.path().join(number.to_string())).collect();
        for name in &names {
            std::fs::write(name, "").unwrap();
        }
        let mut seen = Vec::new();
        while seen.len() < names.len() {
            let batch = watch.changed().await.unwrap();
            assert!(batch.len() < 2 * MOST, "{}", batch.len());
            seen.extend(batch);
        }
        let last = seen.last().and_then(|seen| seen.name.clone());
        assert_eq!(last.as_deref(), names.last().and_then(|name| name.file_name()));
    }
}

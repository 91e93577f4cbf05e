//! Others' wishes for a pod, left in its directory.

use std::io;
use std::mem::MaybeUninit;
use std::path::Path;
use std::sync::{Arc, Weak};

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;
use tokio::sync::Notify;

/// Tells when something new appears in a directory.
pub(crate) struct Watch(Arc<Notify>);

impl Watch {
    /// A thread waits for it, and ends with the directory.
    pub(crate) fn on(dir: &Path) -> io::Result<Self> {
        let fd = inotify::init(CreateFlags::CLOEXEC)?;
        inotify::add_watch(&fd, dir, WatchFlags::MOVED_TO | WatchFlags::ONLYDIR)?;
        let bell = Arc::new(Notify::new());
        let rung = Arc::downgrade(&bell);
        std::thread::Builder::new().name("requests".to_owned()).spawn(move || {
            let mut buffer = [MaybeUninit::uninit(); 4096];
            wait(&mut inotify::Reader::new(fd, &mut buffer), &rung);
        })?;
        Ok(Self(bell))
    }

    /// Something has; what is for the caller to see.
    pub(crate) async fn changed(&self) {
        self.0.notified().await;
    }
}

fn wait<Fd: std::os::fd::AsFd>(reader: &mut inotify::Reader<'_, Fd>, bell: &Weak<Notify>) {
    loop {
        let is_over = match reader.next() {
            // The directory is gone.
            Ok(event) => event.events().contains(ReadFlags::IGNORED),
            Err(Errno::INTR) => continue,
            Err(_) => true,
        };
        match bell.upgrade() {
            Some(bell) if !is_over => bell.notify_one(),
            _ => return,
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
        watch.changed().await;
    }
}

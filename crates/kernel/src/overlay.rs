use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsconfig_set_fd, fsmount, fsopen,
};

use crate::error::OverlayStep;
use crate::{DetachedMount, Error, Result};

/// The longest message that the kernel keeps about a filesystem being made fits several times.
const LOG_MESSAGE: usize = 4096;

/// An overlay to be made. Its lower layers have no mount points, so there are none to leak.
#[derive(Debug, Clone, Copy)]
pub struct Overlay<'a> {
    /// The layers below, the topmost first.
    pub lowers: &'a [DetachedMount],
    /// The directory that takes all changes. Not idmapped: its root must be owned by the host IDs
    /// of the container's root before the overlay is made.
    pub upper: &'a Path,
    /// An empty directory on the filesystem of `upper`.
    pub work: &'a Path,
}

impl Overlay<'_> {
    /// Makes it.
    pub fn make(&self) -> Result<DetachedMount> {
        let context = fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC)
            .map_err(|errno| self.failed(OverlayStep::Open, errno, vec![]))?;
        for lower in self.lowers {
            self.set(&context, "lowerdir+", lower.as_fd())?;
        }
        // By descriptor too: as text, a path ends at 255 bytes and backslashes have a meaning.
        self.set(&context, "upperdir", directory(self.upper)?.as_fd())?;
        self.set(&context, "workdir", directory(self.work)?.as_fd())?;
        fsconfig_create(&context).map_err(|errno| self.failed(OverlayStep::Create, errno, log(&context)))?;
        let mount = fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())
            .map_err(|errno| self.failed(OverlayStep::Mount, errno, log(&context)))?;
        Ok(DetachedMount::new(mount, format!("the overlay over {}", self.upper.display())))
    }

    fn set(&self, context: &OwnedFd, key: &'static str, layer: BorrowedFd<'_>) -> Result<()> {
        fsconfig_set_fd(context, key, layer)
            .map_err(|errno| self.failed(OverlayStep::Layer(key), errno, log(context)))
    }

    fn failed(&self, step: OverlayStep, errno: Errno, log: Vec<String>) -> Error {
        Error::Overlay { upper: self.upper.to_owned(), step, errno, log }
    }
}

fn directory(path: &Path) -> Result<OwnedFd> {
    rustix::fs::open(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        .map_err(|errno| Error::Open { path: path.to_owned(), errno })
}

/// What the kernel wrote about the filesystem being made: one message per read, then ENODATA.
fn log(context: &OwnedFd) -> Vec<String> {
    let mut messages = vec![];
    let mut buffer = [0u8; LOG_MESSAGE];
    while let Ok(length) = rustix::io::read(context, &mut buffer) {
        let Some(text) = buffer.get(..length).filter(|text| !text.is_empty()) else { break };
        messages.push(message(&String::from_utf8_lossy(text)));
    }
    messages
}

/// A message without the mark of its severity ("e ", "w " or "i ").
fn message(raw: &str) -> String {
    let text = raw.trim_end();
    let marked = ["e ", "w ", "i "].iter().find_map(|mark| text.strip_prefix(mark));
    marked.unwrap_or(text).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mark_of_severity_is_left_out() {
        assert_eq!(message("e overlay: bad\n"), "overlay: bad");
        assert_eq!(message("overlay: bad"), "overlay: bad");
    }
}

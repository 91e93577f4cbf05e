use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, fsconfig_create, fsconfig_set_fd, fsmount, fsopen,
    mount,
};

use crate::error::{LOWER_BY_DESCRIPTOR, OverlayStep};
use crate::mount::clone_mount;
use crate::mount_points::{self, MountPoints};
use crate::{DetachedMount, Error, Result, Submounts};

/// The longest message that the kernel keeps about a filesystem being made fits several times.
const LOG_MESSAGE: usize = 4096;

/// An overlay to be made. The layers below are used up by it, whichever way they are given to the
/// kernel, and no mount of them is left at any path.
#[derive(Debug)]
pub struct Overlay<'a> {
    /// The layers below, the topmost first.
    pub lowers: Vec<DetachedMount>,
    /// The directory that takes all changes. Not idmapped: its root must be owned by the host IDs
    /// of the container's root before the overlay is made.
    pub upper: &'a Path,
    /// An empty directory on the filesystem of `upper`.
    pub work: &'a Path,
}

/// How the kernel was given the layers below.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LayersGiven {
    /// As they are, attached nowhere. Taken by Linux 6.13 and later.
    ByDescriptor,
    /// Attached to mount points for as long as the overlay was being made. Such an overlay shows
    /// its layers in mountinfo as descriptors of its maker, which lead nowhere later.
    ByMountPoint,
}

impl fmt::Display for LayersGiven {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ByDescriptor => "by descriptor",
            Self::ByMountPoint => "by mount point",
        })
    }
}

impl Overlay<'_> {
    /// Makes it by descriptor where the kernel takes layers so, else by mount point. Each call tries
    /// anew: the kernel's answer decides, not its version.
    pub fn make(self, points: MountPoints<'_>) -> Result<(DetachedMount, LayersGiven)> {
        match self.try_by_descriptor() {
            Ok(overlay) => Ok((overlay, LayersGiven::ByDescriptor)),
            Err(refusal) if refusal.is_of_layers_by_descriptor() => {
                Ok((self.make_by_mount_point(points)?, LayersGiven::ByMountPoint))
            }
            Err(error) => Err(error),
        }
    }

    /// Makes it without any mount point, or not at all.
    pub fn make_by_descriptor(self) -> Result<DetachedMount> {
        self.try_by_descriptor()
    }

    /// Makes it with mount points for the layers, also where the kernel can do without.
    pub fn make_by_mount_point(self, points: MountPoints<'_>) -> Result<DetachedMount> {
        // Opened before anything is covered: they may lie below the mount points.
        let (upper, work) = (directory(self.upper)?, directory(self.work)?);
        let lowers: Vec<_> = self.lowers.iter().map(AsFd::as_fd).collect();
        let options = mount_points::options(&lowers, upper.as_fd(), work.as_fd())
            .ok_or_else(|| Error::TooManyLayers { upper: self.upper.to_owned(), layers: lowers.len() })?;
        points.cover(|cover| {
            for (number, lower) in self.lowers.iter().enumerate() {
                lower.attach_to(&cover.point(number)?)?;
            }
            let merged = cover.point("merged")?;
            mount("overlay", &merged, "overlay", MountFlags::empty(), options.as_c_str())
                .map_err(|errno| self.failed(OverlayStep::Mount, errno, vec![]))?;
            // The overlay has clones of the layers' mounts, and outlives theirs and its own here.
            Ok(DetachedMount::new(clone_mount(&merged, Submounts::Without)?, self.name()))
        })
    }

    fn try_by_descriptor(&self) -> Result<DetachedMount> {
        let context = fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC)
            .map_err(|errno| self.failed(OverlayStep::Open, errno, vec![]))?;
        for lower in &self.lowers {
            self.set(&context, LOWER_BY_DESCRIPTOR, lower.as_fd())?;
        }
        // By descriptor too: as text, a path ends at 255 bytes and backslashes have a meaning.
        self.set(&context, "upperdir", directory(self.upper)?.as_fd())?;
        self.set(&context, "workdir", directory(self.work)?.as_fd())?;
        fsconfig_create(&context).map_err(|errno| self.failed(OverlayStep::Create, errno, log(&context)))?;
        let mount = fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())
            .map_err(|errno| self.failed(OverlayStep::Mount, errno, log(&context)))?;
        Ok(DetachedMount::new(mount, self.name()))
    }

    fn set(&self, context: &OwnedFd, key: &'static str, layer: BorrowedFd<'_>) -> Result<()> {
        fsconfig_set_fd(context, key, layer)
            .map_err(|errno| self.failed(OverlayStep::Layer(key), errno, log(context)))
    }

    fn name(&self) -> String {
        format!("the overlay over {}", self.upper.display())
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

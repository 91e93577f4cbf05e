use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, fsconfig_create, fsconfig_set_fd,
    fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen, mount,
};

use super::detached::tree;
use super::points::{self, AfterUse, MountPoints};
use super::{DetachedMount, FsOption, Submounts, Target, fs_log};
use crate::error::{LOWER_BY_DESCRIPTOR, OverlayStep};
use crate::{Error, Result};

/// The setting that labels all files.
const CONTEXT: &str = "context";

/// An overlay to be made. The layers below are used up by it, whichever way they are given to the
/// kernel, and no mount of them is left at any path, unless that is asked for.
#[derive(Debug)]
pub struct Overlay<'a> {
    /// The layers below, the topmost first.
    pub lowers: Vec<DetachedMount>,
    /// The directory that takes all changes. Not idmapped: its root must be owned by the host IDs
    /// of the container's root before the overlay is made.
    pub upper: &'a Path,
    /// An empty directory on the filesystem of `upper`.
    pub work: &'a Path,
    /// One SELinux label for all files that are seen through it. It is checked in mountinfo when the overlay is
    /// attached; a mount without it is unmounted again.
    pub label: Option<&'a str>,
    /// Further settings, such as `index=off`. A `context` among them is as good as the label.
    pub options: &'a [FsOption],
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
        match self.by_descriptor() {
            Ok(overlay) => {
                if points.after == AfterUse::Left {
                    self.lowers.iter().try_for_each(|lower| lower.attach_to(Target::Path(points.dir)))?;
                }
                Ok((overlay, LayersGiven::ByDescriptor))
            }
            Err(refusal) if refusal.is_of_layers_by_descriptor() => {
                Ok((self.by_mount_point(points)?, LayersGiven::ByMountPoint))
            }
            Err(error) => Err(error),
        }
    }

    /// Makes it without any mount point, or not at all.
    pub fn make_by_descriptor(self) -> Result<DetachedMount> {
        self.by_descriptor()
    }

    /// Makes it with mount points for the layers, also where the kernel can do without.
    pub fn make_by_mount_point(self, points: MountPoints<'_>) -> Result<DetachedMount> {
        self.by_mount_point(points)
    }

    fn by_mount_point(&self, points: MountPoints<'_>) -> Result<DetachedMount> {
        // Opened before anything is covered: they may lie below the mount points.
        let (upper, work) = (directory(self.upper)?, directory(self.work)?);
        let lowers: Vec<_> = self.lowers.iter().map(AsFd::as_fd).collect();
        let layers = points::Layers { lowers: &lowers, upper: upper.as_fd(), work: work.as_fd() };
        let options = layers
            .options(self.settings(), self.label())
            .ok_or_else(|| Error::TooManyLayers { upper: self.upper.to_owned(), layers: lowers.len() })?;
        points.cover(|cover| {
            for (number, lower) in self.lowers.iter().enumerate() {
                lower.attach_to(Target::Path(&cover.point(number)?))?;
            }
            let merged = cover.point("merged")?;
            mount("overlay", &merged, "overlay", MountFlags::empty(), options.as_c_str())
                .map_err(|errno| self.failed(OverlayStep::Mount, errno, vec![]))?;
            // The overlay has clones of the layers' mounts, and outlives theirs and its own here.
            let clone = tree(CWD, &merged, Submounts::Without)
                .map_err(|errno| Error::CloneMount { path: merged.clone(), errno })?;
            Ok(DetachedMount::new(clone, self.name()).labelled(self.label()))
        })
    }

    fn by_descriptor(&self) -> Result<DetachedMount> {
        let context = fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC)
            .map_err(|errno| self.failed(OverlayStep::Open, errno, vec![]))?;
        for lower in &self.lowers {
            self.set(&context, LOWER_BY_DESCRIPTOR, lower.as_fd())?;
        }
        // By descriptor too: as text, a path ends at 255 bytes and backslashes have a meaning.
        self.set(&context, "upperdir", directory(self.upper)?.as_fd())?;
        self.set(&context, "workdir", directory(self.work)?.as_fd())?;
        for option in self.settings() {
            match &option.value {
                Some(value) => fsconfig_set_string(&context, option.key.as_str(), value.as_str()),
                None => fsconfig_set_flag(&context, option.key.as_str()),
            }
            .map_err(|errno| self.failed(OverlayStep::Setting, errno, fs_log(&context)))?;
        }
        if let Some(label) = self.label() {
            fsconfig_set_string(&context, CONTEXT, label)
                .map_err(|errno| self.failed(OverlayStep::Label, errno, fs_log(&context)))?;
        }
        fsconfig_create(&context)
            .map_err(|errno| self.failed(OverlayStep::Create, errno, fs_log(&context)))?;
        let mount = fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())
            .map_err(|errno| self.failed(OverlayStep::Mount, errno, fs_log(&context)))?;
        Ok(DetachedMount::new(mount, self.name()).labelled(self.label()))
    }

    fn set(&self, context: &OwnedFd, key: &'static str, layer: BorrowedFd<'_>) -> Result<()> {
        fsconfig_set_fd(context, key, layer)
            .map_err(|errno| self.failed(OverlayStep::Layer(key), errno, fs_log(context)))
    }

    fn label(&self) -> Option<&str> {
        let among = || self.options.iter().find(|option| option.key == CONTEXT)?.value.as_deref();
        self.label.or_else(among)
    }

    fn settings(&self) -> impl Iterator<Item = &FsOption> {
        self.options.iter().filter(|option| option.key != CONTEXT)
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

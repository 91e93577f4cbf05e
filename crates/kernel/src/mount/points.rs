use std::ffi::CString;
use std::fmt::Display;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::path::{Path, PathBuf};

use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};

use super::FsOption;
use super::filesystem::{self, LONGEST_OPTIONS};
use crate::{Error, PrivateMountNamespace, Result};

/// Where layers may be attached while an overlay is made of them.
#[derive(Debug, Clone, Copy)]
pub struct MountPoints<'a> {
    /// A directory, covered for the moment: what is in it stays, and nothing is added to it.
    pub dir: &'a Path,
    /// The proof that the host sees none of them, and that no crash leaves any behind.
    pub namespace: &'a PrivateMountNamespace,
    pub(super) after: AfterUse,
}

/// What becomes of the layers' mounts once the overlay has its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AfterUse {
    TakenAway,
    Left,
}

impl<'a> MountPoints<'a> {
    /// At `dir`, with nothing left there.
    #[must_use]
    pub fn new(dir: &'a Path, namespace: &'a PrivateMountNamespace) -> Self {
        Self { dir, namespace, after: AfterUse::TakenAway }
    }

    /// Leaves layers that were given by descriptor attached at the directory, on top of each other, for the end
    /// of the namespace to take away: the kernel waits for all processors with each mount that is taken away
    /// alone, and once for a whole namespace.
    #[must_use]
    pub fn leaving_layers(self) -> Self {
        Self { after: AfterUse::Left, ..self }
    }

    /// Runs `work` with a small filesystem over the directory, then takes that off with all that was
    /// mounted in it, whatever came of the work.
    pub(crate) fn cover<T>(self, work: impl FnOnce(Cover<'a>) -> Result<T>) -> Result<T> {
        let cover = Cover { dir: self.dir };
        let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
        rustix::mount::mount("tmpfs", self.dir, "tmpfs", flags, c"mode=0700")
            .map_err(|errno| cover.failed(errno))?;
        let outcome = work(cover);
        let lifted =
            rustix::mount::unmount(self.dir, UnmountFlags::DETACH).map_err(|errno| cover.failed(errno));
        let value = outcome?;
        lifted.map(|()| value)
    }
}

/// The small filesystem that the mount points are in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cover<'a> {
    dir: &'a Path,
}

impl Cover<'_> {
    pub(crate) fn point(&self, name: impl Display) -> Result<PathBuf> {
        let path = self.dir.join(name.to_string());
        rustix::fs::mkdir(&path, Mode::RWXU).map_err(|errno| self.failed(errno))?;
        Ok(path)
    }

    fn failed(&self, errno: Errno) -> Error {
        Error::MountPoints { dir: self.dir.to_owned(), errno }
    }
}

/// An overlay's layers, open.
pub(super) struct Layers<'a> {
    pub(super) lowers: &'a [BorrowedFd<'a>],
    pub(super) upper: BorrowedFd<'a>,
    pub(super) work: BorrowedFd<'a>,
}

impl Layers<'_> {
    /// The options as mount(2) takes them, if they fit. Layers are named by descriptor, so no path is
    /// too long and none needs escapes, of which kernels have had different ideas.
    pub(super) fn options<'a>(
        &self,
        settings: impl Iterator<Item = &'a FsOption>,
        label: Option<&str>,
    ) -> Option<CString> {
        let lowers: Vec<String> = self.lowers.iter().copied().map(through_proc).collect();
        // In quotes, so that its commas are its own; it can have none of those itself.
        let label = match label {
            Some(label) if label.contains('"') => return None,
            Some(label) => format!(",context=\"{label}\""),
            None => String::new(),
        };
        let mut text = format!(
            "lowerdir={},upperdir={},workdir={}{label}",
            lowers.join(":"),
            through_proc(self.upper),
            through_proc(self.work)
        );
        for option in settings {
            let word = filesystem::text(option);
            // A comma would begin another setting.
            if word.contains(',') {
                return None;
            }
            text.push(',');
            text.push_str(&word);
        }
        CString::new(text).ok().filter(|text| text.as_bytes().len() <= LONGEST_OPTIONS)
    }
}

fn through_proc(layer: BorrowedFd<'_>) -> String {
    format!("/proc/thread-self/fd/{}", layer.as_raw_fd())
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn options_that_mount_would_cut_off_are_refused() {
        let file = File::open("/dev/null").unwrap();
        let fd = file.as_fd();
        let longest = |layers: usize| {
            Layers { lowers: &vec![fd; layers], upper: fd, work: fd }.options([].into_iter(), None)
        };
        // More than the 128 that images have at most, with any number of digits up to three.
        assert!(longest(140).is_some());
        assert!(longest(200).is_none());
    }
}

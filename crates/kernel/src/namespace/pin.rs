use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags, fstatfs};
use rustix::io::Errno;

use super::{Namespace, NamespaceId};
use crate::mount::{DetachedMount, Source, Submounts, Target, Unmount, unmount};
use crate::{Error, Result};

/// The magic number of the filesystem that namespaces are files of ("nsfs").
const NSFS: i64 = 0x6e73_6673;

impl Namespace {
    /// Keeps it alive at `path`, also when this process is gone: a file that is made if there is none.
    /// That it is pinned there already is fine; that another one is, is not.
    ///
    /// The path must be on a mount that is private, or every mount namespace would get a pin of its own.
    pub fn pin(&self, path: &Path) -> Result<()> {
        let failed = |errno| Error::Pin { path: path.to_owned(), errno };
        let flags = OFlags::CREATE | OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::open(path, flags, Mode::RUSR).map_err(failed)?;
        if is_namespace(&file).map_err(failed)? {
            let same = NamespaceId::of(file.as_fd()).map_err(failed)? == self.id();
            return if same { Ok(()) } else { Err(failed(Errno::EXIST)) };
        }
        DetachedMount::clone_of(Source::Node(self.as_fd()), Submounts::Without)?
            .attach_to(Target::Node(file.as_fd()))
    }

    /// Takes a pin away, with its file. A missing one is no error. Only namespaces are unmounted, and a file
    /// that is no pin is only removed if it is empty.
    pub fn unpin(path: &Path) -> Result<()> {
        while is_pin(path)? {
            match unmount(path, Unmount::Lazy) {
                Ok(()) | Err(Error::NotMounted { .. } | Error::Unmount { errno: Errno::NOENT, .. }) => {}
                Err(error) => return Err(error),
            }
        }
        match std::fs::symlink_metadata(path) {
            Ok(meta) if meta.is_file() && meta.len() == 0 => match rustix::fs::unlink(path) {
                Ok(()) | Err(Errno::NOENT) => Ok(()),
                Err(errno) => Err(Error::Remove { path: path.to_owned(), errno }),
            },
            Ok(_) => {
                Err(Error::OtherPin { path: path.to_owned(), found: "it is not an empty file".to_owned() })
            }
            Err(_) => Ok(()),
        }
    }
}

fn is_pin(path: &Path) -> Result<bool> {
    let failed = |errno| Error::Open { path: path.to_owned(), errno };
    match rustix::fs::open(path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty()) {
        Ok(file) => is_namespace(&file).map_err(failed),
        Err(Errno::NOENT) => Ok(false),
        Err(errno) => Err(failed(errno)),
    }
}

/// Whether this is a namespace, and not the file that one was pinned over.
pub(crate) fn is_namespace(file: &OwnedFd) -> std::result::Result<bool, Errno> {
    Ok(fstatfs(file)?.f_type == NSFS)
}

use std::path::Path;

use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use serde::Serialize;

use crate::{Error, Result};

/// How to unmount.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Unmount {
    /// At once; an error if it is in use.
    Now,
    /// Detaches the mount at once, with all mounts below it; each is freed when its last user is gone.
    Lazy,
}

/// Unmounts the mount at `point`. A last component that is a symbolic link is not followed.
pub fn unmount(point: &Path, how: Unmount) -> Result<()> {
    let lazily = match how {
        Unmount::Now => UnmountFlags::empty(),
        Unmount::Lazy => UnmountFlags::DETACH,
    };
    rustix::mount::unmount(point, UnmountFlags::NOFOLLOW | lazily).map_err(|errno| match errno {
        Errno::INVAL => Error::NotMounted { path: point.to_owned() },
        errno => Error::Unmount { path: point.to_owned(), errno },
    })
}

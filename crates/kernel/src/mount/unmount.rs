use std::path::Path;

use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use serde::Serialize;

use crate::{Error, Result};

/// How a mount is taken away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Unmount {
    /// At once, or not at all if it is in use.
    Now,
    /// From the tree at once, with all mounted below it; each is gone when nobody uses it any more.
    Lazy,
}

/// Takes away the mount at `point`. A last component that is a symbolic link is not followed.
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

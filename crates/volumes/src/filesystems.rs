//! The filesystems that volumes are made on.

use kernel::{DetachedMount, Filesystem, FilesystemKind, FsOption, Kernel, Owner};

use crate::error::Result;
use crate::kinds::{EmptyDir, Medium};
use crate::wanted::Source;

/// Every user may write, as in any new tmpfs, and remove only files of its own.
const TMPFS_MODE: u32 = 0o1777;
/// The mode of a volume's directory on disk.
const DISK_MODE: u32 = 0o777;

/// The filesystem of a volume's directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Base {
    /// A directory on the node's disk.
    Disk {
        mode: u32,
    },
    /// A tmpfs, not swapped out where the kernel supports that.
    Memory {
        mode: u32,
        size: Option<u64>,
    },
    HugePages {
        mode: u32,
        size: Option<u64>,
        page_size: Option<u64>,
    },
}

impl Base {
    /// `None` for a source that needs no directory of its own.
    pub(crate) fn of(source: &Source) -> Option<Self> {
        match source {
            Source::EmptyDir(empty) => Some(Self::of_scratch(empty)),
            Source::Written(written) => Some(match written.kind {
                crate::kinds::WrittenKind::ConfigMap => Self::Disk { mode: DISK_MODE },
                _ => Self::Memory { mode: TMPFS_MODE, size: None },
            }),
            Source::HostPath(_) | Source::Image(_) => None,
        }
    }

    fn of_scratch(empty: &EmptyDir) -> Self {
        let (mode, size) = (empty.mode, empty.limit());
        match empty.medium {
            Medium::Disk => Self::Disk { mode: mode.unwrap_or(DISK_MODE) },
            Medium::Memory => Self::Memory { mode: mode.unwrap_or(TMPFS_MODE), size },
            Medium::HugePages { page_size } => {
                Self::HugePages { mode: mode.unwrap_or(TMPFS_MODE), size, page_size }
            }
        }
    }

    pub(crate) fn mode(self) -> u32 {
        match self {
            Self::Disk { mode } | Self::Memory { mode, .. } | Self::HugePages { mode, .. } => mode,
        }
    }

    /// The filesystem, detached; `None` for a directory on disk.
    pub(crate) fn make(self, kernel: &dyn Kernel, owner: Owner) -> Result<Option<DetachedMount>> {
        match self {
            Self::Disk { .. } => Ok(None),
            Self::Memory { mode, size } => tmpfs(kernel, mode, size, owner).map(Some),
            Self::HugePages { mode, size, page_size } => {
                Ok(Some(kernel.make_filesystem(&huge_pages(mode, size, page_size, owner))?))
            }
        }
    }
}

fn tmpfs(kernel: &dyn Kernel, mode: u32, size: Option<u64>, owner: Owner) -> Result<DetachedMount> {
    let mut options = root_options(mode, owner);
    options.extend(size.map(|size| FsOption::new("size", size)));
    options.push(FsOption::flag("noswap"));
    let unswapped = FilesystemKind::Other { name: "tmpfs".to_owned(), source: None, options };
    match kernel.make_filesystem(&Filesystem::new(unswapped)) {
        // Kernels before 6.4 do not know `noswap`.
        Err(kernel::Error::FilesystemOption { .. }) => {
            let plain = FilesystemKind::Tmpfs { size, inodes: None, mode, owner };
            Ok(kernel.make_filesystem(&Filesystem::new(plain))?)
        }
        made => Ok(made?),
    }
}

fn huge_pages(mode: u32, size: Option<u64>, page_size: Option<u64>, owner: Owner) -> Filesystem {
    let mut options = root_options(mode, owner);
    options.extend(page_size.map(|size| FsOption::new("pagesize", size)));
    options.extend(size.map(|size| FsOption::new("size", size)));
    Filesystem::new(FilesystemKind::Other { name: "hugetlbfs".to_owned(), source: None, options })
}

fn root_options(mode: u32, owner: Owner) -> Vec<FsOption> {
    let mode = FsOption::new("mode", format!("{mode:o}"));
    vec![mode, FsOption::new("uid", owner.uid), FsOption::new("gid", owner.gid)]
}

//! Opens manifests, and tells whether they are complete.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use manifest::MAX_BYTES;
use rustix::fs::{FileType, FsWord, Mode, OFlags, PROC_SUPER_MAGIC, fstat, fstatfs, open};

/// Filesystems with files that seem regular, and that wait, never end, or lose what is read: proc(5), sysfs(5),
/// debugfs and tracefs.
const NO_FILES: [FsWord; 4] = [PROC_SUPER_MAGIC, 0x6265_6572, 0x6462_6720, 0x7472_6163];

/// Metadata of a file on disk, which changes with its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    /// The metadata of the file at this path.
    pub(crate) fn at(path: &Path) -> io::Result<Self> {
        Ok(Self::of(&path.metadata()?))
    }

    fn of(found: &std::fs::Metadata) -> Self {
        Self {
            device: found.dev(),
            inode: found.ino(),
            size: found.len(),
            modified: (found.mtime(), found.mtime_nsec()),
            changed: (found.ctime(), found.ctime_nsec()),
        }
    }
}

/// What was read of a file.
#[derive(Debug)]
pub(crate) enum Content {
    /// All of it. No process had it open for writing when it was read.
    Whole(Vec<u8>),
    /// All of it. Whether a process had it open for writing cannot be known.
    Doubtful(Vec<u8>),
    /// A process has it open for writing, or it changed.
    Written,
}

/// Opens a regular file. Nothing else is opened: a named pipe has no effect, nor has a device.
///
/// # Errors
/// If it cannot be opened, or is no regular file.
pub(crate) fn open_regular(path: &Path) -> io::Result<File> {
    let found = open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    let kind = match FileType::from_raw_mode(fstat(&found)?.st_mode) {
        FileType::RegularFile if NO_FILES.contains(&fstatfs(&found)?.f_type) => "a file of the kernel",
        FileType::RegularFile => {
            let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
            let held = format!("/proc/self/fd/{}", found.as_raw_fd());
            return Ok(open(held, flags, Mode::empty())?.into());
        }
        FileType::Directory => "a directory",
        FileType::Fifo => "a named pipe",
        FileType::Socket => "a socket",
        _ => "a device",
    };
    Err(io::Error::other(format!("it is {kind}, not a regular file")))
}

/// Reads a file, and tells whether it is complete. If given, the metadata must be these.
///
/// # Errors
/// If it cannot be opened or read, or is no regular file.
pub(crate) fn read_complete(path: &Path, expected: Option<Stamp>) -> io::Result<Content> {
    let file = open_regular(path)?;
    let stamp = Stamp::of(&file.metadata()?);
    if expected.is_some_and(|expected| expected != stamp) {
        return Ok(Content::Written);
    }
    let bytes = limited(&file)?;
    // A process that writes while this reads either has the file open now, or has changed its metadata.
    let is_written = kernel::is_open_for_writing(&file);
    if matches!(is_written, Ok(true)) || Stamp::of(&file.metadata()?) != stamp {
        return Ok(Content::Written);
    }
    Ok(if is_written.is_ok() { Content::Whole(bytes) } else { Content::Doubtful(bytes) })
}

/// One byte more than is allowed is enough to report the size.
pub(super) fn limited(from: impl Read) -> io::Result<Vec<u8>> {
    let limit = u64::try_from(MAX_BYTES).unwrap_or(u64::MAX).saturating_add(1);
    let mut bytes = Vec::new();
    from.take(limit).read_to_end(&mut bytes)?;
    Ok(bytes)
}

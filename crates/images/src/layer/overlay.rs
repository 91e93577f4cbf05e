//! Whiteouts and opaque directories, as overlayfs stores them.

use std::ffi::OsStr;
use std::os::fd::AsFd;

use kernel::{Dir, Kind};
use rustix::fs::{AtFlags, FileType, Mode, XattrFlags, fgetxattr, fsetxattr, mknodat, readlinkat, statat};
use rustix::io::Errno;

const OPAQUE: &str = "trusted.overlay.opaque";

/// What a name is in one layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    Nothing,
    Whiteout,
    Directory,
    Symlink,
    /// A file, pipe or device.
    Other(Kind),
}

/// Looks up `name` in `dir`; no link is followed.
pub(crate) fn look(dir: &Dir, name: &OsStr) -> Result<Found, Errno> {
    let found = match statat(dir.as_fd(), name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(found) => found,
        Err(Errno::NOENT) => return Ok(Found::Nothing),
        Err(errno) => return Err(errno),
    };
    Ok(match FileType::from_raw_mode(found.st_mode) {
        FileType::Directory => Found::Directory,
        FileType::Symlink => Found::Symlink,
        FileType::CharacterDevice if found.st_rdev == 0 => Found::Whiteout,
        FileType::CharacterDevice => Found::Other(Kind::CharDevice),
        FileType::RegularFile => Found::Other(Kind::File),
        FileType::Fifo => Found::Other(Kind::Fifo),
        _ => Found::Other(Kind::Other),
    })
}

/// The target of a symbolic link.
pub(crate) fn read_link(dir: &Dir, name: &OsStr) -> Result<Vec<u8>, Errno> {
    Ok(readlinkat(dir.as_fd(), name, Vec::new())?.into_bytes())
}

/// Creates a whiteout of `name`.
pub(crate) fn white_out(dir: &Dir, name: &OsStr) -> Result<(), Errno> {
    mknodat(dir.as_fd(), name, FileType::CharacterDevice, Mode::empty(), 0)
}

/// Makes this directory opaque.
pub(crate) fn make_opaque(dir: &Dir) -> Result<(), Errno> {
    fsetxattr(dir.as_fd(), OPAQUE, b"y", XattrFlags::empty())
}

pub(crate) fn is_opaque(dir: &Dir) -> Result<bool, Errno> {
    let mut value = [0; 8];
    match fgetxattr(dir.as_fd(), OPAQUE, value.as_mut_slice()) {
        Ok(length) => Ok(value.get(..length) == Some(b"y")),
        Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(false),
        Err(errno) => Err(errno),
    }
}

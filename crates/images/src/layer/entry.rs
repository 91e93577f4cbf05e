use std::io::Read;

use ids::IdKind;
use kernel::Owner;

use super::meter::fault;
use super::name::{EntryPath, Meaning};
use crate::fault::Fault;
use crate::limits::AbsoluteNames;

const XATTR: &str = "SCHILY.xattr.";
const SPARSE: &str = "GNU.sparse.";
/// The highest ID that a file can have: the one above means "unchanged" to the kernel.
const HIGHEST_ID: u64 = 4_294_967_294;

/// The device nodes that are allowed: those that debootstrap and similar tools create.
const HARMLESS: &[(u32, u32)] = &[(1, 3), (1, 5), (1, 7), (1, 8), (1, 9), (5, 0), (5, 1), (5, 2)];

/// One entry of a layer's archive, checked by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its path in the image. For a whiteout: the path that is removed.
    pub path: EntryPath,
    /// Its type.
    pub what: What,
    /// Its owner inside the container.
    pub owner: Owner,
    /// Its permissions, with set-user-ID, set-group-ID and sticky.
    pub mode: u32,
    /// Its modification time.
    pub modified: Modified,
    /// Its extended attributes, as far as they are kept.
    pub xattrs: Vec<(String, Vec<u8>)>,
}

/// A modification time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Modified {
    /// Seconds since 1970.
    pub seconds: i64,
    /// Nanoseconds.
    pub nanoseconds: u32,
}

/// The type of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// A directory.
    Directory,
    /// A file of this size.
    File(u64),
    /// A symbolic link with this target.
    Symlink(Vec<u8>),
    /// Another name of this file.
    HardLink(EntryPath),
    /// An allowed character device.
    Device(u32, u32),
    /// A named pipe.
    Fifo,
    /// A whiteout: the layers below have nothing here.
    Whiteout,
    /// An opaque directory: nothing of the layers below shows.
    Opaque,
}

impl Entry {
    /// The entry, or nothing where it has no meaning for the image.
    pub(crate) fn of<R: Read>(
        entry: &mut tar::Entry<'_, R>,
        absolute: AbsoluteNames,
    ) -> Result<Option<Self>, Fault> {
        let kind = entry.header().entry_type();
        if kind.is_pax_global_extensions() {
            return Ok(None);
        }
        let path = EntryPath::new(&entry.path_bytes(), absolute)?;
        let (path, special) = match Meaning::of(path)? {
            Meaning::Meta => return Ok(None),
            Meaning::Plain(path) => (path, None),
            Meaning::Whiteout(path) => (path, Some(What::Whiteout)),
            Meaning::Opaque(path) => (path, Some(What::Opaque)),
        };
        let Extensions { xattrs, modified } = Extensions::of(entry)?;
        let what = special.map_or_else(|| what(entry, absolute), Ok)?;
        if path.names().is_empty() && !matches!(what, What::Directory | What::Opaque) {
            return Err(Fault::Name);
        }
        let header = entry.header();
        let unreadable = |error: std::io::Error| fault(&error);
        let seconds = || header.mtime().map(|seconds| i64::try_from(seconds).unwrap_or_default());
        let modified = modified.map_or_else(
            || seconds().map(|seconds| Modified { seconds, nanoseconds: 0 }).map_err(unreadable),
            Ok,
        )?;
        let owner = Owner {
            uid: id(IdKind::Uid, header.uid().map_err(unreadable)?)?,
            gid: id(IdKind::Gid, header.gid().map_err(unreadable)?)?,
        };
        let mode = header.mode().map_err(unreadable)? & 0o7777;
        Ok(Some(Self { path, what, owner, mode, modified, xattrs }))
    }
}

fn id(kind: IdKind, value: u64) -> Result<u32, Fault> {
    let id = u32::try_from(value).ok().filter(|_| value <= HIGHEST_ID);
    id.ok_or(Fault::Id { kind, value })
}

fn what<R: Read>(entry: &tar::Entry<'_, R>, absolute: AbsoluteNames) -> Result<What, Fault> {
    use tar::EntryType;
    let kind = entry.header().entry_type();
    let link = || entry.link_name_bytes().filter(|name| !name.is_empty()).ok_or(Fault::Name);
    Ok(match kind {
        // Archives older than the type for directories mark them by their name.
        EntryType::Regular if entry.path_bytes().ends_with(b"/") => What::Directory,
        EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => What::File(entry.size()),
        EntryType::Directory => What::Directory,
        EntryType::Symlink => symlink(link()?.into_owned())?,
        EntryType::Link => What::HardLink(EntryPath::new(&link()?, absolute)?),
        EntryType::Char => character_device(entry.header())?,
        EntryType::Block => {
            let (major, minor) = numbers(entry.header())?;
            return Err(Fault::Device { kind: "block", major, minor });
        }
        EntryType::Fifo => What::Fifo,
        other => return Err(Fault::Type(char::from(other.as_byte()))),
    })
}

fn symlink(target: Vec<u8>) -> Result<What, Fault> {
    if target.contains(&0) {
        return Err(Fault::Name);
    }
    Ok(What::Symlink(target))
}

/// 0:0 is an overlay's own sign for a whiteout and must not come in by another way.
fn character_device(header: &tar::Header) -> Result<What, Fault> {
    let (major, minor) = numbers(header)?;
    if !HARMLESS.contains(&(major, minor)) {
        return Err(Fault::Device { kind: "character", major, minor });
    }
    Ok(What::Device(major, minor))
}

fn numbers(header: &tar::Header) -> Result<(u32, u32), Fault> {
    let number = |found: std::io::Result<Option<u32>>| match found {
        Ok(Some(number)) => Ok(number),
        Ok(None) => Err(Fault::Unreadable("a device without numbers".to_owned())),
        Err(error) => Err(fault(&error)),
    };
    Ok((number(header.device_major())?, number(header.device_minor())?))
}

/// The PAX extensions of an entry.
struct Extensions {
    xattrs: Vec<(String, Vec<u8>)>,
    modified: Option<Modified>,
}

impl Extensions {
    fn of<R: Read>(entry: &mut tar::Entry<'_, R>) -> Result<Self, Fault> {
        let mut found = Self { xattrs: Vec::new(), modified: None };
        let Some(records) = entry.pax_extensions().map_err(|error| fault(&error))? else { return Ok(found) };
        for record in records {
            let record = record.map_err(|error| fault(&error))?;
            let Ok(key) = record.key() else { continue };
            if key.starts_with(SPARSE) {
                return Err(Fault::SparseForm);
            } else if key == "mtime" {
                found.modified = record.value().ok().and_then(modified);
            } else if let Some(name) = key.strip_prefix(XATTR) {
                found.keep_xattr(name, record.value_bytes())?;
            }
        }
        Ok(found)
    }

    /// Kept: what the image's own programs see. Dropped: SELinux labels, which the node sets, and attributes that are
    /// reserved for the kernel. Refused: attributes of overlayfs, which would control the overlay.
    fn keep_xattr(&mut self, name: &str, value: &[u8]) -> Result<(), Fault> {
        if name.starts_with("trusted.overlay.") || name.starts_with("user.overlay.") {
            return Err(Fault::Xattr { name: name.to_owned() });
        }
        let kept = name == "security.capability" || name.starts_with("user.");
        let acl = name.starts_with("system.posix_acl_");
        if (kept || acl) && !name.contains('\0') {
            self.xattrs.push((name.to_owned(), value.to_owned()));
        }
        Ok(())
    }
}

/// `1700000000.123456789`, perhaps with a minus.
fn modified(text: &str) -> Option<Modified> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let seconds: i64 = whole.parse().ok()?;
    let digits: String = fraction.chars().chain("000000000".chars()).take(9).collect();
    let nanoseconds: u32 = digits.parse().ok()?;
    if text.starts_with('-') && nanoseconds > 0 {
        return Some(Modified { seconds: seconds.checked_sub(1)?, nanoseconds: 1_000_000_000 - nanoseconds });
    }
    Some(Modified { seconds, nanoseconds })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_nanoseconds_and_may_be_before_1970() {
        let of = |seconds, nanoseconds| Some(Modified { seconds, nanoseconds });
        assert_eq!(modified("12"), of(12, 0));
        assert_eq!(modified("12.5"), of(12, 500_000_000));
        assert_eq!(modified("12.1234567899"), of(12, 123_456_789));
        assert_eq!(modified("-1.25"), of(-2, 750_000_000));
        assert_eq!(modified("x"), None);
    }

    #[test]
    fn the_id_that_means_unchanged_is_no_owner() {
        assert_eq!(id(IdKind::Uid, HIGHEST_ID), Ok(4_294_967_294));
        assert!(id(IdKind::Uid, HIGHEST_ID + 1).is_err());
        assert!(id(IdKind::Gid, u64::MAX).is_err());
    }
}

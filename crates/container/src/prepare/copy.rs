//! A directory of an image copied with all that makes its files what they are: owners, permissions, links,
//! holes, times and attributes.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CStr;
use std::fs::{self, File, Metadata, Permissions};
use std::io::{self, Read, Seek, SeekFrom as From};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, lchown, symlink};
use std::path::{Path, PathBuf};

use kernel::Owner;
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, SeekFrom, Timespec, Timestamps, XattrFlags, llistxattr, llistxattr_query,
    lsetxattr, mknodat, seek, utimensat,
};
use rustix::io::Errno;

use super::attribute::{NAMING_IDS, read};
use super::owner::NewOwner;
use crate::error::{Error, Result};

/// How much of one image may be copied that was copied before: an image can name one directory by many paths,
/// and one file in many directories.
const MOST_AGAIN: u64 = 1 << 30;
/// What a file costs however short it is.
const BLOCK: u64 = 4096;

/// What has been copied of an image.
#[derive(Debug, Default)]
pub(super) struct Copied {
    known: BTreeSet<(u64, u64)>,
    again: u64,
}

impl Copied {
    /// Counts one more file before it is copied.
    fn count(&mut self, file: &Metadata, path: &Path) -> Result<()> {
        if !self.known.insert((file.dev(), file.ino())) {
            self.again = self.again.saturating_add(file.blocks().saturating_mul(512).max(BLOCK));
        }
        if self.again <= MOST_AGAIN {
            return Ok(());
        }
        let why = "the volumes of its image would hold more than 1 GiB of it several times";
        Err(Error::UnfitFile { file: path.to_owned(), why })
    }
}

/// Copies what is in `from`, and what `from` itself is, into the empty directory `to`.
pub(super) fn copy(from: &Path, to: &Path, owner: NewOwner<'_>, copied: &mut Copied) -> Result<()> {
    let mut copying = Copying { from, to, owner, copied, links: BTreeMap::new() };
    let mut directories = Vec::new();
    let mut left = vec![PathBuf::new()];
    while let Some(dir) = left.pop() {
        for entry in fs::read_dir(from.join(&dir)).map_err(failed("read", &from.join(&dir)))? {
            let rel = dir.join(entry.map_err(failed("read", from))?.file_name());
            if copying.one(&rel)? {
                left.push(rel);
            }
        }
        directories.push(dir);
    }
    // Adding entries to a directory changed its time; and a directory without write permission is filled by then.
    directories.iter().rev().try_for_each(|dir| copying.dress(dir, &look(&from.join(dir))?))
}

struct Copying<'a> {
    from: &'a Path,
    to: &'a Path,
    owner: NewOwner<'a>,
    copied: &'a mut Copied,
    /// The first copy of each file that has several names.
    links: BTreeMap<(u64, u64), PathBuf>,
}

impl Copying<'_> {
    /// Whether it is a directory, which is filled and dressed later.
    fn one(&mut self, rel: &Path) -> Result<bool> {
        let (from, to) = (self.from.join(rel), self.to.join(rel));
        let metadata = look(&from)?;
        // More names of a file that this copy has cost nothing.
        if !self.links.contains_key(&(metadata.dev(), metadata.ino())) {
            self.copied.count(&metadata, &from)?;
        }
        if metadata.is_dir() {
            fs::create_dir(&to).map_err(failed("make", &to))?;
            return Ok(true);
        }
        let file = (metadata.dev(), metadata.ino());
        if let Some(first) = self.links.get(&file) {
            fs::hard_link(first, &to).map_err(failed("link", &to))?;
            return Ok(false);
        }
        if metadata.nlink() > 1 {
            self.links.insert(file, to.clone());
        }
        if metadata.is_symlink() {
            let leads_to = fs::read_link(&from).map_err(failed("read", &from))?;
            symlink(leads_to, &to).map_err(failed("make", &to))?;
        } else if metadata.is_file() {
            content(&from, &to)?;
        } else {
            node(&metadata, &to)?;
        }
        self.dress(rel, &metadata)?;
        Ok(false)
    }

    /// Owner first: a change of it takes away permissions and capabilities.
    fn dress(&self, rel: &Path, like: &Metadata) -> Result<()> {
        let (from, to) = (self.from.join(rel), self.to.join(rel));
        let owner = self.owner.of(Owner { uid: like.uid(), gid: like.gid() }, rel)?;
        lchown(&to, Some(owner.uid), Some(owner.gid)).map_err(failed("change the owner of", &to))?;
        if !like.is_symlink() {
            let mode = Permissions::from_mode(like.permissions().mode() & 0o7777);
            fs::set_permissions(&to, mode).map_err(failed("set the mode of", &to))?;
            self.attributes(&from, &to, rel)?;
        }
        let time = |seconds, nanos| Timespec { tv_sec: seconds, tv_nsec: nanos };
        let times = Timestamps {
            last_access: time(like.atime(), like.atime_nsec()),
            last_modification: time(like.mtime(), like.mtime_nsec()),
        };
        utimensat(CWD, &to, &times, AtFlags::SYMLINK_NOFOLLOW)
            .map_err(|errno| failed("set the time of", &to)(errno.into()))
    }

    fn attributes(&self, from: &Path, to: &Path, rel: &Path) -> Result<()> {
        for name in attribute_names(from)?.split_inclusive(|byte| *byte == 0) {
            let Some(name) = CStr::from_bytes_with_nul(name).ok().and_then(|name| name.to_str().ok()) else {
                continue;
            };
            // Labels are set by the host, and an overlay's own attributes belong to that overlay alone.
            if !name.starts_with("user.") && !NAMING_IDS.contains(&name) {
                continue;
            }
            if let Some(value) = read(from, name)? {
                let value = self.owner.attribute(name, value, rel)?;
                lsetxattr(to, name, &value, XattrFlags::empty())
                    .map_err(|errno| failed("set the attributes of", to)(errno.into()))?;
            }
        }
        Ok(())
    }
}

/// The names of a file's attributes, each with a NUL.
fn attribute_names(path: &Path) -> Result<Vec<u8>> {
    let reading = |errno: Errno| failed("read the attributes of", path)(errno.into());
    let mut names = match llistxattr_query(path) {
        Ok(0) | Err(Errno::OPNOTSUPP) => return Ok(Vec::new()),
        Ok(length) => vec![0; length],
        Err(errno) => return Err(reading(errno)),
    };
    let length = llistxattr(path, names.as_mut_slice()).map_err(reading)?;
    names.truncate(length);
    Ok(names)
}

/// What is no file, directory or link: a pipe, a socket, a device (which no mount of ours opens).
fn node(metadata: &Metadata, to: &Path) -> Result<()> {
    let kind = metadata.file_type();
    let kind = if kind.is_fifo() {
        FileType::Fifo
    } else if kind.is_socket() {
        FileType::Socket
    } else if kind.is_block_device() {
        FileType::BlockDevice
    } else {
        FileType::CharacterDevice
    };
    mknodat(CWD, to, kind, Mode::RUSR, metadata.rdev()).map_err(|errno| failed("make", to)(errno.into()))
}

/// Holes stay holes.
fn content(from: &Path, to: &Path) -> Result<()> {
    let reading = failed("read", from);
    let mut source = File::open(from).map_err(failed("open", from))?;
    let mut target = File::create_new(to).map_err(failed("make", to))?;
    let length = source.metadata().map_err(reading)?.len();
    target.set_len(length).map_err(failed("write", to))?;
    let mut at = 0;
    while at < length {
        let start = match seek(&source, SeekFrom::Data(at)) {
            Ok(start) => start,
            // Nothing but a hole to the end.
            Err(Errno::NXIO) => break,
            Err(errno) => return Err(failed("read", from)(errno.into())),
        };
        let end = seek(&source, SeekFrom::Hole(start)).map_err(|errno| failed("read", from)(errno.into()))?;
        part(&mut source, &mut target, start..end).map_err(failed("copy", to))?;
        at = end;
    }
    Ok(())
}

fn part(source: &mut File, target: &mut File, range: std::ops::Range<u64>) -> io::Result<()> {
    source.seek(From::Start(range.start))?;
    target.seek(From::Start(range.start))?;
    let copied = io::copy(&mut source.take(range.end - range.start), target)?;
    if copied == range.end - range.start { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

fn look(path: &Path) -> Result<Metadata> {
    fs::symlink_metadata(path).map_err(failed("look at", path))
}

fn failed(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error + use<> {
    let path = path.to_owned();
    move |cause| Error::File { what, path, cause }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_copied_again_and_again_is_counted_and_at_last_refused() {
        let dir = tempfile::tempdir().unwrap();
        let from = dir.path().join("from");
        fs::create_dir(&from).unwrap();
        fs::write(from.join("file"), "text").unwrap();
        let mut copied = Copied { again: MOST_AGAIN - 2 * BLOCK, ..Copied::default() };
        let mut into = |name: &str| {
            let to = dir.path().join(name);
            fs::create_dir(&to).unwrap();
            copy(&from, &to, NewOwner::Same, &mut copied)
        };
        into("one").unwrap();
        into("two").unwrap();
        into("three").unwrap();
        let error = into("four").unwrap_err().to_string();
        assert!(error.contains("several times"), "{error}");
    }
}

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::fault::Fault;
use crate::install::Site;
use crate::layer::compression::{Compression, uncompressed};
use crate::layer::name::EntryPath;
use crate::limits::AbsoluteNames;
use crate::progress::{Step, told};

/// An image's archive holds a few files for each layer.
const MOST_ENTRIES: usize = 20_000;
/// Headers of an image's archive are small; its reader keeps them in memory.
const MOST_HEADER_BYTES: u64 = 64 << 20;

/// An uncompressed tar archive on disk, with the positions of its members.
pub(super) struct Archive {
    file: File,
    path: PathBuf,
    members: BTreeMap<String, Member>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Member {
    At {
        offset: u64,
        size: u64,
    },
    /// Older docker archives name a layer that they hold twice by a link.
    Link(String),
}

impl Archive {
    pub(super) fn open(path: &Path, site: &Site<'_>) -> Result<Self> {
        let file = plain(path, site)?;
        let members = index(&file, path)?;
        Ok(Self { file, path: path.to_owned(), members })
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.members.contains_key(name)
    }

    /// The content of `name`, and its size.
    pub(super) fn open_member(&self, name: &str) -> Result<(Box<dyn Read + '_>, u64)> {
        let missing = || Error::NotAnImage { path: self.path.clone(), why: format!("it has no {name}") };
        let found = match self.members.get(name).ok_or_else(missing)? {
            Member::Link(target) => self.members.get(target).ok_or_else(missing)?,
            found @ Member::At { .. } => found,
        };
        match *found {
            Member::At { offset, size } => {
                Ok((Box::new(Slice { file: &self.file, at: offset, end: offset + size }), size))
            }
            Member::Link(_) => Err(missing()),
        }
    }
}

/// A part of a file; several can be read at once.
struct Slice<'a> {
    file: &'a File,
    at: u64,
    end: u64,
}

impl Read for Slice<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.end - self.at).unwrap_or(usize::MAX);
        let most = buffer.len().min(left);
        let count = self.file.read_at(buffer.get_mut(..most).unwrap_or_default(), self.at)?;
        self.at += u64::try_from(count).unwrap_or_default();
        Ok(count)
    }
}

/// The archive itself if it is seekable, else a copy.
fn plain(path: &Path, site: &Site<'_>) -> Result<File> {
    let cannot = |error| Error::io("read", path)(error);
    let mut file = File::open(path).map_err(cannot)?;
    let mut start = [0; 8];
    if file.metadata().map_err(cannot)?.is_file() {
        let count = file.read_at(&mut start, 0).map_err(cannot)?;
        if Compression::of(start.get(..count).unwrap_or_default()) == Compression::None {
            return Ok(file);
        }
    }
    let copy_path = site.work.path().join("archive.tar");
    let mut copy = File::create_new(&copy_path).map_err(Error::io("make", &copy_path))?;
    let what = path.display().to_string();
    let limit = site.limits.stream_bytes;
    let unreadable =
        |error: io::Error| Error::Layer { layer: what.clone(), fault: Fault::Unreadable(error.to_string()) };
    let mut stream = uncompressed(&mut file).map_err(unreadable)?;
    let mut done = 0;
    loop {
        let count = io::copy(&mut stream.by_ref().take(1 << 20), &mut copy).map_err(unreadable)?;
        done += count;
        told(site.progress, Step::Reading { what: &what, done })?;
        if done > limit {
            let fault = Fault::Limit { what: "bytes in the uncompressed archive", limit };
            return Err(Error::Layer { layer: what, fault });
        }
        if count == 0 {
            break;
        }
    }
    File::open(&copy_path).map_err(Error::io("read", &copy_path))
}

/// Counts what is read, which is headers only: contents are skipped by seeking.
struct Headers<'a> {
    file: BufReader<&'a File>,
    left: u64,
}

impl Read for Headers<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read(buffer)?;
        let limit = Fault::Limit { what: "bytes of headers", limit: MOST_HEADER_BYTES };
        self.left =
            self.left.checked_sub(u64::try_from(count).unwrap_or(u64::MAX)).ok_or(io::Error::other(limit))?;
        Ok(count)
    }
}

impl Seek for Headers<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}

fn index(file: &File, path: &Path) -> Result<BTreeMap<String, Member>> {
    let layer = path.display().to_string();
    let whole = |fault: Fault| Error::Layer { layer: layer.clone(), fault };
    let unreadable = |error: io::Error| whole(Fault::Unreadable(error.to_string()));
    let length = file.metadata().map_err(unreadable)?.len();
    let mut archive = tar::Archive::new(Headers { file: BufReader::new(file), left: MOST_HEADER_BYTES });
    let mut members = BTreeMap::new();
    let mut last = None;
    for entry in archive.entries_with_seek().map_err(unreadable)? {
        let entry = match (entry, &last) {
            (Ok(entry), _) => entry,
            (Err(error), None) => {
                return Err(Error::NotAnImage { path: path.to_owned(), why: format!("no archive: {error}") });
            }
            (Err(error), Some(last)) => {
                let fault = Fault::Unreadable(error.to_string());
                return Err(Error::Entry { layer, entry: format!("{last} (after it)"), fault });
            }
        };
        let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let member = member(&entry, length);
        if let Some((name, member)) =
            member.map_err(|fault| Error::Entry { layer: layer.clone(), entry: name.clone(), fault })?
        {
            // Other tools would read two members of one name differently.
            if members.insert(name.clone(), member).is_some() {
                let fault = Fault::Unreadable("it is there twice".to_owned());
                return Err(Error::Entry { layer, entry: name, fault });
            }
        }
        if members.len() > MOST_ENTRIES {
            return Err(whole(Fault::Limit { what: "entries in the archive", limit: 20_000 }));
        }
        last = Some(name);
    }
    Ok(members)
}

fn member<R: Read>(entry: &tar::Entry<'_, R>, length: u64) -> Result<Option<(String, Member)>, Fault> {
    let path = EntryPath::new(&entry.path_bytes(), AbsoluteNames::Refused)?;
    let name = path.to_path().to_string_lossy().into_owned();
    let kind = entry.header().entry_type();
    if kind.is_file() {
        let (offset, size) = (entry.raw_file_position(), entry.size());
        if offset.checked_add(size).is_none_or(|end| end > length) {
            return Err(Fault::Truncated { expected: size, found: length.saturating_sub(offset) });
        }
        return Ok(Some((name, Member::At { offset, size })));
    }
    if kind.is_hard_link() || kind.is_symlink() {
        let target = entry.link_name_bytes().unwrap_or_default();
        let base = if kind.is_symlink() { path.to_path().parent().map(Path::to_owned) } else { None };
        return Ok(inside(base.unwrap_or_default(), &target).map(|target| (name, Member::Link(target))));
    }
    Ok(None)
}

/// The target of a link, from the archive's root; nothing if that is outside.
fn inside(base: PathBuf, target: &[u8]) -> Option<String> {
    let mut path = base;
    for part in std::str::from_utf8(target).ok()?.split('/') {
        match part {
            "" | "." => {}
            ".." => path = path.parent()?.to_owned(),
            name => path.push(name),
        }
    }
    Some(path.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_of_an_archive_stays_in_it() {
        assert_eq!(inside("a".into(), b"../b/layer.tar").as_deref(), Some("b/layer.tar"));
        assert_eq!(inside("a".into(), b"../../etc"), None);
        assert_eq!(inside(PathBuf::new(), b"b/layer.tar").as_deref(), Some("b/layer.tar"));
    }
}

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use kernel::{Dir, Kind, LastLink, Within};
use rustix::fs::OFlags;

use super::archive::Archive;
use crate::digest::Digest;
use crate::error::{Error, Result};
use crate::install::Site;
use crate::json::LONGEST;
use crate::manifest::Descriptor;

/// The content of an import: members by name.
pub(super) struct Content {
    path: PathBuf,
    held: Held,
}

enum Held {
    Archive(Archive),
    Directory(Dir),
}

impl Content {
    pub(super) fn open(path: &Path, site: &Site<'_>) -> Result<Self> {
        let found = std::fs::metadata(path).map_err(Error::io("read", path))?;
        let held = if found.is_dir() {
            let whole = std::path::absolute(path).map_err(Error::io("find", path))?;
            Held::Directory(Dir::open(&whole)?)
        } else {
            Held::Archive(Archive::open(path, site)?)
        };
        Ok(Self { path: path.to_owned(), held })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn has(&self, name: &str) -> bool {
        match &self.held {
            Held::Archive(archive) => archive.has(name),
            Held::Directory(dir) => dir.node(Path::new(name), Within::Beneath, LastLink::Follow).is_ok(),
        }
    }

    /// The content `name` and its size.
    pub(super) fn open_named(&self, name: &str) -> Result<(Box<dyn Read + '_>, u64)> {
        match &self.held {
            Held::Archive(archive) => archive.open_member(name),
            Held::Directory(dir) => {
                let (file, size) = self.file(dir, name)?;
                Ok((Box::new(file), size))
            }
        }
    }

    fn file(&self, dir: &Dir, name: &str) -> Result<(File, u64)> {
        let node = dir.node(Path::new(name), Within::Beneath, LastLink::Follow)?;
        let stat = node.stat()?;
        if stat.kind != Kind::File {
            let why = format!("{name} is no file");
            return Err(Error::NotAnImage { path: self.path.clone(), why });
        }
        Ok((node.reopen(OFlags::RDONLY)?, stat.size))
    }

    /// A manifest, index or configuration.
    pub(super) fn read(&self, name: &str) -> Result<Vec<u8>> {
        let what = || format!("{name} in {}", self.path.display());
        let (content, size) = self.open_named(name)?;
        if size > LONGEST {
            let why = format!("it has {size} bytes, more than {LONGEST}");
            return Err(Error::Document { what: what(), why });
        }
        let mut bytes = Vec::new();
        let cannot = |error| Error::io("read", &self.path.join(name))(error);
        content.take(LONGEST).read_to_end(&mut bytes).map_err(cannot)?;
        let found = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        if found == size { Ok(bytes) } else { Err(Error::WrongSize { what: what(), expected: size, found }) }
    }

    /// The blob's name in an OCI layout.
    pub(super) fn blob_name(digest: &Digest) -> String {
        format!("blobs/sha256/{}", digest.hex())
    }

    /// A small blob of an OCI layout, verified.
    pub(super) fn read_blob(&self, descriptor: &Descriptor) -> Result<Vec<u8>> {
        let name = Self::blob_name(&descriptor.digest);
        let bytes = self.read(&name)?;
        let what = format!("{name} in {}", self.path.display());
        let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        if length != descriptor.size {
            return Err(Error::WrongSize { what, expected: descriptor.size, found: length });
        }
        let found = Digest::of(&bytes);
        if found != descriptor.digest {
            return Err(Error::WrongDigest { what, expected: descriptor.digest.clone(), found });
        }
        Ok(bytes)
    }
}

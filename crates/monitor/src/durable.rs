//! Files that are there, whole, after a crash of the machine, or are not there.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::{Error, Result};

/// Writes a file anew.
pub fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let beside = beside(path);
    let mut file = create(&beside).map_err(Error::file("create", &beside))?;
    file.write_all(bytes).and_then(|()| file.sync_all()).map_err(Error::file("write", &beside))?;
    move_to(&beside, path)
}

/// Reads a file of at most this size; `None` if there is none.
pub fn read(path: &Path, largest: u64) -> Result<Option<Vec<u8>>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(cause) => return Err(Error::file("open", path)(cause)),
    };
    let mut bytes = Vec::new();
    file.take(largest + 1).read_to_end(&mut bytes).map_err(Error::file("read", path))?;
    if u64::try_from(bytes.len()).is_ok_and(|size| size > largest) {
        return Err(Error::Record {
            path: path.to_owned(),
            why: format!("it has more than {largest} bytes"),
        });
    }
    Ok(Some(bytes))
}

/// Space on disk for a file that will be written once, later, when there may be none left.
#[derive(Debug)]
pub struct Reserved {
    beside: PathBuf,
    path: PathBuf,
}

impl Reserved {
    /// How many bytes it will hold for certain.
    pub const SIZE: usize = 4096;

    /// Takes the space.
    pub fn take(path: &Path) -> Result<Self> {
        let beside = beside(path);
        let mut file = create(&beside).map_err(Error::file("create", &beside))?;
        file.write_all(&[b' '; Self::SIZE]).map_err(Error::file("write", &beside))?;
        Ok(Self { beside, path: path.to_owned() })
    }

    /// Writes into the space and puts the file in its place.
    pub fn write(&self, bytes: &[u8]) -> Result<()> {
        let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        // Somebody may have removed it; then there is hope for space elsewhere.
        let mut options = File::options();
        let file = options.write(true).create(true).truncate(false).mode(0o600).open(&self.beside);
        file.and_then(|file| {
            file.write_all_at(bytes, 0)?;
            file.set_len(length)?;
            file.sync_all()
        })
        .map_err(Error::file("write", &self.beside))?;
        move_to(&self.beside, &self.path)
    }
}

impl Drop for Reserved {
    /// Gives the space back if it was not written to. What stays is a file that nobody reads.
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.beside);
    }
}

fn create(path: &Path) -> io::Result<File> {
    File::options().write(true).create(true).truncate(true).mode(0o600).open(path)
}

fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".tmp");
    name.into()
}

fn move_to(from: &Path, to: &Path) -> Result<()> {
    std::fs::rename(from, to).map_err(Error::file("write", to))?;
    let dir = to.parent().unwrap_or(Path::new("/"));
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(Error::file("sync", dir))
}

//! Disk space that is taken before it is needed.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::file::AtomicFile;

/// Space on disk for a file that is written once, later, when the disk may be full.
///
/// The space is held by the temporary file that becomes the file itself.
#[derive(Debug)]
pub struct Reserved {
    path: PathBuf,
    temporary: PathBuf,
}

impl Reserved {
    /// How many bytes fit for certain.
    pub const SIZE: usize = 4096;

    /// Takes the space for the file at `path`, in a temporary file with this suffix behind the name.
    pub fn take(path: &Path, suffix: &str) -> Result<Self> {
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(suffix);
        let reserved = Self { path: path.to_owned(), temporary: path.with_file_name(name) };
        let mut file = reserved.file().open_temporary().map_err(Error::io("create", &reserved.temporary))?;
        file.write_all(&[b' '; Self::SIZE]).map_err(Error::io("write", &reserved.temporary))?;
        Ok(reserved)
    }

    /// Writes into the space and gives the file its name; it survives power loss when this returns.
    pub fn write(&self, content: &[u8]) -> Result<()> {
        let length = u64::try_from(content.len()).unwrap_or(u64::MAX);
        // If the temporary file was removed, there may be space for another.
        let mut options = File::options();
        let file = options.write(true).create(true).truncate(false).mode(0o600).open(&self.temporary);
        file.and_then(|file| {
            file.write_all_at(content, 0)?;
            file.set_len(length)?;
            file.sync_all()
        })
        .map_err(Error::io("write", &self.temporary))?;
        self.file().publish()
    }

    fn file(&self) -> AtomicFile<'_> {
        AtomicFile::at(&self.path).temporary(self.temporary.file_name().unwrap_or_default())
    }
}

impl Drop for Reserved {
    /// Gives the space back if nothing was written. A file that stays is removed by the next writer.
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.temporary);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_space_becomes_the_file_or_is_given_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("exit.json");
        let reserved = Reserved::take(&path, ".tmp").unwrap();
        assert_eq!(dir.path().join("exit.json.tmp").metadata().unwrap().len(), 4096);
        reserved.write(b"{}").unwrap();
        drop(reserved);
        assert_eq!(std::fs::read(&path).unwrap(), b"{}");
        drop(Reserved::take(&path, ".tmp").unwrap());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}

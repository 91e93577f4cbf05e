//! Records on disk: one small file for each container, in a directory for each root.
//!
//! ```text
//! RUN/containers/ROOT/ID.json
//! ```
//!
//! They lie on a filesystem that ends with the boot, as all containers do. A name that is not there costs
//! one system call.

use std::fs::{self, DirBuilder};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use super::names::file_name;
use super::record::{Record, VERSION};
use crate::error::{Error, Result};

/// The records of a node.
#[derive(Debug, Clone)]
pub struct Records {
    dir: PathBuf,
}

impl Records {
    /// Those below a run directory.
    #[must_use]
    pub fn new(run_dir: &Path) -> Self {
        Self { dir: run_dir.join("containers") }
    }

    /// The record of a container.
    pub fn get(&self, root: &Path, id: &str) -> Result<Option<Record>> {
        read(&self.path(root, id))
    }

    /// Writes the first record of a container. There is one already: false, and nothing is changed.
    pub fn claim(&self, record: &Record) -> Result<bool> {
        let path = self.path(&record.root, &record.container);
        let temporary = self.write(record, &path)?;
        let linked = fs::hard_link(&temporary, &path);
        let _ = fs::remove_file(&temporary);
        match linked {
            Ok(()) => Ok(true),
            Err(e) if e.kind() == ErrorKind::AlreadyExists => Ok(false),
            Err(e) => Err(Error::record("cannot write", &path, e)),
        }
    }

    /// Writes a record in place of an earlier one.
    pub fn put(&self, record: &Record) -> Result<()> {
        let path = self.path(&record.root, &record.container);
        let temporary = self.write(record, &path)?;
        fs::rename(&temporary, &path).map_err(|e| Error::record("cannot write", &path, e))
    }

    /// Writes a record into a file that only this process knows.
    fn write(&self, record: &Record, path: &Path) -> Result<PathBuf> {
        let failed = |e: std::io::Error| Error::record("cannot write", path, e);
        let dir = path.parent().unwrap_or(&self.dir);
        // Pods pass through the one above to their files; what is in here is nobody's business.
        if let (false, Some(above)) = (dir.is_dir(), self.dir.parent()) {
            DirBuilder::new().recursive(true).mode(0o755).create(above).map_err(failed)?;
        }
        DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(failed)?;
        let text = serde_json::to_vec(record).map_err(|e| Error::record("cannot write", path, e))?;
        let temporary = path.with_extension(std::process::id().to_string());
        let mut options = fs::OpenOptions::new();
        let file = options.write(true).create(true).truncate(true).mode(0o600).open(&temporary);
        file.and_then(|mut file| file.write_all(&text)).map_err(|e| {
            let _ = fs::remove_file(&temporary);
            failed(e)
        })?;
        Ok(temporary)
    }

    /// Where a container's first process is written down if its caller wants that nowhere.
    #[must_use]
    pub fn pid_file(&self, root: &Path, id: &str) -> PathBuf {
        self.path(root, id).with_extension("pid")
    }

    /// Removes a container's record, if there is one.
    pub fn remove(&self, root: &Path, id: &str) -> Result<()> {
        let path = self.path(root, id);
        let _ = fs::remove_file(self.pid_file(root, id));
        match fs::remove_file(&path) {
            Err(e) if e.kind() != ErrorKind::NotFound => Err(Error::record("cannot remove", &path, e)),
            _ => Ok(()),
        }
    }

    /// Every record that can be read, and why the others cannot.
    pub fn all(&self) -> Result<(Vec<Record>, Vec<Error>)> {
        let (mut records, mut unreadable) = (Vec::new(), Vec::new());
        for root in entries(&self.dir)? {
            for path in entries(&root)? {
                if path.extension().is_none_or(|extension| extension != "json") {
                    continue;
                }
                match read(&path) {
                    Ok(record) => records.extend(record),
                    Err(e) => unreadable.push(e),
                }
            }
        }
        Ok((records, unreadable))
    }

    /// Files that one who is gone was writing a record into.
    pub(super) fn unfinished(&self) -> Result<Vec<PathBuf>> {
        let mut found = Vec::new();
        for root in entries(&self.dir)? {
            found.extend(entries(&root)?.into_iter().filter(|path| is_unfinished(path)));
        }
        Ok(found)
    }

    fn path(&self, root: &Path, id: &str) -> PathBuf {
        self.dir.join(file_name(&root.to_string_lossy())).join(format!("{}.json", file_name(id)))
    }
}

/// The number of its writer is behind the name; another process of that number only keeps it a while longer.
fn is_unfinished(path: &Path) -> bool {
    let writer = path.extension().and_then(|number| number.to_str()?.parse::<u32>().ok());
    writer.is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists())
}

fn read(path: &Path) -> Result<Option<Record>> {
    let text = match fs::read(path) {
        Ok(text) => text,
        // A name that no file can have is that of no container of ours.
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::InvalidFilename) => return Ok(None),
        Err(e) => return Err(Error::record("cannot read", path, e)),
    };
    let record: Record = serde_json::from_slice(&text).map_err(|e| Error::record("cannot use", path, e))?;
    if record.version != VERSION {
        let cause = format!("it is of version {}; this wardlet-oci knows {VERSION}", record.version);
        return Err(Error::record("cannot use", path, cause));
    }
    Ok(Some(record))
}

fn entries(dir: &Path) -> Result<Vec<PathBuf>> {
    let listed = match fs::read_dir(dir) {
        Ok(listed) => listed,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(Error::record("cannot list", dir, e)),
    };
    let paths = listed.map(|entry| entry.map(|entry| entry.path())).collect::<std::io::Result<Vec<_>>>();
    paths.map_err(|e| Error::record("cannot list", dir, e))
}

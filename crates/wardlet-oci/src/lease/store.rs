//! Records on disk: one small file for each container, in a directory for each root.
//!
//! ```text
//! RUN/containers/ROOT/ID.json
//! ```
//!
//! They lie on a filesystem that ends with the boot, as all containers do. A name that is not there costs
//! one system call.

use std::fs::{self, DirBuilder};
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use durable::{AtomicFile, Lifetime};

use super::names::file_name;
use super::record::Record;
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
        let text = self.prepare(record, &path)?;
        file(&path).create(&text).map_err(|e| failed("cannot write", &path, e))
    }

    /// Writes a record in place of an earlier one.
    pub fn put(&self, record: &Record) -> Result<()> {
        let path = self.path(&record.root, &record.container);
        let text = self.prepare(record, &path)?;
        file(&path).replace(&text).map_err(|e| failed("cannot write", &path, e))
    }

    /// The text of a record, with a directory to write it to.
    fn prepare(&self, record: &Record, path: &Path) -> Result<Vec<u8>> {
        let failed = |e: std::io::Error| Error::record("cannot write", path, e);
        let dir = path.parent().unwrap_or(&self.dir);
        // Pods pass through the one above to their files; what is in here is nobody's business.
        if let (false, Some(above)) = (dir.is_dir(), self.dir.parent()) {
            DirBuilder::new().recursive(true).mode(0o755).create(above).map_err(failed)?;
        }
        DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(failed)?;
        serde_json::to_vec(record).map_err(|e| Error::record("cannot write", path, e))
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

/// The file of a record, which lives until the next boot. Calls for one container do not wait for each other, and so
/// each has a temporary name of its own.
fn file(path: &Path) -> AtomicFile<'_> {
    let temporary = path.with_extension(std::process::id().to_string());
    AtomicFile::at(path).temporary(temporary.file_name().unwrap_or_default()).lifetime(Lifetime::Boot)
}

fn read(path: &Path) -> Result<Option<Record>> {
    match durable::read_record(path) {
        // A name that no file can have is that of no container of ours.
        Err(durable::Error::Io { cause, .. }) if cause.kind() == ErrorKind::InvalidFilename => Ok(None),
        found => found.map_err(|e| failed("cannot use", path, e)),
    }
}

fn failed(what: &'static str, path: &Path, error: durable::Error) -> Error {
    match error {
        durable::Error::Io { action: "read", cause, .. } => Error::record("cannot read", path, cause),
        durable::Error::Io { cause, .. } => Error::record(what, path, cause),
        durable::Error::Damaged { cause, .. } => Error::record(what, path, cause),
        durable::Error::Version { found, known, .. } => {
            let cause = format!("it is of version {found}; this wardlet-oci knows {known}");
            Error::record(what, path, cause)
        }
        error => Error::record(what, path, error),
    }
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

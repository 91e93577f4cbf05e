//! Records on disk: one small file for each container, in a directory for each root.
//!
//! ```text
//! RUN/containers/ROOT/ID.json
//! ```
//!
//! The run directory is on a filesystem that does not outlast the boot, as no container does. One system call shows that a
//! container has no record.
//!
//! A record belongs to the process that wrote it first ([`Creator`](crate::Creator)). Every change reads the existing
//! record and replaces or removes it under one lock, flock(2) of the directory: no call removes or replaces the record
//! of another create of the same container ID. A caller that also needs the ledger's lock takes that lock first.

use std::fs::{self, DirBuilder, File};
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use durable::{AtomicFile, Guard, Lifetime};

use crate::names::file_name;
use crate::{Error, Record, Result, gone};

/// The records of a node. All methods may be called from several processes concurrently.
#[derive(Debug, Clone)]
pub struct Records {
    dir: PathBuf,
}

impl Records {
    /// The records below a run directory (`wrapper.runDir`). Nothing is read or created yet.
    #[must_use]
    pub fn new(run_dir: &Path) -> Self {
        Self { dir: run_dir.join("containers") }
    }

    /// Reads the record of a container; `None` if there is none. It is an error if the record is damaged or has another
    /// version.
    pub fn get(&self, root: &Path, id: &str) -> Result<Option<Record>> {
        read(&self.path(root, id))
    }

    /// Writes the first record of a container, or replaces one whose container and creator are gone. Returns false, and
    /// changes nothing, if the existing record is of a container or creator that still runs.
    pub fn claim(&self, record: &Record) -> Result<bool> {
        let path = self.path(&record.root, &record.container);
        let text = self.prepare(record, &path)?;
        let _locked = lock(&path)?;
        if read(&path)?.is_some_and(|earlier| !gone(&earlier)) {
            return Ok(false);
        }
        let _ = fs::remove_file(self.pid_file(&record.root, &record.container));
        file(&path).replace(&text).map_err(|e| failed("cannot write", &path, e))?;
        Ok(true)
    }

    /// Replaces the record of a container. It is an error if the existing record has another creator, or if there is
    /// none.
    pub fn update(&self, record: &Record) -> Result<()> {
        let path = self.path(&record.root, &record.container);
        let text = self.prepare(record, &path)?;
        let _locked = lock(&path)?;
        if read(&path)?.is_none_or(|found| found.creator != record.creator) {
            return Err(Error::new("cannot write", &path, "another call has removed or replaced it"));
        }
        file(&path).replace(&text).map_err(|e| failed("cannot write", &path, e))
    }

    /// Serializes a record, and creates the directory for it.
    fn prepare(&self, record: &Record, path: &Path) -> Result<Vec<u8>> {
        let failed = |e: std::io::Error| Error::new("cannot write", path, e);
        let dir = path.parent().unwrap_or(&self.dir);
        // Processes of pods traverse the directory above to reach their files. Only root may list or read the records.
        if let (false, Some(above)) = (dir.is_dir(), self.dir.parent()) {
            DirBuilder::new().recursive(true).mode(0o755).create(above).map_err(failed)?;
        }
        DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(failed)?;
        serde_json::to_vec(record).map_err(|e| Error::new("cannot write", path, e))
    }

    /// The PID file that `wardlet-oci` gives to the runtime if the caller does not name one.
    #[must_use]
    pub fn pid_file(&self, root: &Path, id: &str) -> PathBuf {
        self.path(root, id).with_extension("pid")
    }

    /// Removes a container's record if it has the same creator as this one. Any other record is kept.
    pub fn remove(&self, record: &Record) -> Result<()> {
        let is_same = |found: &Result<Option<Record>>| match found {
            Ok(Some(found)) => found.creator == record.creator,
            _ => false,
        };
        self.remove_if(&record.root, &record.container, is_same)
    }

    /// Removes a container's record if it cannot be read. Any other record is kept.
    pub fn remove_unreadable(&self, root: &Path, id: &str) -> Result<()> {
        self.remove_if(root, id, Result::is_err)
    }

    fn remove_if(
        &self,
        root: &Path,
        id: &str,
        is_it: impl FnOnce(&Result<Option<Record>>) -> bool,
    ) -> Result<()> {
        let path = self.path(root, id);
        if !path.exists() {
            return Ok(());
        }
        let _locked = lock(&path)?;
        if !is_it(&read(&path)) {
            return Ok(());
        }
        let _ = fs::remove_file(self.pid_file(root, id));
        match fs::remove_file(&path) {
            Err(e) if e.kind() != ErrorKind::NotFound => Err(Error::new("cannot remove", &path, e)),
            _ => Ok(()),
        }
    }

    /// All records that can be read, and the errors of the others. It is an error if a directory cannot be listed.
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

    /// Temporary files of writers that ended before they renamed them.
    pub(crate) fn unfinished(&self) -> Result<Vec<PathBuf>> {
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

/// Locks the directory of a record until the guard is dropped. Waits for other holders of the lock.
fn lock(path: &Path) -> Result<Guard> {
    let dir = path.parent().unwrap_or(path);
    let open = File::open(dir).map_err(|e| Error::new("cannot open", dir, e))?;
    Guard::wait(open, dir).map_err(|e| failed("cannot lock", dir, e))
}

/// The extension is the writer's PID. If another process has that PID by now, the file is only kept longer.
fn is_unfinished(path: &Path) -> bool {
    let writer = path.extension().and_then(|number| number.to_str()?.parse::<u32>().ok());
    writer.is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists())
}

/// The file of a record, which lasts until the next boot. Several processes may write the record of one container
/// concurrently, and so each has a temporary name of its own.
fn file(path: &Path) -> AtomicFile<'_> {
    let temporary = path.with_extension(std::process::id().to_string());
    AtomicFile::at(path).temporary(temporary.file_name().unwrap_or_default()).lifetime(Lifetime::Boot)
}

fn read(path: &Path) -> Result<Option<Record>> {
    match durable::read_record(path) {
        // No container has a record under a name that the filesystem does not accept.
        Err(durable::Error::Io { cause, .. }) if cause.kind() == ErrorKind::InvalidFilename => Ok(None),
        found => found.map_err(|e| failed("cannot use", path, e)),
    }
}

fn failed(what: &'static str, path: &Path, error: durable::Error) -> Error {
    match error {
        durable::Error::Io { action: "read", cause, .. } => Error::new("cannot read", path, cause),
        durable::Error::Io { cause, .. } => Error::new(what, path, cause),
        durable::Error::Damaged { cause, .. } => Error::new(what, path, cause),
        durable::Error::Version { found, known, .. } => {
            let cause = format!("it is of version {found}; this wardlet-oci knows version {known}");
            Error::new(what, path, cause)
        }
        error => Error::new(what, path, error),
    }
}

fn entries(dir: &Path) -> Result<Vec<PathBuf>> {
    let listed = match fs::read_dir(dir) {
        Ok(listed) => listed,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(Error::new("cannot list", dir, e)),
    };
    let paths = listed.map(|entry| entry.map(|entry| entry.path())).collect::<std::io::Result<Vec<_>>>();
    paths.map_err(|e| Error::new("cannot list", dir, e))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Creator, Standing};

    /// A record with this creator, without ID mappings.
    fn record(creator: Creator) -> Record {
        let record = serde_json::json!({
            "version": 1, "root": "/r", "container": "a", "sandbox": "a",
            "pod": {"namespace": "n", "name": "p", "uid": "u"},
            "bundle": "/b", "config": "/b/config.json", "pidFile": "/nowhere/pid",
            "creator": creator, "standing": {"ward": {"holder": "a", "ids": null}},
        });
        serde_json::from_value(record).unwrap()
    }

    fn ended(began: u64) -> Creator {
        Creator::new(u32::MAX, began)
    }

    #[test]
    fn a_record_is_claimed_over_one_that_is_gone_and_over_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let records = Records::new(dir.path());
        let runs = record(Creator::own().unwrap());
        assert!(records.claim(&record(ended(1))).unwrap());
        assert!(records.claim(&runs).unwrap(), "the first creator has ended");
        assert!(!records.claim(&record(ended(2))).unwrap());
        assert_eq!(records.get(&runs.root, "a").unwrap(), Some(runs));
    }

    /// Regression: a delete or a failed create that was slower than the next create of the same container ID removed
    /// that create's record.
    #[test]
    fn a_record_of_another_creator_is_neither_removed_nor_written_to() {
        let dir = tempfile::tempdir().unwrap();
        let records = Records::new(dir.path());
        let (mine, others) = (record(ended(1)), record(ended(2)));
        records.remove(&mine).unwrap();
        assert!(records.update(&mine).is_err(), "there is none");
        assert!(records.claim(&others).unwrap());
        records.remove(&mine).unwrap();
        records.remove_unreadable(&mine.root, "a").unwrap();
        assert!(records.update(&mine).is_err());
        assert_eq!(records.get(&others.root, "a").unwrap(), Some(others.clone()));
        let later = Record { bundle: "/c".into(), ..others.clone() };
        records.update(&later).unwrap();
        assert_eq!(records.get(&others.root, "a").unwrap(), Some(later));
        records.remove(&others).unwrap();
        assert_eq!(records.get(&others.root, "a").unwrap(), None);
    }

    /// Regression: two processes that both found the earlier record gone both removed the file, the second one the new
    /// record of the first. Exactly one claim must succeed.
    #[test]
    fn of_many_that_claim_over_a_record_that_is_gone_one_succeeds() {
        let dir = tempfile::tempdir().unwrap();
        let records = Records::new(dir.path());
        let own = Creator::own().unwrap();
        for round in 0..200 {
            assert!(records.claim(&record(ended(round))).unwrap());
            let claims = |number: u32| {
                let holder = ledger::Holder::new(format!("a{number}")).unwrap();
                Record { standing: Standing::Isolated { holder, ids: None }, ..record(own) }
            };
            let won = std::thread::scope(|scope| {
                let all: Vec<_> = (0..4)
                    .map(|number| (records.clone(), claims(number)))
                    .map(|(records, claim)| scope.spawn(move || records.claim(&claim).unwrap()))
                    .collect();
                all.into_iter().map(|one| one.join().unwrap()).filter(|won| *won).count()
            });
            assert_eq!(won, 1, "round {round}");
            records.remove(&record(own)).unwrap();
        }
    }
}

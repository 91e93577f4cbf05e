use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::net::Ipv4Addr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::record::{Record, VERSION};
use crate::error::{Error, Result};

/// The files. Whoever has it holds the lock of the directory.
#[derive(Debug)]
pub(super) struct Store {
    leases: PathBuf,
    last: PathBuf,
}

/// A lease as it was found.
#[derive(Debug)]
pub(super) enum Found {
    Whole(Record),
    /// Nobody knows whose it is: the address stays out of use.
    Damaged {
        address: Ipv4Addr,
        error: Error,
    },
}

impl Store {
    pub(super) fn open(dir: &Path) -> Result<Self> {
        let leases = dir.join("leases");
        match fs::create_dir(&leases) {
            Ok(()) => sync(dir)?,
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(Error::io("cannot make", &leases)(error)),
        }
        Ok(Self { leases, last: dir.join("last") })
    }

    /// All leases. What was being written when somebody was killed is removed: nobody was told of it.
    pub(super) fn load(&self) -> Result<Vec<Found>> {
        let listed = fs::read_dir(&self.leases).map_err(Error::io("cannot list", &self.leases))?;
        let mut found = Vec::new();
        for entry in listed {
            let path = entry.map_err(Error::io("cannot list", &self.leases))?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            match name.parse::<Ipv4Addr>() {
                Ok(address) => found.push(match read(&path, address) {
                    Ok(record) => Found::Whole(record),
                    Err(error) => Found::Damaged { address, error },
                }),
                Err(_) => remove(&path)?,
            }
        }
        Ok(found)
    }

    /// Makes a new lease durable. One that is there already is an error.
    pub(super) fn add(&self, record: &Record) -> Result<()> {
        let (path, fresh) = self.write(record)?;
        // A link is made only where nothing is, unlike a rename.
        let linked = fs::hard_link(&fresh, &path).map_err(Error::io("cannot lease", &path));
        remove(&fresh)?;
        linked?;
        sync(&self.leases)
    }

    /// Changes one.
    pub(super) fn replace(&self, record: &Record) -> Result<()> {
        let (path, fresh) = self.write(record)?;
        fs::rename(&fresh, &path).map_err(Error::io("cannot replace", &path))?;
        sync(&self.leases)
    }

    /// Ends one. If that is not durable when the power goes, the lease is found again and ended again.
    pub(super) fn remove(&self, address: Ipv4Addr) -> Result<()> {
        remove(&self.leases.join(address.to_string()))
    }

    /// The address that was given last. Losing it costs only an address that has not rested long.
    pub(super) fn last(&self) -> Option<Ipv4Addr> {
        fs::read_to_string(&self.last).ok()?.trim().parse().ok()
    }

    pub(super) fn set_last(&self, address: Ipv4Addr) {
        let _ = fs::write(&self.last, address.to_string());
    }

    fn write(&self, record: &Record) -> Result<(PathBuf, PathBuf)> {
        let name = record.address().map(|address| address.to_string()).unwrap_or_default();
        let (path, fresh) = (self.leases.join(&name), self.leases.join(format!("{name}.new")));
        let text = serde_json::to_vec(record)
            .map_err(|error| Error::Record { path: fresh.clone(), why: error.to_string() })?;
        let write = || {
            let mut file =
                OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&fresh)?;
            file.write_all(&text)?;
            file.sync_all()
        };
        write().map_err(Error::io("cannot write", &fresh))?;
        Ok((path, fresh))
    }
}

fn read(path: &Path, address: Ipv4Addr) -> Result<Record> {
    let text = fs::read(path).map_err(Error::io("cannot read", path))?;
    let wrong = |why: String| Error::Record { path: path.to_owned(), why };
    let record: Record = serde_json::from_slice(&text).map_err(|error| wrong(error.to_string()))?;
    if record.version != VERSION {
        return Err(wrong(format!(
            "it is of version {}; this wardlet knows version {VERSION}",
            record.version
        )));
    }
    if record.address() != Some(address) {
        return Err(wrong("it is the lease of another address".to_owned()));
    }
    Ok(record)
}

fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(Error::io("cannot remove", path)(error)),
        _ => Ok(()),
    }
}

fn sync(dir: &Path) -> Result<()> {
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(Error::io("cannot sync", dir))
}

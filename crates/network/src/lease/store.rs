use std::fs;
use std::io::ErrorKind;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use durable::AtomicFile;

use super::record::Record;
use crate::error::{Error, Result};

/// The files. The owner of this value holds the lock of the directory.
#[derive(Debug)]
pub(super) struct Store {
    leases: PathBuf,
    last: PathBuf,
}

/// A lease as it was found.
#[derive(Debug)]
pub(super) enum Found {
    Whole(Record),
    /// The holder is unknown: the address stays out of use.
    Damaged {
        address: Ipv4Addr,
        error: Error,
    },
}

impl Store {
    pub(super) fn open(dir: &Path) -> Result<Self> {
        let leases = dir.join("leases");
        durable::make_dirs(&leases, 0o755)?;
        Ok(Self { leases, last: dir.join("last") })
    }

    /// All leases. Temporary files of a process that was killed while it wrote are removed: no caller has got those
    /// leases.
    pub(super) fn load(&self) -> Result<Vec<Found>> {
        let listed = fs::read_dir(&self.leases).map_err(Error::io("list", &self.leases))?;
        let mut found = Vec::new();
        for entry in listed {
            let path = entry.map_err(Error::io("list", &self.leases))?.path();
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

    /// Writes a new lease. One that exists already is an error.
    pub(super) fn add(&self, record: &Record) -> Result<()> {
        let (path, text) = self.text(record)?;
        match AtomicFile::at(&path).create(&text)? {
            true => Ok(()),
            false => Err(Error::io("lease", &path)(ErrorKind::AlreadyExists.into())),
        }
    }

    /// Replaces a lease.
    pub(super) fn replace(&self, record: &Record) -> Result<()> {
        let (path, text) = self.text(record)?;
        Ok(durable::write(&path, &text)?)
    }

    /// Removes a lease. If the removal is lost with the power, the lease is found and removed again.
    pub(super) fn remove(&self, address: Ipv4Addr) -> Result<()> {
        remove(&self.leases.join(address.to_string()))
    }

    /// The address that was leased last. Without it, an address may be leased again sooner.
    pub(super) fn last(&self) -> Option<Ipv4Addr> {
        fs::read_to_string(&self.last).ok()?.trim().parse().ok()
    }

    pub(super) fn set_last(&self, address: Ipv4Addr) {
        let _ = fs::write(&self.last, address.to_string());
    }

    fn text(&self, record: &Record) -> Result<(PathBuf, Vec<u8>)> {
        let path = self.leases.join(record.address().map(|address| address.to_string()).unwrap_or_default());
        match serde_json::to_vec(record) {
            Ok(text) => Ok((path, text)),
            Err(error) => Err(Error::Record { path, why: error.to_string() }),
        }
    }
}

fn read(path: &Path, address: Ipv4Addr) -> Result<Record> {
    let wrong = |why: &str| Error::Record { path: path.to_owned(), why: why.to_owned() };
    let record: Record = durable::read_record(path)?.ok_or_else(|| wrong("it was removed meanwhile"))?;
    match record.address() == Some(address) {
        true => Ok(record),
        false => Err(wrong("it is the lease of another address")),
    }
}

fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(Error::io("remove", path)(error)),
        _ => Ok(()),
    }
}

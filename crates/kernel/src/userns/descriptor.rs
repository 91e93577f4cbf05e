use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use ids::{IdKind, IdMapping};
use rustix::fs::OFlags;
use rustix::io::Errno;

use super::charge::{Charge, without_side_effects};
use super::child::{PausedChild, ProcDir};
use super::maps::{self, IdMaps};
use crate::{Error, Result};

/// A user namespace with its maps set and no process in it, kept alive by this descriptor.
#[derive(Debug)]
pub struct UsernsFd {
    fd: OwnedFd,
    maps: IdMaps,
}

impl UsernsFd {
    /// Creates a user namespace with these lines, counted against the caller. The process that it takes is gone on
    /// return.
    pub fn create(uids: &[IdMapping], gids: &[IdMapping]) -> Result<Self> {
        Self::charged(&IdMaps::new(uids, gids), Charge::Caller)
    }

    /// The same, counted against the user of `charge`. If a thread cannot become that user, there is an error and no
    /// namespace.
    pub fn charged(maps: &IdMaps, charge: Charge) -> Result<Self> {
        match (charge, maps.first_user()) {
            (Charge::Pod, Some(user)) => {
                without_side_effects(|| Self::make(&PausedChild::start_as(user)?, maps))
            }
            // Without a line there is no user to count; the kernel will refuse the empty map.
            (Charge::Caller, _) | (Charge::Pod, None) => Self::make(&PausedChild::start()?, maps),
        }
    }

    fn make(child: &PausedChild, maps: &IdMaps) -> Result<Self> {
        let dir = child.proc_dir()?;
        write_map(&dir, IdKind::Uid, maps)?;
        write_map(&dir, IdKind::Gid, maps)?;
        let fd = dir.open("ns/user", OFlags::RDONLY)?;
        Ok(Self { fd: fd.into(), maps: maps.clone() })
    }

    /// A foreign user namespace with its maps as seen from here, if the descriptor is one.
    pub(super) fn of_existing(fd: OwnedFd) -> Result<Self> {
        let maps = IdMaps::read(&fd)?;
        Ok(Self { fd, maps })
    }

    /// One whose maps were read already.
    pub(super) fn known(fd: OwnedFd, maps: IdMaps) -> Self {
        Self { fd, maps }
    }

    /// For an implementation that creates nothing.
    pub(crate) fn pretended(fd: OwnedFd, maps: IdMaps) -> Self {
        Self { fd, maps }
    }

    /// Its maps.
    #[must_use]
    pub fn maps(&self) -> &IdMaps {
        &self.maps
    }
}

impl IdMaps {
    /// Those of a user namespace, as seen from here; empty before they are written. The kernel shows them
    /// only through a process in it: one is there for that moment, and the caller needs
    /// `CAP_SYS_ADMIN` over it.
    pub fn read(namespace: impl AsFd) -> Result<Self> {
        without_side_effects(|| {
            let child = PausedChild::start_in(namespace.as_fd())?;
            let dir = child.proc_dir()?;
            Ok(Self { uids: read_map(&dir, IdKind::Uid)?, gids: read_map(&dir, IdKind::Gid)? })
        })
    }
}

impl AsFd for UsernsFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn file(kind: IdKind) -> &'static str {
    match kind {
        IdKind::Uid => "uid_map",
        IdKind::Gid => "gid_map",
    }
}

fn write_map(dir: &ProcDir, kind: IdKind, maps: &IdMaps) -> Result<()> {
    let lines = maps::text(maps.lines(kind));
    // The kernel takes the whole map in one write, once.
    write_once(dir.open(file(kind), OFlags::WRONLY)?, &lines).map_err(|errno| Error::WriteMap {
        kind,
        lines: lines.trim_end().to_owned(),
        errno,
    })
}

fn write_once(mut file: File, text: &str) -> std::result::Result<(), Errno> {
    match file.write(text.as_bytes()) {
        Ok(written) if written == text.len() && written > 0 => Ok(()),
        Ok(_) => Err(Errno::INVAL),
        Err(error) => Err(Errno::from_io_error(&error).unwrap_or(Errno::IO)),
    }
}

pub(super) fn read_map(dir: &ProcDir, kind: IdKind) -> Result<Vec<IdMapping>> {
    let mut text = String::new();
    let read = dir.open(file(kind), OFlags::RDONLY)?.read_to_string(&mut text);
    read.map_err(|error| Error::ReadMap { kind, found: error.to_string() })?;
    maps::parse(&text).ok_or_else(|| Error::ReadMap { kind, found: text.trim().to_owned() })
}

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use ids::{IdKind, IdMapping};
use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::child::{PausedChild, ProcDir};
use crate::{Error, Result};

/// A user namespace with its maps set and no process in it, kept alive by this descriptor.
#[derive(Debug)]
pub struct UsernsFd(OwnedFd);

impl UsernsFd {
    /// A new user namespace with these lines. The process it takes to make one is gone on return.
    pub fn create(uids: &[IdMapping], gids: &[IdMapping]) -> Result<Self> {
        let child = PausedChild::start()?;
        let dir = child.proc_dir()?;
        write_map(&dir, IdKind::Uid, uids)?;
        write_map(&dir, IdKind::Gid, gids)?;
        dir.open("ns/user", OFlags::RDONLY).map(|file| Self(file.into()))
    }
}

impl AsFd for UsernsFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn write_map(dir: &ProcDir, kind: IdKind, mappings: &[IdMapping]) -> Result<()> {
    let file = match kind {
        IdKind::Uid => "uid_map",
        IdKind::Gid => "gid_map",
    };
    let lines = map_lines(mappings);
    // The kernel takes the whole map in one write, once.
    write_once(dir.open(file, OFlags::WRONLY)?, &lines).map_err(|errno| Error::WriteMap {
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

fn map_lines(mappings: &[IdMapping]) -> String {
    mappings.iter().map(|m| format!("{} {} {}\n", m.container(), m.host().first(), m.length())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_is_written_as_container_host_length() {
        let lines = [IdMapping::new(0, 65_536, 10).unwrap(), IdMapping::new(10, 131_072, 5).unwrap()];
        assert_eq!(map_lines(&lines), "0 65536 10\n10 131072 5\n");
    }
}

use std::path::PathBuf;

use ids::IdKind;
use rustix::fs::{OFlags, fstat};

use super::child::ProcDir;
use super::descriptor::read_map;
use super::{IdMaps, UsernsFd};
use crate::{Error, Result};

const LINK: &str = "ns/user";

impl UsernsFd {
    /// The one that a process lives in, if it has these maps. Held, it stays the one that was looked at,
    /// whatever becomes of the process.
    ///
    /// No process is needed to read the maps, as one is for a namespace of which nothing else is known: the
    /// kernel lets a process go deeper into user namespaces and never back, so that the maps of one that is
    /// in the same before and after are those of that one.
    pub fn of_process(pid: u32, wanted: &IdMaps) -> Result<Self> {
        let path = PathBuf::from(format!("/proc/{pid}"));
        let dir = ProcDir::open_at(path.clone())?;
        let fd = dir.open(LINK, OFlags::RDONLY)?;
        let found = IdMaps { uids: read_map(&dir, IdKind::Uid)?, gids: read_map(&dir, IdKind::Gid)? };
        let link = || path.join(LINK);
        let inode = |of: &std::fs::File| match fstat(of) {
            Ok(stat) => Ok(stat.st_ino),
            Err(errno) => Err(Error::Stat { path: link(), errno }),
        };
        let other = |found: String| Err(Error::OtherPin { path: link(), found });
        if inode(&dir.open(LINK, OFlags::RDONLY)?)? != inode(&fd)? {
            return other("its process went into another one".to_owned());
        }
        if !found.same(wanted) {
            return other(format!("it maps {found} and not {wanted}"));
        }
        Ok(Self::known(fd.into(), found))
    }
}

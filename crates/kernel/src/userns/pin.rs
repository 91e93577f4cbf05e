use std::ffi::OsString;
use std::hash::Hasher as _;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use fnv::FnvHasher;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::{IdMaps, UsernsFd};
use crate::namespace::{Namespace, NamespaceKind, is_namespace};
use crate::{Error, Result};

impl UsernsFd {
    /// Keeps it alive at `path`, as [`Namespace::pin`] does.
    pub fn pin(&self, path: &Path) -> Result<()> {
        let fd = self.as_fd().try_clone_to_owned();
        let fd = fd.map_err(|error| Error::Pin {
            path: path.to_owned(),
            errno: Errno::from_io_error(&error).unwrap_or(Errno::IO),
        })?;
        Namespace::of(fd)?.pin(path)
    }

    /// What is pinned at `path`, if it has these maps; `None` if nothing is pinned there (as after a
    /// reboot, which leaves the file). What the kernel says of its maps is what counts, not its name.
    pub fn from_pin(path: &Path, wanted: &IdMaps) -> Result<Option<Self>> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = match rustix::fs::open(path, flags, Mode::empty()) {
            Ok(file) => file,
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(Error::Open { path: path.to_owned(), errno }),
        };
        if !is_namespace(&file).map_err(|errno| Error::Stat { path: path.to_owned(), errno })? {
            return Ok(None);
        }
        Self::with_maps(file, path, wanted).map(Some)
    }

    fn with_maps(file: OwnedFd, path: &Path, wanted: &IdMaps) -> Result<Self> {
        let other = |found: String| Error::OtherPin { path: path.to_owned(), found };
        let kind = Namespace::of(file.try_clone().map_err(|error| other(error.to_string()))?)?.kind();
        if kind != NamespaceKind::User {
            return Err(other(format!("it is a {kind} namespace")));
        }
        let found = Self::of_existing(file)?;
        if found.maps().same(wanted) {
            return Ok(found);
        }
        Err(other(format!("it maps {} and not {wanted}", found.maps())))
    }

    /// Takes a pin away, as [`Namespace::unpin`] does.
    pub fn unpin(path: &Path) -> Result<()> {
        Namespace::unpin(path)
    }
}

/// The file that a map's namespace is pinned at.
pub(super) fn name_of(maps: &IdMaps) -> OsString {
    let words = maps.to_string().replace([' ', ','], "_").replace(':', "-");
    // Longer ones by a number of their own: two maps with one number would only refuse each other.
    if words.len() <= 120 { words.into() } else { format!("map-{:016x}", fnv(&words)).into() }
}

/// FNV-1a: the same in every build, unlike the standard library's hash.
fn fnv(text: &str) -> u64 {
    let mut hasher = FnvHasher::default();
    hasher.write(text.as_bytes());
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use ids::IdMapping;

    use super::*;

    #[test]
    fn names_are_plain_and_short() {
        let lines: Vec<_> = (0..20).map(|n| IdMapping::new(n * 10, n * 100 + 7, 10).unwrap()).collect();
        let one = IdMaps::new(&lines[..1], &lines[..1]);
        assert_eq!(name_of(&one), "0-7-10");
        assert_eq!(name_of(&IdMaps::new(&lines[..1], &lines[1..2])), "0-7-10_and_groups_10-107-10");
        let long = name_of(&IdMaps::new(&lines, &lines));
        assert!(long.to_str().unwrap().starts_with("map-") && long.len() == 20);
    }
}

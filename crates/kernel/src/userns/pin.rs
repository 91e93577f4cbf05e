use std::ffi::OsString;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags, fstatfs};
use rustix::io::Errno;

use super::{IdMaps, UsernsFd};
use crate::mount::{DetachedMount, Source, Submounts, Target, Unmount, unmount};
use crate::namespace::{Namespace, NamespaceKind};
use crate::{Error, Result};

/// The magic number of the filesystem that namespaces are files of ("nsfs").
const NSFS: i64 = 0x6e73_6673;

impl UsernsFd {
    /// Keeps it alive at `path`, also when this process is gone: a file that is made if there is none.
    /// The path must be on a mount that is private, or every mount namespace would get a pin of its own.
    pub fn pin(&self, path: &Path) -> Result<()> {
        let failed = |errno| Error::Pin { path: path.to_owned(), errno };
        let flags = OFlags::CREATE | OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::open(path, flags, Mode::RUSR).map_err(failed)?;
        if is_namespace(&file).map_err(failed)? {
            return Err(failed(Errno::EXIST));
        }
        DetachedMount::clone_of(Source::Node(self.as_fd()), Submounts::Without)?
            .attach_to(Target::Node(file.as_fd()))
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
        let other = |found: String| Error::OtherPin { path: path.to_owned(), found };
        let kind = Namespace::of(file.try_clone().map_err(|error| other(error.to_string()))?)?.kind();
        if kind != NamespaceKind::User {
            return Err(other(format!("it is a {kind} namespace")));
        }
        let found = Self::of_existing(file)?;
        if found.maps().same(wanted) {
            return Ok(Some(found));
        }
        Err(other(format!("it maps {} and not {wanted}", found.maps())))
    }

    /// Takes a pin away, with its file. Nothing there is fine; a file that is no pin is only removed if
    /// it is empty.
    pub fn unpin(path: &Path) -> Result<()> {
        match unmount(path, Unmount::Lazy) {
            Ok(()) | Err(Error::NotMounted { .. } | Error::Unmount { errno: Errno::NOENT, .. }) => {}
            Err(error) => return Err(error),
        }
        match std::fs::symlink_metadata(path) {
            Ok(meta) if meta.is_file() && meta.len() == 0 => {
                rustix::fs::unlink(path).map_err(|errno| Error::Remove { path: path.to_owned(), errno })
            }
            Ok(_) => Err(Error::OtherPin { path: path.to_owned(), found: "it is no empty file".to_owned() }),
            Err(_) => Ok(()),
        }
    }
}

fn is_namespace(file: &OwnedFd) -> std::result::Result<bool, Errno> {
    Ok(fstatfs(file)?.f_type == NSFS)
}

/// The file that a map's namespace is pinned at.
pub(super) fn name_of(maps: &IdMaps) -> OsString {
    let words = maps.to_string().replace([' ', ','], "_").replace(':', "-");
    // Longer ones by a number of their own: two maps with one number would only refuse each other.
    if words.len() <= 120 { words.into() } else { format!("map-{:016x}", fnv(&words)).into() }
}

/// Fowler, Noll and Vo's hash: the same in every build, unlike the standard library's.
fn fnv(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
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

//! Where a path of a container leads, also by links to what is not there.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use kernel::{Dir, Kind, LastLink, Within};
use rustix::io::Errno;

use crate::error::{Error, Result};

/// As the kernel has it.
const MOST_LINKS: usize = 40;

/// `below` with every link followed, `root` being the root, as far as there is something; the rest as it is written. The
/// answer has no link in it now. Whatever is made there is made without following one.
pub(super) fn followed(root: &Dir, below: &Path) -> Result<PathBuf> {
    let mut left: VecDeque<OsString> = names(below);
    let mut reached = PathBuf::new();
    let mut links = 0;
    while let Some(name) = left.pop_front() {
        if name == ".." {
            reached.pop();
            continue;
        }
        let next = reached.join(&name);
        match root.node(&next, Within::NoLinks, LastLink::Keep) {
            Ok(node) if node.stat()?.kind == Kind::Symlink => {
                links += 1;
                if links > MOST_LINKS {
                    let why = "it is behind too many links";
                    return Err(Error::Target { target: Path::new("/").join(below), why });
                }
                let text =
                    rustix::fs::readlinkat(node.as_fd(), c"", Vec::new()).map_err(|errno| Error::File {
                        what: "read the link",
                        path: Path::new("/").join(&next),
                        cause: errno.into(),
                    })?;
                let to = PathBuf::from(OsString::from_vec(text.into_bytes()));
                if to.is_absolute() {
                    reached.clear();
                }
                for name in names(&to).into_iter().rev() {
                    left.push_front(name);
                }
            }
            Ok(_) | Err(kernel::Error::Below { errno: Errno::NOENT, .. }) => reached = next,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(reached)
}

fn names(path: &Path) -> VecDeque<OsString> {
    let name = |part: Component<'_>| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    };
    path.components().filter_map(name).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_link_to_nothing_stands_for_what_it_would_lead_to() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("etc")).unwrap();
        symlink("../run/resolve/stub", dir.path().join("etc/resolv.conf")).unwrap();
        symlink("/run", dir.path().join("var-run")).unwrap();
        symlink("../../../../../out", dir.path().join("up")).unwrap();
        symlink("loop", dir.path().join("loop")).unwrap();
        let root = Dir::open(dir.path()).unwrap();
        let at = |path: &str| followed(&root, Path::new(path)).unwrap();
        assert_eq!(at("etc/resolv.conf"), Path::new("run/resolve/stub"));
        assert_eq!(at("var-run/secrets/x"), Path::new("run/secrets/x"));
        assert_eq!(at("up/x"), Path::new("out/x"));
        assert_eq!(at("new/dir"), Path::new("new/dir"));
        assert!(followed(&root, Path::new("loop/x")).is_err());
    }
}
